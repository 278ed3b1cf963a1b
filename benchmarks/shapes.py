"""The shapes of GPT-2 small, with a vocabulary of 8,192: 148 tensors, 92 million parameters."""

from __future__ import annotations

WIDTH, LAYERS, CONTEXT, VOCABULARY = 768, 12, 1024, 8192


def gpt2_small(divisor: int = 1) -> list[tuple[int, ...]]:
    """Parameter shapes in the order of the model; ``divisor`` makes a narrower one for quick runs."""
    width = WIDTH // divisor
    norm = [(width,), (width,)]
    attention = [(3 * width, width), (3 * width,), (width, width), (width,)]
    feed_forward = [(4 * width, width), (4 * width,), (width, 4 * width), (width,)]
    layer = [*norm, *attention, *norm, *feed_forward]
    return [(VOCABULARY, width), (CONTEXT, width), *(layer * LAYERS), *norm]
