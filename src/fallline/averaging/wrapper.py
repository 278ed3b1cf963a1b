"""An optimizer around an optimizer that keeps an average of the weights beside the raw ones."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from fallline.averaging import checkpoint
from fallline.rules.annotations import Range, Static

count = Range("a whole number >= 0", lambda x: x >= 0 and x.is_integer())
positive_count = Range("a whole number >= 1", lambda x: x >= 1 and x.is_integer())


class OfInner:
    """An attribute that lives in the wrapped optimizer."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, wrapper: Any, owner: type) -> Any:
        return self if wrapper is None else getattr(wrapper.optimizer, self.name)

    def __set__(self, wrapper: Any, value: Any) -> None:
        setattr(wrapper.optimizer, self.name, value)

    def __delete__(self, wrapper: Any) -> None:
        delattr(wrapper.optimizer, self.name)


class Averaging(torch.optim.Optimizer):
    """The base class of averages: it steps the wrapped optimizer, ``avg.optimizer``, and averages after each update.

    It is a ``torch.optim.Optimizer``, because schedulers require one, but owns no groups and no states; these
    belong to the wrapped optimizer, as does every attribute that is not its own.  A scheduler or a ``GradScaler``
    therefore accepts either of the two.

    ``eval()`` swaps the average into the model, and ``train()`` swaps the raw weights back; a step in between
    raises an error.  If there is no average yet, the raw weights stay.
    """

    kind: ClassVar[str]
    settings: ClassVar[Mapping[str, Range | Static]]
    """The names of the arguments, which are attributes and go into checkpoints."""

    param_groups: Any = OfInner()
    state: Any = OfInner()
    defaults: Any = OfInner()
    # GradScaler reads the first of these and sets the other two on the optimizer that it is given.
    _step_supports_amp_scaling: Any = OfInner()
    grad_scale: Any = OfInner()
    found_inf: Any = OfInner()
    # The wrapped optimizer makes and loads checkpoints, so that its hooks run.
    _optimizer_state_dict_pre_hooks: Any = OfInner()
    _optimizer_state_dict_post_hooks: Any = OfInner()
    _optimizer_load_state_dict_pre_hooks: Any = OfInner()
    _optimizer_load_state_dict_post_hooks: Any = OfInner()

    def __init__(self, optimizer: torch.optim.Optimizer, **settings: Any):
        name = type(self).__name__
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"{name} wraps an optimizer, got {type(optimizer).__name__}; make the optimizer first")
        if callable(getattr(optimizer, "eval", None)) and callable(getattr(optimizer, "train", None)):
            raise TypeError(
                f"{type(optimizer).__name__} averages its weights itself, so {name} cannot wrap it; use one of the two"
            )
        for argument, value in settings.items():
            self.settings[argument].check(argument, value)
        self.__dict__.update(settings)
        self.optimizer = optimizer
        self.updates = 0
        """The number of steps that changed the weights; steps that a GradScaler skipped do not count."""
        self._raw: dict[Tensor, Tensor] | None = None
        self._warned = False
        self._begin()

    def _begin(self) -> None:
        """Sets the attributes that a copy does not share: hooks, as in torch."""
        self._optimizer_step_pre_hooks = OrderedDict()
        self._optimizer_step_post_hooks = OrderedDict()
        self._guard: RemovableHandle | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "optimizer" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    # ------------------------------------------------------------------ what an average defines

    def _update(self) -> None:
        """Called after each update of the weights; ``self.updates`` counts those before it."""
        raise NotImplementedError

    def _swap_in(self, param: Tensor) -> Tensor | None:
        """Puts the average into a parameter and returns the tensor that then holds its raw weights.  If there is no
        average yet, nothing changes and the result is None."""
        raise NotImplementedError

    def _swap_out(self, param: Tensor, raw: Tensor) -> None:
        """Puts the raw weights back, after which the average is as before."""
        raise NotImplementedError

    def _kept_dtype(self, param: Tensor) -> torch.dtype:
        """The dtype of the tensors that :meth:`_kept` gives."""
        return param.dtype

    def _kept(self) -> dict[Tensor, list[Tensor]]:
        """The tensors that a checkpoint must hold, by parameter."""
        raise NotImplementedError

    def _keep(self, kept: dict[Tensor, list[Tensor]]) -> None:
        """Takes the tensors of a checkpoint."""
        raise NotImplementedError

    def _check_loaded(self, settings: dict[str, Any], kept: dict[Tensor, list[Tensor]]) -> None:
        """Raises if training cannot go on here from a checkpoint with these settings."""

    # ------------------------------------------------------------------ steps

    def params(self) -> list[Tensor]:
        """The parameters that are averaged: all except integer ones."""
        params = [p for group in self.param_groups for p in group["params"]]
        return [p for p in params if p.is_floating_point() or p.is_complex()]

    # torch.compile breaks its graph here, because Python decides which step takes a snapshot.
    @torch._disable_dynamo  # type: ignore[attr-defined]
    def step(self, *args: Any, **kwargs: Any) -> Any:
        """Steps the wrapped optimizer with these arguments, then averages."""
        self._refuse()
        # Global hooks run around the wrapped optimizer's step, and must not run twice.
        for before in self._optimizer_step_pre_hooks.values():
            changed = before(self, (self, *args), kwargs)
            if changed is not None:
                (_, *args), kwargs = changed  # type: ignore[assignment]
        result = self.optimizer.step(*args, **kwargs)
        if not _skipped(self.optimizer):
            # Averages outlive the mode (such as inference mode) in which they are made.
            with torch.inference_mode(False), torch.no_grad():
                self._update()
            self.updates += 1
        for after in self._optimizer_step_post_hooks.values():
            after(self, (self, *args), kwargs)
        return result

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group to the wrapped optimizer; the average of its parameters begins with the next average taken."""
        self.optimizer.add_param_group(param_group)

    # ------------------------------------------------------------------ modes

    @property
    def training(self) -> bool:
        """Whether the model holds the raw weights."""
        return self._raw is None

    def eval(self) -> None:
        """Puts the averaged weights into the model, unless they are there already."""
        if self._raw is not None:
            return
        raw: dict[Tensor, Tensor] = {}
        try:
            for param in self.params():
                kept = self._swap_in(param)
                if kept is not None:
                    raw[param] = kept
        except BaseException:  # most likely out of memory; the model must not stay half swapped
            for param, kept in raw.items():
                self._swap_out(param, kept)
            raise
        self._hold(raw)

    def train(self) -> None:
        """Puts the raw weights back into the model, unless they are there already."""
        for param, kept in (self._raw or {}).items():
            self._swap_out(param, kept)
        self._hold(None)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """``with avg.averaged():`` gives the model the averaged weights inside the block and then restores the mode."""
        was_training = self.training
        self.eval()
        try:
            yield
        finally:
            if was_training:
                self.train()

    def _hold(self, raw: dict[Tensor, Tensor] | None) -> None:
        """Changes the mode, also of the wrapped optimizer, which must not step averaged weights either."""
        self._raw = raw
        if self._guard is not None:
            self._guard.remove()
        self._guard = None if raw is None else self.optimizer.register_step_pre_hook(self._refuse)

    def _refuse(self, *_: Any) -> None:
        if self._raw is not None:
            raise RuntimeError(
                f"{type(self).__name__} is in eval mode: the model holds averaged weights, which must "
                "not be trained; call train() before step()"
            )

    # ------------------------------------------------------------------ checkpoints and copies

    def state_dict(self) -> dict[str, Any]:
        """The wrapped optimizer's checkpoint with one more entry, ``"averaging"``; its class can load it as well.

        A checkpoint that is saved in eval mode belongs to the averaged weights that the model then has: loading both
        gives eval mode again, and ``train()`` then gives the raw weights.
        """
        if self._raw is not None and not self._warned:
            self._warned = True
            warnings.warn(
                f"{type(self).__name__}.state_dict() in eval mode: the model now has averaged weights; "
                "to go on training from this checkpoint call train() first, then save the model and this",
                stacklevel=2,
            )
        return {**self.optimizer.state_dict(), checkpoint.KEY: checkpoint.save(self)}

    @torch.inference_mode(False)
    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads averages, mode, counter, arguments and the wrapped optimizer's part.  Load the model, too."""
        loaded = checkpoint.read(self, state_dict)
        self.optimizer.load_state_dict({k: v for k, v in state_dict.items() if k != checkpoint.KEY})
        self.updates = loaded.updates
        self.__dict__.update(loaded.settings)
        self._keep(loaded.kept)
        self._hold(loaded.raw)

    def __getstate__(self) -> dict[str, Any]:
        # A scheduler stores its wrapped step and a mark here, which refer to the original.
        own = {"_guard", "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "step", "_opt_called"}
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()
        self._hold(self._raw)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.settings)
        mode = "train" if self.training else "eval"
        return f"{type(self).__name__}({arguments}), {self.updates} updates, {mode} mode, of {self.optimizer!r}"


def _skipped(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the last step changed nothing, because the gradients were not finite."""
    found = getattr(optimizer, "found_inf", None)
    if found is not None and float(found) != 0.0:
        return True
    norm = getattr(optimizer, "grad_norm", None)
    return bool(getattr(optimizer, "skip_nonfinite", False)) and norm is not None and not math.isfinite(float(norm))
