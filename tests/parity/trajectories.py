"""An optimizer and its float64 oracle, step by step on the same gradients."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import fallline
from tests.gradients import let_gradients_have

Array = NDArray[np.float64]

LOWERINGS: dict[str, dict[str, Any]] = {
    "auto": {},
    "eager": dict(foreach=False, fused=False),
    "foreach": dict(foreach=True, fused=False),
    "native": dict(foreach=True, fused=True),
    "native each": dict(foreach=False, fused=True),
    "compiled": dict(compiled=True),
}

# class, oracle, options: between them every option of every optimizer.
VARIANTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "sgd": ("SGD", "sgd", dict(lr=0.1)),
    "sgd decay": ("SGD", "sgd", dict(lr=0.1, weight_decay=0.02)),
    "sgd momentum": ("SGD", "sgd", dict(lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.02)),
    "sgd nesterov": ("SGD", "sgd", dict(lr=0.1, momentum=0.9, nesterov=True)),
    "adam": ("Adam", "adam", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-6)),
    "adam coupled": ("Adam", "adam", dict(lr=0.01, weight_decay=0.1)),
    "adam decoupled": ("Adam", "adam", dict(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True)),
    "adam amsgrad": ("Adam", "adam", dict(lr=0.01, betas=(0.8, 0.9), amsgrad=True)),
    "amsgrad coupled": ("AMSGrad", "adam", dict(lr=0.01, betas=(0.8, 0.9), amsgrad=True, weight_decay=0.1)),
    "amsgrad decoupled": (
        "AMSGrad",
        "adam",
        dict(lr=0.01, betas=(0.8, 0.9), amsgrad=True, weight_decay=0.1, decoupled_weight_decay=True),
    ),
    "adamw": ("AdamW", "adamw", dict(lr=0.01, weight_decay=0.1)),
    "adamw amsgrad": ("AdamW", "adamw", dict(lr=0.01, betas=(0.8, 0.9), amsgrad=True, eps=1e-3)),
    "adagrad": ("Adagrad", "adagrad", dict(lr=0.1)),
    "adagrad options": (
        "Adagrad",
        "adagrad",
        dict(lr=0.1, lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.25, eps=1e-2),
    ),
    "adagrad textbook": ("Adagrad", "adagrad", dict(lr=0.1, eps=1e-6, eps_inside=True)),
    "rmsprop": ("RMSprop", "rmsprop", dict(lr=0.01, alpha=0.9, weight_decay=0.1)),
    "rmsprop centered": ("RMSprop", "rmsprop", dict(lr=0.01, alpha=0.9, centered=True, eps=1e-3)),
    "rmsprop momentum": ("RMSprop", "rmsprop", dict(lr=0.01, alpha=0.9, momentum=0.8)),
    "rmsprop textbook": (
        "RMSprop",
        "rmsprop",
        dict(lr=0.01, alpha=0.9, centered=True, momentum=0.8, eps=1e-4, eps_inside=True),
    ),
    "lion": ("Lion", "lion", dict(lr=0.01, weight_decay=0.1, betas=(0.95, 0.98))),
}

# The same number of elements as one, two and four axes.
SHAPES: dict[int, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    0: ((0,), (0, 3), (2, 0, 3, 2)),
    1: ((1,), (1, 1), (1, 1, 1, 1)),
    3: ((3,), (3, 1), (1, 3, 1, 1)),
    22: ((22,), (2, 11), (1, 2, 11, 1)),
    4097: ((4097,), (17, 241), (1, 17, 241, 1)),
    278011: ((278011,), (173, 1607), (1, 173, 1607, 1)),
}

LAYOUTS = [
    "contiguous",
    "gapped",
    "transposed",
    "transposed gradient",
    "gapped gradient",
    "expanded gradient",
    "channels_last",
    "channels_last, gradients change",
    "states transposed",
    "0-d",
]


def shape_of(layout: str, size: int) -> tuple[int, ...]:
    if layout == "0-d":
        return ()
    flat, matrix, image = SHAPES[size]
    return image if layout.startswith("channels_last") else flat if layout == "contiguous" else matrix


def transposed(x: Tensor) -> Tensor:
    """The same values in another order in memory."""
    return x.transpose(0, 1).contiguous().transpose(0, 1)


def gapped(x: Tensor) -> Tensor:
    """The same values with gaps between them."""
    wide = x.new_full((*x.shape[:-1], 2 * x.shape[-1] + 1), torch.nan)
    view = wide[..., 1::2]
    view.copy_(x)
    return view


def lay_out(x: Tensor, layout: str) -> Tensor:
    if layout == "gapped":
        return gapped(x)
    if layout == "transposed":
        return transposed(x)
    return x.contiguous(memory_format=torch.channels_last) if layout.startswith("channels_last") else x


def lay_out_gradient(x: Tensor, layout: str, step: int) -> Tensor:
    if layout == "gapped gradient":
        return gapped(x)
    if layout in ("transposed", "transposed gradient"):
        return transposed(x)
    if layout == "expanded gradient" and x.numel():
        # The gradient of a sum over a tensor: one number for all of it.
        return x.reshape(-1)[0].expand(x.shape)
    if layout == "channels_last" or (layout.startswith("channels_last") and step % 3):
        return x.contiguous(memory_format=torch.channels_last)
    return x


UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-24, torch.float16: 2.0**-24}
"""Unit roundoff of what each dtype of parameters is computed in."""

DIGITS = {torch.bfloat16: 8, torch.float16: 11}


def half_spacing(x: Array, dtype: torch.dtype) -> Array:
    """Half the distance of neighbours of x in a 16-bit dtype: what rounding to nearest may add."""
    exponent = np.floor(np.log2(np.maximum(np.abs(x), 2.0**-14)))
    return 2.0 ** (exponent - DIGITS[dtype])


class Trajectory:
    """Several parameters, the first of the given layout and size, in some grouping."""

    def __init__(
        self,
        variant: str,
        lowering: str,
        dtype: torch.dtype = torch.float32,
        grad_dtype: torch.dtype | None = None,
        layout: str = "contiguous",
        size: int = 22,
        grouping: str = "one",
        missing: bool = False,
        lr_changes: str = "no",
        maximize: bool = False,
        seed: int = 0,
        **flags: Any,
    ) -> None:
        self.dtype, self.grad_dtype, self.layout = dtype, grad_dtype or dtype, layout
        self.class_name, oracle, self.options = VARIANTS[variant]
        self.flags = {**LOWERINGS[lowering], "maximize": maximize, **flags}
        self.master = bool(flags.get("master_weights"))
        self.missing, self.lr_changes = missing, lr_changes
        self.rng = np.random.default_rng(seed)
        shapes = [shape_of(layout, size), (5,), (), (3, 4)]
        values = [self.rng.normal(size=shape) for shape in shapes]
        start = [torch.tensor(v, dtype=torch.float64).to(dtype) for v in values]
        self.params = [lay_out(start[0], layout).requires_grad_(), *(p.requires_grad_() for p in start[1:])]
        let_gradients_have(self.grad_dtype, self.params)
        self.noise = [self.rng.normal(size=shape) for shape in shapes]
        self.members = {"one": [[0, 1, 2, 3]], "two": [[0, 3], [1, 2]], "each": [[0], [1], [2], [3]]}[grouping]
        self.lrs = [self.options["lr"] * 0.5**g for g in range(len(self.members))]
        self.lr_tensors = [torch.tensor(lr, dtype=torch.float64) for lr in self.lrs]
        self.optimizer = self.make(self.params)
        module = importlib.import_module(f"tests.oracles.{oracle}")
        options = {**self.options, "maximize": maximize}
        self.oracles = [
            module.Oracle([start[i].detach().double().numpy() for i in chosen], **{**options, "lr": lr})
            for chosen, lr in zip(self.members, self.lrs, strict=True)
        ]
        self.unsure = [np.zeros(shape, dtype=bool) for shape in shapes]
        self.largest: dict[tuple[int, str], float] = {}
        self.number = 0

    def make(self, params: list[Tensor]) -> Any:
        lrs: list[Any] = self.lr_tensors if self.lr_changes == "tensor" else self.lrs
        groups = [
            {"params": [params[i] for i in chosen], "lr": lr} for chosen, lr in zip(self.members, lrs, strict=True)
        ]
        return getattr(fallline, self.class_name)(groups, **self.options, **self.flags)

    def gradients(self) -> list[Tensor | None]:
        """This step's gradients; made from one sample of noise, since random numbers take longer than the step."""
        t = self.number
        found: list[Tensor | None] = []
        for i, noise in enumerate(self.noise):
            if self.missing and ((i == 1 and t in (0, 1, 7, 20)) or (i == 0 and t % 11 == 5)):
                found.append(None)
                continue
            scale = 10.0 ** ((t * 7 % 5 - 3) / 2)
            values = np.roll(noise, 13 * t + i) * scale * (1 if t % 2 else -1) + 0.01 * noise
            g = torch.tensor(values).to(self.grad_dtype)
            found.append(lay_out_gradient(g, self.layout, t) if i == 0 else g)
        return found

    def step(self) -> None:
        if self.number == 20 and self.lr_changes != "no":
            self.lrs = [0.3 * lr for lr in self.lrs]
            for group, oracle, lr, tensor in zip(
                self.optimizer.param_groups, self.oracles, self.lrs, self.lr_tensors, strict=True
            ):
                tensor.fill_(lr)
                if self.lr_changes == "number":
                    group["lr"] = lr
                oracle.set(lr=lr)
        grads = self.gradients()
        for p, g in zip(self.params, grads, strict=True):
            p.grad = g
        for chosen, oracle in zip(self.members, self.oracles, strict=True):
            given = [None if (g := grads[i]) is None else g.double().numpy() for i in chosen]
            if "lion" in type(oracle).__module__:
                self.note_close_signs(oracle, chosen, given)
            oracle.step(given)
        self.optimizer.step()
        self.number += 1

    def note_close_signs(self, oracle: Any, chosen: list[int], given: list[Array | None]) -> None:
        """Lion steps by a sign: where its argument cancels to nothing, rounding decides."""
        beta1 = oracle.h.betas[0]
        for i, g, state in zip(chosen, given, oracle.states, strict=True):
            if g is not None and "exp_avg" in state:
                kept, new = beta1 * state["exp_avg"], (1 - beta1) * g * (-1 if oracle.h.maximize else 1)
                self.unsure[i] |= np.abs(kept + new) < 64 * UNIT[self.dtype] * (np.abs(kept) + np.abs(new))

    def save_and_load(self) -> None:
        """Goes on with a fresh optimizer on fresh parameters."""
        copies = [torch.empty_strided(p.shape, p.stride(), dtype=p.dtype) for p in self.params]
        for copy, p in zip(copies, self.params, strict=True):
            copy.copy_(p.detach())
            copy.requires_grad_()
        let_gradients_have(self.grad_dtype, copies)
        saved = self.optimizer.state_dict()
        self.params = copies
        self.optimizer = self.make(copies)
        self.optimizer.load_state_dict(saved)
        if self.lr_changes == "tensor":
            # A loaded learning rate is a copy.
            self.lr_tensors = [group["lr"] for group in self.optimizer.param_groups]

    def transpose_states(self) -> None:
        """Gives the first parameter's states another order in memory, as a checkpoint may."""
        entry = self.optimizer.state[self.params[0]]
        for name, value in list(entry.items()):
            if value.ndim == 2:
                entry[name] = transposed(value)

    def keep_stored(self) -> None:
        """The oracle goes on from a 16-bit parameter as it was stored."""
        if self.dtype in DIGITS and not self.master:
            for chosen, oracle in zip(self.members, self.oracles, strict=True):
                oracle.params = [self.params[i].detach().double().numpy() for i in chosen]

    def check(self) -> None:
        # A handful of roundings per step; sums and weights keep the errors of all steps, means forget them.
        u = UNIT[self.dtype]
        relative = (16 + 2 * self.number) * u if u > 2.0**-50 else 1e-12
        for chosen, oracle in zip(self.members, self.oracles, strict=True):
            for position, i in enumerate(chosen):
                p, expected = self.params[i], oracle.params[position]
                entry = self.optimizer.state.get(p, {})
                if self.dtype in DIGITS and not self.master:
                    extra = half_spacing(expected, self.dtype)
                else:
                    extra = np.zeros(())
                if self.master and "master" in entry:
                    self.compare(i, "parameter", entry["master"], expected, relative, extra)
                    assert torch.equal(p, entry["master"].to(self.dtype))
                else:
                    self.compare(i, "parameter", p, expected, relative, extra)
                states = oracle.states[position]
                assert set(entry) - {"step", "master"} == set(states), f"states of parameter {i}"
                for name, value in states.items():
                    self.compare(i, name, entry[name], value, relative, np.zeros(()))
                if entry:
                    assert entry["step"] == oracle.steps[position]

    def compare(self, i: int, name: str, actual: Tensor, expected: Array, relative: float, extra: Array) -> None:
        assert tuple(actual.shape) == expected.shape, name
        size = np.max(np.abs(expected), initial=self.largest.get((i, name), 0.0))
        self.largest[i, name] = float(size)
        error = np.abs(actual.detach().double().numpy() - expected)
        allowed = relative * (np.abs(expected) + size) + extra
        bad = ~(error <= allowed) & ~self.unsure[i]
        assert not bad.any(), (
            f"{name} of {tuple(actual.shape)} after {self.number} steps: {int(bad.sum())} of {bad.size} differ, "
            "by up to "
            f"{np.max(error[bad]):.3g} where {np.max(allowed[bad] if allowed.shape else allowed):.3g} is allowed"
        )
