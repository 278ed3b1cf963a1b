"""The same gradients for two optimizers, and how far they come apart."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fallline

Shapes = Sequence[tuple[int, ...]]
Make = Callable[[list[Tensor]], Any]

ELSEWHERE = (Path(__file__).parents[2] / "docs" / "elsewhere.md").read_text(encoding="utf-8")
SHAPES: Shapes = [(7, 5), (4, 3, 2), (2, 3, 2, 2), (6,), ()]
STEPS = 25
SAME = {torch.float64: 1e-12, torch.float32: 2e-5}
"""How far two trajectories of the same equations may be apart, relative to how far they went."""


def path(
    make: Make,
    *,
    dtype: torch.dtype = torch.float64,
    shapes: Shapes = SHAPES,
    steps: int = STEPS,
    scale: float = 1.0,
) -> Tensor:
    """All parameters after every step: steps × elements."""
    random = torch.Generator().manual_seed(0)
    params = [torch.randn(s, generator=random, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]
    with contextlib.redirect_stdout(io.StringIO()):  # some are talkative
        optimizer = make(params)
        if hasattr(optimizer, "train"):
            optimizer.train()
    seen = []
    for _ in range(steps):
        for p in params:
            noise = torch.randn(p.shape, generator=random, dtype=torch.float64).to(dtype)
            p.grad = scale * (noise + 0.3 * p.detach())
        optimizer.step()
        seen.append(torch.cat([p.detach().double().flatten() for p in params]))
    return torch.stack(seen)


def apart(theirs: Make, ours: Make, **options: Any) -> float:
    """The largest distance between two trajectories, relative to how far they go."""
    a, b = path(theirs, **options), path(ours, **options)
    moved = (a - a[0]).abs().max() + (a[0] - b[0]).abs().max()
    assert moved > 1e-4, "nothing moves"
    return float((a - b).abs().max() / moved)


def explained(name: str, *words: str) -> bool:
    """Whether the documentation of an optimizer has a sentence with all these words."""
    info = fallline.info(name)
    chapter = ELSEWHERE.partition(f"\n## {info.class_name}\n")[2].partition("\n## ")[0]
    return any(all(word in text for word in words) for text in (*info.deviations, *chapter.splitlines()))
