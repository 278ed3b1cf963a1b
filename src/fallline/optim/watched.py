"""Dictionaries of states that tell when an entry is replaced: kernels hold pointers to what they had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from torch import Tensor

Key = TypeVar("Key")


class _Telling(dict[Key, Any]):
    """Calls ``_changed`` after every change from outside."""

    _changed: Callable[[], None]

    def __setitem__(self, key: Key, value: Any) -> None:
        super().__setitem__(key, value)
        self._changed()

    def __delitem__(self, key: Key) -> None:
        super().__delitem__(key)
        self._changed()

    def update(self, *args: Any, **kwargs: Any) -> None:
        super().update(*args, **kwargs)
        self._changed()

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self

    def setdefault(self, key: Key, default: Any = None) -> Any:
        self._changed()
        return super().setdefault(key, default)

    def pop(self, *args: Any) -> Any:
        self._changed()
        return super().pop(*args)

    def popitem(self) -> tuple[Key, Any]:
        self._changed()
        return super().popitem()

    def clear(self) -> None:
        super().clear()
        self._changed()


class Watched(_Telling[str]):
    """A parameter's state.  Replacing an entry from outside must reach the kernels, which hold pointers."""

    def __init__(self, values: Mapping[str, Any], changed: Callable[[], None]):
        super().__init__(values)
        self._changed = changed

    def replace(self, values: Mapping[str, Any]) -> None:
        """From inside, by who knows what the kernels hold."""
        dict.clear(self)
        dict.update(self, values)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copied and pickled as what it is to everyone else.
        return dict, (dict(self),)


class WatchedStates(_Telling[Tensor], defaultdict[Tensor, Any]):
    """All states by parameter, as torch keeps them; tells when an entry is replaced."""

    def __init__(self, changed: Callable[[], None]):
        super().__init__(dict)
        self._changed = changed

    def __reduce__(self) -> tuple[Any, ...]:
        # As what torch has there.
        return defaultdict, (dict,), None, None, iter(self.items())
