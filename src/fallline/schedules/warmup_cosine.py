r"""Linear warm-up, then half a cosine down: the usual schedule of transformers and of AlgoPerf's entries.

.. math::
    \text{lr}(s) = \alpha \frac{s}{W} \;(s < W), \qquad
    \text{lr}(s) = e + \frac{\alpha - e}{2}\left(1 + \cos \pi\frac{s - W}{D - W}\right)
    \;(W \le s \le D), \qquad e \;\text{after that}

with α the group's rate, e = ``lr_end`` and D = int(``cosine_decay_fraction`` · ``total_steps``).

Arguments:
    optimizer: its groups' rates are the peaks.
    total_steps: T, the number of updates in all.
    warmup_steps: W.  AlgoPerf's points give a factor w: int(w·T), in NadamP int(w·D).
    cosine_decay_fraction: the share of T after which the decay ends; 0.75 leaves ``lr_end`` for the last quarter.
    lr_end: the last rate.
    first_step: how the ramp begins.  "jax": at 0, so the first update has rate 0; "torch-linear": at 1e-10·α;
        "peak-first": the first update has rate α, the others are as in "jax".

Example:
    >>> import torch, fallline
    >>> opt = fallline.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    >>> schedule = fallline.WarmupCosine(opt, total_steps=6, warmup_steps=2)
    >>> [round(schedule.rate_after(s, 0.5), 4) for s in range(6)]
    [0.0, 0.25, 0.5, 0.4268, 0.25, 0.0732]

References:
    Loshchilov & Hutter 2017, SGDR (arXiv 1608.03983); AlgoPerf v0.5: "jax" is the baseline, NadamP and
    Generalized Adam, "torch-linear" the PyTorch baseline and Distributed Shampoo.  LAWA's is `EqualCycles`
    with one cycle, which differs from "peak-first" here by its lowest rate of 1e-10.
"""

from __future__ import annotations

from typing import Any

from fallline.rules.annotations import nonnegative
from fallline.schedules.closed_form import ClosedForm
from fallline.schedules.curves import cosine, count, first_steps, fraction_of_all, positive_count, ramp


def warmup_cosine(
    updates: float,
    peak: Any,
    total_steps: int,
    warmup_steps: int = 0,
    *,
    cosine_decay_fraction: float = 1.0,
    lr_end: float = 0.0,
    first_step: str = "jax",
) -> Any:
    """The rate after so many updates.

    >>> from fallline.schedules import warmup_cosine
    >>> [round(warmup_cosine(s, 1.0, total_steps=8, warmup_steps=2), 4) for s in (0, 1, 2, 5, 8)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    positive_count.check("total_steps", total_steps)
    count.check("warmup_steps", warmup_steps)
    fraction_of_all.check("cosine_decay_fraction", cosine_decay_fraction)
    nonnegative.check("lr_end", lr_end)
    first_steps.check("first_step", first_step)
    end = int(cosine_decay_fraction * total_steps)
    if warmup_steps > end:
        raise ValueError(f"warmup_steps must be at most the {end} steps after which the decay ends, got {warmup_steps}")
    if updates < warmup_steps:
        return ramp(updates, peak, warmup_steps, first_step)
    return cosine((updates - warmup_steps) / max(end - warmup_steps, 1), peak, lr_end)


class WarmupCosine(ClosedForm):
    __doc__ = __doc__
    form = staticmethod(warmup_cosine)
