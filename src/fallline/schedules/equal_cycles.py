r"""Cycles of equal length and equal peak, each a linear warm-up and half a cosine: AlgoPerf's Cyclic LR.

With one cycle it is the schedule of AlgoPerf's LAWA entries.

.. math::
    L = T/c; \text{ for the first } \varphi = 0, …, c-1 \text{ that fits:} \quad
    & s \le \varphi L + W: \; m + (\alpha - m) \frac{s - \varphi L}{W} \\
    & s \le (\varphi + 1) L: \;
        m + \frac{\alpha - m}{2}\left(1 + \cos\pi\frac{s - \varphi L - W}{L - W}\right)

with α the group's rate and m = ``lr_min``, which is also the rate after T.

Arguments:
    optimizer: its groups' rates are the peaks.
    total_steps: T, the number of updates in all.
    warmup_steps: W, in every cycle.  AlgoPerf's is int(w·T): a share of the whole training, not of the cycle.
    cycles: c.
    lr_min: m.
    first_step: "peak-first": the first update has rate α, as in AlgoPerf, where the scheduler sets the rate
        only after it; "jax": the first update has the formula's rate, m.

Example:
    >>> import torch, fallline
    >>> opt = fallline.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    >>> schedule = fallline.EqualCycles(opt, total_steps=8, warmup_steps=2, cycles=2)
    >>> [round(schedule.rate_after(s, 0.5), 4) for s in range(8)]
    [0.5, 0.25, 0.5, 0.25, 0.0, 0.25, 0.5, 0.25]

References:
    AlgoPerf v0.5 ``cyclic_lr/submission.py``; Loshchilov & Hutter 2017, SGDR (arXiv 1608.03983).
"""

from __future__ import annotations

from typing import Any

from fallline.rules.annotations import Static, nonnegative
from fallline.schedules.closed_form import ClosedForm
from fallline.schedules.curves import cosine, count, positive_count

_first_steps = Static(("peak-first", "jax"))


def equal_cycles(
    updates: float,
    peak: Any,
    total_steps: int,
    warmup_steps: int,
    *,
    cycles: int = 1,
    lr_min: float = 1e-10,
    first_step: str = "peak-first",
) -> Any:
    """The rate after so many updates.

    >>> from fallline.schedules import equal_cycles
    >>> [round(equal_cycles(s, 1.0, total_steps=8, warmup_steps=2, cycles=2), 4) for s in (0, 1, 2, 3, 4, 5)]
    [1.0, 0.5, 1.0, 0.5, 0.0, 0.5]
    """
    positive_count.check("total_steps", total_steps)
    count.check("warmup_steps", warmup_steps)
    positive_count.check("cycles", cycles)
    nonnegative.check("lr_min", lr_min)
    _first_steps.check("first_step", first_step)
    length = total_steps / cycles
    if warmup_steps >= length:
        raise ValueError(
            f"warmup_steps must be less than the {length:g} steps of a cycle ({total_steps} / {cycles}), "
            f"got {warmup_steps}"
        )
    if updates == 0 and first_step == "peak-first":
        return peak
    for phase in range(int(cycles)):
        done = updates - phase * length
        if warmup_steps and updates <= phase * length + warmup_steps:
            return lr_min + (peak - lr_min) * (done / warmup_steps)
        if updates <= (phase + 1) * length:
            return cosine((done - warmup_steps) / (length - warmup_steps), peak, lr_min)
    return lr_min


class EqualCycles(ClosedForm):
    __doc__ = __doc__
    form = staticmethod(equal_cycles)
