"""Answers of an optimizer about itself: data that also prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

Part = TypeVar("Part")


class Printed(str, Generic[Part]):
    """The text to print, with the data that it was written from."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, parts: tuple[Part, ...], lines: Iterable[str]) -> Self:
        made = cls("\n".join(lines))
        made.parts = parts
        return made

    # Shown in a notebook or at the prompt as it is printed.
    __repr__ = str.__str__
