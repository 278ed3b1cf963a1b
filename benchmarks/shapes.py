"""The shapes of GPT-2 small, with a vocabulary of 8,192: 148 tensors, 92 million parameters."""

from __future__ import annotations

from fallline.step.gpt2 import Gpt2


def gpt2_small(divisor: int = 1) -> list[tuple[int, ...]]:
    """Parameter shapes in the order of the model; ``divisor`` makes a narrower one for quick runs."""
    return Gpt2(heads=12, layers=12, width=768 // divisor, vocabulary=8192, context=1024).shapes()
