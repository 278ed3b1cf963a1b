"""Answers of an optimizer about itself: data that also prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclasses.dataclass(frozen=True)
class Stepped:
    """Parameters that are stepped in the same way."""

    rule: str
    groups: tuple[int, ...]
    tensors: int
    elements: int
    """Without those of parameters that have no shape before the first forward pass."""


Part = TypeVar("Part", bound=Stepped)


class Printed(str, Generic[Part]):
    """The text to print, with the data that it was written from."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, parts: tuple[Part, ...], lines: Iterable[str]) -> Self:
        made: Self = cls("\n".join(lines))
        made.parts = parts
        return made

    # Shown in a notebook or at the prompt as it is printed.
    __repr__ = str.__str__
