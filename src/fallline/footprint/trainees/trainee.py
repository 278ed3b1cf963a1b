"""A model that could be trained: how it is built, what a batch of it is, and its loss."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class Unbuildable(Exception):
    """A model whose memory cannot be predicted; one line says why."""


@dataclasses.dataclass(frozen=True)
class Trainee:
    """Everything is made by functions, so that it can be made of tensors without memory."""

    name: str
    spec: str
    """The text that names it on the command line."""
    build: Callable[[], nn.Module]
    inputs: Callable[[int, int | None], Any]
    """(batch, sequence) → a batch."""
    loss: Callable[[nn.Module, Any], Tensor]
    batch: int
    """The batch where none is asked for."""
    sequence: int | None = None
    """The length of a sequence where none is asked for; None for models without sequences."""
    most_sequence: int | None = None
    """The longest sequence that the model takes."""
    notes: tuple[str, ...] = ()
    """Reservations about the model itself."""
    resident_data: bool = False
    """Whether it keeps data of its own in memory, which are no part of a prediction."""
