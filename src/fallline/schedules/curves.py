"""The curves of which schedules consist, and the checks of their arguments.

Rates may be tensors, because only arithmetic is done on them.
"""

from __future__ import annotations

import math
from typing import Any

from fallline.rules.annotations import Range, Static

count = Range("a whole number >= 0", lambda x: x >= 0 and x.is_integer())
positive_count = Range("a whole number >= 1", lambda x: x >= 1 and x.is_integer())
fraction_of_all = Range("in (0, 1]", lambda x: 0 < x <= 1)

# The first updates of AlgoPerf's entries differ, and published results depend on them.
# jax:          the ramp starts at 0, so the first update changes nothing (also Hugging Face's schedules).
# torch-linear: the ramp starts at 1e-10 of the peak (torch's LinearLR as AlgoPerf's references use it).
# peak-first:   the first update runs at the peak, because the scheduler sets the rate only after it; then as jax.
first_steps = Static(("jax", "torch-linear", "peak-first"))

LINEAR_START = 1e-10


def ramp(updates: float, peak: Any, warmup_steps: int, first_step: str) -> Any:
    """Linear warm-up, for updates < warmup_steps."""
    if first_step == "peak-first" and updates == 0:
        return peak
    start = LINEAR_START if first_step == "torch-linear" else 0.0
    return peak * (start + (1.0 - start) * updates / warmup_steps)


def cosine(progress: float, high: Any, low: Any = 0.0) -> Any:
    """Half a cosine from ``high`` to ``low`` while progress goes from 0 to 1; ``low`` after that."""
    return low + (high - low) * (0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0))))
