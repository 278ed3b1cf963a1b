r"""Linear warm-up, a long stretch at the peak, and a short decay at the end.

Use it when the length of the training is not known at the start: train at the peak as long as you like, and
run the decay from any checkpoint.

.. math::
    \text{lr}(s) = \alpha \frac{s}{W} \;(s < W), \quad \alpha \;(s \le T - D), \quad
    e + (\alpha - e)\,d\!\left(\frac{s - (T - D)}{D}\right) \;(s \le T), \quad
    e \;\text{after that} \\
    d(x) = 1 - x \;\text{(linear)}, \quad \tfrac{1}{2}(1 + \cos \pi x) \;\text{(cosine)}, \quad
    1 - \sqrt{x} \;\text{(1-sqrt)}

with α the group's rate and e = ``lr_end``.

Arguments:
    optimizer: its groups' rates are the peaks.
    total_steps: T, the number of updates in all.
    decay_steps: D; 10 to 20 % of T is usual.
    warmup_steps: W.
    decay: "linear", "cosine" or "1-sqrt".
    lr_end: the last rate.
    first_step: how the ramp begins: "jax", "torch-linear" or "peak-first", as in `WarmupCosine`.

Example:
    >>> import torch, fallline
    >>> opt = fallline.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.4)
    >>> schedule = fallline.WarmupStableDecay(opt, total_steps=8, decay_steps=4, warmup_steps=2)
    >>> [round(schedule.rate_after(s, 0.4), 4) for s in range(8)]
    [0.0, 0.2, 0.4, 0.4, 0.4, 0.3, 0.2, 0.1]

References:
    Zhai et al. 2022, Scaling vision transformers (arXiv 2106.04560); Hu et al. 2024, MiniCPM (arXiv
    2404.06395); Hägele et al. 2024, Scaling laws and compute-optimal training beyond fixed training durations
    (arXiv 2405.18392) for 1-sqrt.
"""

from __future__ import annotations

import math
from typing import Any

from fallline.rules.annotations import Static, nonnegative
from fallline.schedules.closed_form import ClosedForm
from fallline.schedules.curves import cosine, count, first_steps, positive_count, ramp

_decays = Static(("linear", "cosine", "1-sqrt"))


def warmup_stable_decay(
    updates: float,
    peak: Any,
    total_steps: int,
    decay_steps: int,
    warmup_steps: int = 0,
    *,
    decay: str = "linear",
    lr_end: float = 0.0,
    first_step: str = "jax",
) -> Any:
    """The rate after so many updates.

    >>> from fallline.schedules import warmup_stable_decay
    >>> settings = {"total_steps": 8, "decay_steps": 4, "warmup_steps": 2, "decay": "1-sqrt"}
    >>> [warmup_stable_decay(s, 1.0, **settings) for s in (0, 1, 2, 4, 5, 8)]
    [0.0, 0.5, 1.0, 1.0, 0.5, 0.0]
    """
    positive_count.check("total_steps", total_steps)
    count.check("decay_steps", decay_steps)
    count.check("warmup_steps", warmup_steps)
    _decays.check("decay", decay)
    nonnegative.check("lr_end", lr_end)
    first_steps.check("first_step", first_step)
    if warmup_steps + decay_steps > total_steps:
        raise ValueError(
            f"warmup_steps + decay_steps must be at most total_steps = {total_steps}, "
            f"got {warmup_steps} + {decay_steps}"
        )
    if updates < warmup_steps:
        return ramp(updates, peak, warmup_steps, first_step)
    late = updates - (total_steps - decay_steps)
    if late <= 0 and updates < total_steps:
        return peak
    progress = min(late / decay_steps, 1.0) if decay_steps else 1.0
    if decay == "cosine":
        return cosine(progress, peak, lr_end)
    return lr_end + (peak - lr_end) * (1.0 - (math.sqrt(progress) if decay == "1-sqrt" else progress))


class WarmupStableDecay(ClosedForm):
    __doc__ = __doc__
    form = staticmethod(warmup_stable_decay)
