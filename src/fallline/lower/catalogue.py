"""The list of lowerings, the fastest first."""

from __future__ import annotations

from fallline.lower.compiled import Compiled
from fallline.lower.eager import Eager
from fallline.lower.executor import Lowering
from fallline.lower.foreach import Foreach
from fallline.lower.native.lowering import Native, NativeEach

_native = Native()
_LOWERINGS: dict[str, Lowering] = {
    one.name: one for one in (_native, NativeEach(_native), Foreach(), Eager(), Compiled())
}


def lowerings() -> tuple[Lowering, ...]:
    return tuple(_LOWERINGS.values())


def find_lowering(name: str) -> Lowering:
    try:
        return _LOWERINGS[name]
    except (KeyError, TypeError):
        raise ValueError(f"lowering must be one of {', '.join(_LOWERINGS)}, or None, got {name!r}") from None


def register(lowering: Lowering) -> None:
    """Adds a lowering to the end of the list; ``Optimizer(…, lowering=name)`` then runs it."""
    if lowering.name in _LOWERINGS:
        raise ValueError(f"there is a lowering {lowering.name!r} already; give it another name")
    _LOWERINGS[lowering.name] = lowering
