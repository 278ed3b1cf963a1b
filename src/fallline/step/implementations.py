"""Implementations of optimizers: those of fallline, of torch, and of other packages if these are installed."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch.nn import Parameter

from fallline.lower.native.library import NativeUnavailable, library
from fallline.measure.traffic import AS_PARAMETERS

Build = Callable[[str, Sequence[Parameter], Mapping[str, Any], str], Any]
"""Makes an optimizer from its registry name, parameters, options and the format of its states."""


class Missing(Exception):
    """Raised if an implementation is not installed, lacks the optimizer, or does not work here; it says which."""


@dataclasses.dataclass(frozen=True)
class Implementation:
    name: str
    what: str
    build: Build
    states: str | None = None
    """The format of states if the implementation has only one; ``AS_PARAMETERS`` is the dtype of the parameters."""
    ours: bool = False
    compiles: bool = False
    """Whether its first step compiles."""
    native: bool = False
    """Whether it needs native kernels; the optimizer itself would go on without them, which must not be timed here."""


# A small rate, so that weights hardly move in thousands of steps on the same gradient.
LEARNING_RATE = 1e-6
WEIGHT_DECAY = 0.01


def hyperparameters(optimizer: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of all implementations: fallline's defaults, a tiny rate, some decay, and the user's settings."""
    from fallline.optim.options import GROUP_OPTIONS
    from fallline.optim.registry import find

    described = find(optimizer)
    values = {n: v for n, v in described.defaults.items() if n not in GROUP_OPTIONS}
    if "lr" in values and isinstance(values["lr"], float):
        values["lr"] = LEARNING_RATE
    if "weight_decay" in values:
        values["weight_decay"] = WEIGHT_DECAY
    unknown = [name for name in options if name not in values]
    if unknown:
        raise ValueError(f"{optimizer} has no option {unknown[0]!r}; it has {', '.join(values)}")
    return {**values, **options}


def _ours(**flags: Any) -> Build:
    def build(optimizer: str, params: Sequence[Parameter], options: Mapping[str, Any], state_dtype: str) -> Any:
        import fallline

        return fallline.create(
            optimizer, params, **hyperparameters(optimizer, options), state_dtype=state_dtype, **flags
        )

    return build


def _torch(compiled: bool = False, **flags: Any) -> Build:
    def build(optimizer: str, params: Sequence[Parameter], options: Mapping[str, Any], state_dtype: str) -> Any:
        import torch

        from fallline.optim.registry import find

        name = find(optimizer).torch_class
        if name is None:
            raise Missing(f"torch.optim has no {optimizer}")
        values = _accepted(getattr(torch.optim, name), {**hyperparameters(optimizer, options), **flags}, flags, "torch")
        made = getattr(torch.optim, name)(params, **values)
        return _CompiledStep(made) if compiled else made

    return build


class _CompiledStep:
    """torch's optimizer with its step through ``torch.compile``, as its documentation advises."""

    def __init__(self, optimizer: Any):
        import torch

        self.state, self.param_groups = optimizer.state, optimizer.param_groups
        self.step = torch.compile(optimizer.step, fullgraph=False)


def _peer(module: str, package: str, classes: Mapping[str, str], **flags: Any) -> Build:
    def build(optimizer: str, params: Sequence[Parameter], options: Mapping[str, Any], state_dtype: str) -> Any:
        if optimizer not in classes:
            raise Missing(f"{package} has no {optimizer} that runs on a CPU")
        made = getattr(importlib.import_module(module), classes[optimizer])
        return made(params, **_accepted(made, {**hyperparameters(optimizer, options), **flags}, flags, package))

    return build


def _deepspeed(optimizer: str, params: Sequence[Parameter], options: Mapping[str, Any], state_dtype: str) -> Any:
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    if optimizer not in ("adam", "adamw"):
        raise Missing(f"deepspeed has no {optimizer} that runs on a CPU")
    known = _accepted(DeepSpeedCPUAdam, hyperparameters(optimizer, options), {}, "deepspeed")
    if known.pop("amsgrad", False):
        raise Missing("deepspeed's CPU Adam has no amsgrad")
    return DeepSpeedCPUAdam(params, adamw_mode=optimizer == "adamw", **known)


def _pytorch_optimizer(
    optimizer: str, params: Sequence[Parameter], options: Mapping[str, Any], state_dtype: str
) -> Any:
    import pytorch_optimizer

    try:
        made = pytorch_optimizer.load_optimizer(optimizer.replace("_", ""))
    except (KeyError, NotImplementedError, ValueError) as error:
        raise Missing(f"pytorch_optimizer has no {optimizer}") from error
    return made(params, **_accepted(made, hyperparameters(optimizer, options), {}, "pytorch_optimizer"))


def _accepted(made: Any, values: Mapping[str, Any], must: Mapping[str, Any], package: str) -> dict[str, Any]:
    """The arguments that this class knows; an unknown argument that changes the work makes it another optimizer."""
    known = inspect.signature(made).parameters
    for name, value in values.items():
        if name not in known and (name in must or value is True):
            raise Missing(f"{package}'s {made.__name__} has no option {name}")
    return {name: value for name, value in values.items() if name in known}


_BITSANDBYTES = {"adam": "Adam8bit", "adamw": "AdamW8bit", "lion": "Lion8bit"}
_TORCHAO = {"adam": "Adam8bit", "adamw": "AdamW8bit"}
_ALL = (
    Implementation("eager", "one tensor, one operation at a time", _ours(foreach=False, fused=False), ours=True),
    Implementation("foreach", "torch's list operations", _ours(foreach=True, fused=False), ours=True),
    Implementation("compiled", "the eager loop, compiled", _ours(compiled=True), ours=True, compiles=True),
    Implementation(
        "fused", "one native launch for all tensors", _ours(foreach=True, fused=True), ours=True, native=True
    ),
    Implementation(
        "fused-loop", "one native launch per tensor", _ours(foreach=False, fused=True), ours=True, native=True
    ),
    Implementation("torch-loop", "torch.optim, tensor by tensor", _torch(foreach=False, fused=False), AS_PARAMETERS),
    Implementation("torch-foreach", "torch.optim, list operations", _torch(foreach=True), AS_PARAMETERS),
    Implementation("torch-fused", "torch.optim, fused", _torch(fused=True), AS_PARAMETERS),
    Implementation(
        "torch-compiled", "torch.optim's loop, compiled", _torch(True, foreach=False), AS_PARAMETERS, compiles=True
    ),
    Implementation("deepspeed", "DeepSpeed's CPU kernel, which it compiles when first used", _deepspeed, "float32"),
    Implementation(
        "bitsandbytes", "that package, 8-bit states", _peer("bitsandbytes.optim", "bitsandbytes", _BITSANDBYTES), "int8"
    ),
    Implementation("torchao", "that package, 8-bit states", _peer("torchao.optim", "torchao", _TORCHAO), "int8"),
    Implementation("pytorch_optimizer", "that package's own loop", _pytorch_optimizer, AS_PARAMETERS),
)
IMPLEMENTATIONS = {one.name: one for one in _ALL}
"""Name → implementation, in the order in which tables show them."""

ALIASES = {"torch": "torch-fused", "native": "fused"}


def named(name: str) -> Implementation:
    """The implementation of this name; an error lists the names."""
    chosen = IMPLEMENTATIONS.get(ALIASES.get(name, name))
    if chosen is None:
        raise ValueError(f"there is no implementation {name!r}; there are {', '.join(IMPLEMENTATIONS)}")
    return chosen


def build(
    name: str, optimizer: str, params: Sequence[Parameter], options: Mapping[str, Any], state_dtype: str = "float32"
) -> Any:
    """The optimizer over these parameters; raises :class:`Missing` with the reason if that is impossible."""
    chosen = named(name)
    if chosen.native:
        try:
            library()
        except NativeUnavailable as reason:
            raise Missing(f"no native kernels: {reason}") from reason
    try:
        with _silence():
            return chosen.build(optimizer, params, options, state_dtype)
    except ImportError as error:
        raise Missing(f"not installed ({error})") from error
    except Missing:
        raise
    except Exception as error:
        if chosen.ours:
            raise
        raise does_not_work(error) from error


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Silences other packages, which print when they are imported, because stdout may have to be pure JSON."""
    before, said = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def does_not_work(error: Exception) -> Missing:
    """A peer or a compiler that fails is a row of the table, not the end of the run."""
    first, *rest = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    # torch.compile begins its messages with "backend='inductor' raised:", which gives no reason.
    reason = f"{first} {rest[0]}" if first.endswith(":") and rest else first
    return Missing(f"does not work here ({type(error).__name__}: {reason})")
