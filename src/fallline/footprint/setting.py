"""How a model is trained, as far as memory depends on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

import torch

Precision = Literal["float32", "bfloat16", "float16", "mixed", "autocast"]
PRECISIONS: Mapping[str, str] = {
    "float32": "weights, gradients and activations in 32 bits",
    "bfloat16": "everything in 16 bits, without 32-bit copies of the weights",
    "float16": "the same in float16",
    "mixed": "weights, gradients and activations in 16 bits, and 32-bit master weights",
    "autocast": "weights and gradients in 32 bits, activations mostly in 16 (torch.autocast)",
}
SHARDS = ("zero1", "zero2", "zero3")


@dataclasses.dataclass(frozen=True)
class Setting:
    """``None`` for batch and sequence means the model's own."""

    optimizer: str = "adamw"
    state_dtype: str = "float32"
    precision: str = "float32"
    batch: int | None = None
    sequence: int | None = None
    checkpointing: bool = False
    accumulation: int = 1
    """Batches whose gradients are added up before a step."""
    shard: str | None = None
    ranks: int = 1
    offload: bool = False
    """Whether the optimizer's states are kept, and its step runs, in the memory of the host."""

    @property
    def weight_dtype(self) -> torch.dtype:
        """The dtype of parameters and gradients."""
        return {"bfloat16": torch.bfloat16, "mixed": torch.bfloat16, "float16": torch.float16}.get(
            self.precision, torch.float32
        )

    @property
    def has_masters(self) -> bool:
        return self.precision == "mixed"

    def replace(self, **changes: object) -> Setting:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]
