"""Tensors that move between the processes that have a piece of them and the one that needs all of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import ClassVar

from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Owner:
    """The process that steps a parameter, and the parts of it that all processes have."""

    rank: int
    """Its position along an axis of the mesh of processes."""
    is_here: bool
    mesh_axis: int
    axis: int
    """The axis of the parameter along which it is cut."""
    ranges: tuple[tuple[int, int], ...]
    """(start, length) of each process's part along that axis."""
    copied: bool
    """Whether every process has all of it, so that only the result must be sent."""


@dataclasses.dataclass(eq=False)
class Transfer:
    """A move that a run waits for: the pieces of a tensor at its owner, or the owner's tensor in all pieces."""

    key: Hashable
    """The same in all processes."""
    owner: Owner
    here: Tensor
    whole: Tensor | None
    """At the owner."""
    to_owner: bool = True
    early: bool = False
    """Whether the run goes on without it, until it asks for one that is not early."""
    over_all: ClassVar[bool] = False
