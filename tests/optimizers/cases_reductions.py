"""Optimizers that reduce, average or estimate, and the straight-line code that each is compared with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Case:
    optimizer: str
    """The class in fallline."""
    oracle: str
    """The module in tests/oracles."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    oracle_options: Mapping[str, Any] | None = None
    """Where they differ from the optimizer's."""
    by_shape: Callable[[Sequence[Shape]], dict[str, Any]] | None = None
    """Further options of the oracle, which follow from the shapes of its parameters."""
    states: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The oracle's names of states that have others here; a value in "a or b" is one of the two."""
    numbers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Numbers in the groups, and the oracle's attributes that they equal."""
    gradients: str = "random"
    """Or "towards" a common target; or at times "orthogonal" to the weights, by rows or as a whole."""
    one_oracle: bool = False
    """Groups are not independent of each other: one oracle for all, and one learning rate."""


def orthogonal(g: Array, p: Array, number: int) -> Array:
    """A gradient as weights before a normalisation have: orthogonal to them by rows, as a whole, or not at all, so that
    the projections of AdamP and SGDP take turns."""
    if p.ndim < 2 or number % 3 == 0:
        return g
    p_rows, g_rows = (x.reshape(p.shape[0] if number % 3 == 1 else 1, -1) for x in (p, g))
    radial = np.sum(p_rows * g_rows, axis=1) / np.sum(p_rows * p_rows, axis=1)
    return np.asarray((g_rows - radial[:, None] * p_rows).reshape(p.shape))


HF_STATES = {"exp_avg_sq_row": "row_var", "exp_avg_sq_col": "col_var", "exp_avg_sq": "variance"}
PRODIGY = dict(
    oracle="prodigy",
    numbers={name: name for name in ("d", "d_max", "d_numerator", "k")},
    gradients="towards",
    one_oracle=True,
)
FREE = {"lr_max": "lr_max", "weight_sum": "weight_sum", "step": "k"}
FREE_PRODIGY: dict[str, Any] = dict(
    oracle="schedule_free_prodigy",
    numbers={name: name for name in ("d", "d_numerator", "k", "weight_sum")},
    gradients="towards",
    one_oracle=True,
)


def eta_of(shape: Shape) -> float:
    if len(shape) < 2:
        return 0.5
    return math.sqrt((2.0 if len(shape) == 2 else 1.0) * shape[0] / math.prod(shape))


def by_tensor(shapes: Sequence[Shape]) -> dict[str, Any]:
    return {"shapes": [()] * len(shapes)}


def by_tensor_and_eta(shapes: Sequence[Shape]) -> dict[str, Any]:
    return {"shapes": [()] * len(shapes), "eta": [eta_of(shape) for shape in shapes]}


def by_row(shapes: Sequence[Shape]) -> dict[str, Any]:
    return {"shapes": [(*shape[:-1], 1) if len(shape) > 1 else () for shape in shapes]}


def by_element(shapes: Sequence[Shape]) -> dict[str, Any]:
    return {"shapes": None}


def amos(options: dict[str, Any], reduce: str, by_shape: Callable[..., Any], **states: str) -> Case:
    # The oracle takes momentum None or 0 for none.
    return Case("Amos", "amos", {**options, "reduce": reduce}, options, by_shape, states)


ROWS = dict(v="v or v_rows", b="b or b_rows")


def algoperf(options: dict[str, Any], reduce: str, by_shape: Callable[..., Any], **states: str) -> Case:
    ours = {**options, "reduce": reduce}
    return Case("AmosAlgoPerf", "amos_algoperf", ours, options, by_shape, {"m": "exp_avg", **states}, one_oracle=True)


CASES: dict[str, Case] = {
    "adafactor": Case("Adafactor", "adafactor"),
    "adafactor, all options": Case(
        "Adafactor", "adafactor", dict(lr=0.5, beta2_decay=-0.5, eps=(1e-3, 0.1), d=1.5, weight_decay=0.1)
    ),
    "adafactor, hf": Case("Adafactor", "adafactor", dict(variant="hf"), states=HF_STATES),
    "adafactor, hf, warm-up and momentum": Case(
        "Adafactor",
        "adafactor",
        dict(variant="hf", warmup_init=True, beta1=0.8, weight_decay=0.1),
        states=HF_STATES,
    ),
    "adafactor, hf, plain rate": Case(
        "Adafactor",
        "adafactor",
        dict(variant="hf", lr=0.01, relative_step=False, scale_parameter=False, weight_decay=0.1, d=0.5),
        dict(
            variant="hf",
            lr=0.01,
            relative_step=False,
            scale_parameter=False,
            weight_decay=0.1,
            clip_threshold=0.5,
        ),
        states=HF_STATES,
    ),
    "adafactor, hf, plain rate and momentum": Case(
        "Adafactor",
        "adafactor",
        dict(variant="hf", lr=0.01, relative_step=False, scale_parameter=False, beta1=0.9, beta2_decay=-0.6),
        dict(variant="hf", lr=0.01, relative_step=False, scale_parameter=False, beta1=0.9, decay_rate=-0.6),
        states=HF_STATES,
    ),
    "adamp": Case("AdamP", "adamp", dict(lr=0.01, weight_decay=0.1), gradients="orthogonal"),
    "adamp, nesterov": Case(
        "AdamP",
        "adamp",
        dict(lr=0.01, nesterov=True, betas=(0.8, 0.95), eps=1e-3, wd_ratio=0.5, delta=0.2, weight_decay=0.1),
        gradients="orthogonal",
    ),
    "sgdp": Case(
        "SGDP",
        "sgdp",
        dict(lr=0.01, momentum=0.9, weight_decay=0.01),
        states={"momentum": "momentum_buffer"},
        gradients="orthogonal",
    ),
    "sgdp, nesterov": Case(
        "SGDP",
        "sgdp",
        dict(lr=0.01, momentum=0.8, dampening=0.3, nesterov=True, weight_decay=0.01, wd_ratio=0.5, eps=1e-3),
        states={"momentum": "momentum_buffer"},
        gradients="orthogonal",
    ),
    "sgdp, no momentum": Case(
        "SGDP", "sgdp", dict(lr=0.01), states={"momentum": "momentum_buffer"}, gradients="orthogonal"
    ),
    "amos": amos(dict(lr=0.1, eta=0.5), "tensor", by_tensor),
    "amos, sizes by shape": Case("Amos", "amos", dict(lr=0.03), None, by_tensor_and_eta),
    "amos, all options": amos(
        dict(lr=0.1, eta=0.3, beta=0.9, momentum=0.8, clip_value=1.0, extra_l2=0.01, c_coef=0.5, d_coef=0.7),
        "tensor",
        by_tensor,
    ),
    "amos, rows": amos(dict(lr=0.1, eta=0.5), "rows", by_row, **ROWS),
    "amos, rows, momentum": amos(dict(lr=0.1, eta=0.5, momentum=0.9, beta=0.9), "rows", by_row, **ROWS),
    "amos, elements": amos(dict(lr=0.1, eta=0.5), "none", by_element, v="v_full", b="b_full"),
    "amos, elements, momentum": amos(
        dict(lr=0.1, eta=0.5, momentum=0.9, clip_value=3.0), "none", by_element, v="v_full", b="b_full"
    ),
    "amos, algoperf": algoperf(dict(lr=0.05, eta=0.5), "tensor", by_tensor, v="exp_avg_sq"),
    "amos, algoperf, rows": algoperf(
        dict(lr=0.05, eta=0.5, betas=(0.9, 0.95), l2=0.1, warmup_steps=5, max_grad_norm=1e4),
        "rows",
        by_row,
        v="exp_avg_sq",
        b="b or b_rows",
    ),
    "amos, algoperf, reduced": algoperf(
        dict(lr=0.05, eta=0.5, style="reduced", betas=(0.9, 0.98), l2=0.012), "tensor", by_tensor
    ),
    "amos, algoperf, reduced, rows": algoperf(
        dict(lr=0.05, eta=0.5, style="reduced", betas=(0.8, 0.9), warmup_steps=7),
        "rows",
        by_row,
        v="v or v_rows",
    ),
    "fromage": Case("Fromage", "fromage"),
    "fromage, bounded": Case("Fromage", "fromage", dict(lr=0.2, p_bound=1.01)),
    "lamb": Case("LAMB", "lamb", dict(lr=0.01), numbers={"step": "t"}, one_oracle=True),
    "lamb, not clipped": Case("LAMB", "lamb", dict(lr=0.01, max_grad_norm=None, betas=(0.8, 0.95), eps=1e-3)),
    "lamb, decoupled": Case(
        "LAMB",
        "lamb",
        dict(lr=0.1, decoupled_decay=True, trust_clip=True, max_grad_norm=100.0),
        one_oracle=True,
    ),
    "lamb, coupled": Case(
        "LAMB", "lamb", dict(lr=0.01, adam_w_mode=False, weight_decay=0.1, max_grad_norm=1e3), one_oracle=True
    ),
    "lamb, no decay": Case("LAMB", "lamb", dict(lr=0.01, weight_decay=0.0), one_oracle=True),
    "lamb, always adapting": Case(
        "LAMB",
        "lamb",
        dict(lr=0.01, weight_decay=0.0, always_adapt=True, bias_correction=False, grad_averaging=False),
        one_oracle=True,
    ),
    "prodigy": Case("Prodigy", options=dict(d0=1e-3, weight_decay=0.01), **PRODIGY),
    "prodigy, coupled": Case(
        "Prodigy",
        options=dict(d0=1e-3, weight_decay=0.01, decouple=False, use_bias_correction=True, growth_rate=1.2, beta3=0.9),
        **PRODIGY,
    ),
    "prodigy, no momentum": Case(
        "Prodigy", options=dict(d0=1e-3, betas=(0.0, 0.99), safeguard_warmup=True, d_coef=0.5), **PRODIGY
    ),
    "schedule-free sgd": Case("ScheduleFreeSGD", "schedule_free_sgd", dict(lr=0.01), numbers=FREE),
    "schedule-free sgd, all options": Case(
        "ScheduleFreeSGD",
        "schedule_free_sgd",
        dict(lr=0.01, momentum=0.7, weight_decay=0.1, warmup_steps=10, r=0.5, weight_lr_power=1.5),
        numbers=FREE,
    ),
    "schedule-free adamw": Case("ScheduleFreeAdamW", "schedule_free_adamw", dict(weight_decay=0.1), numbers=FREE),
    "schedule-free adamw, all options": Case(
        "ScheduleFreeAdamW",
        "schedule_free_adamw",
        dict(
            lr=0.01,
            warmup_steps=10,
            r=0.5,
            weight_lr_power=1.5,
            inner_momentum=0.7,
            betas=(0.8, 0.99),
            eps=1e-3,
        ),
        numbers=FREE,
    ),
    "schedule-free adamw, algoperf": Case(
        "ScheduleFreeAdamW",
        "schedule_free_adamw",
        dict(variant="algoperf", lr=0.01, betas=(0.8, 0.99), eps=1e-3, weight_decay=0.2, r=0.75, warmup_steps=3),
        numbers=FREE,
    ),
    "schedule-free prodigy": Case("ScheduleFreeProdigy", options=dict(d0=1e-3, weight_decay=0.1), **FREE_PRODIGY),
    "schedule-free prodigy, all options": Case(
        "ScheduleFreeProdigy",
        options=dict(d0=1e-3, betas=(0.8, 0.99), eps=1e-3, weight_decay=0.01, warmup_steps=10, r=0.5, d_coef=2.0),
        **FREE_PRODIGY,
    ),
}
