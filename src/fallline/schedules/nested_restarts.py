r"""Warm-up and cosine to zero, then restarts whose peaks lie on an outer warm-up and cosine: CASPR's schedule.

The first leg alone is a complete training; each restart continues from there at the rate that the long
training would have had at that time, and falls to zero again.

.. math::
    T_1 = 0.53571619898\,T,\; T_2 = 0.75\,T,\; W_1 = \text{int}(w T_1), \qquad
    o = \text{warm-up over int}(wT) \text{ and cosine } \alpha \to 0 \text{ at } T \\
    \text{lr}(s): \; \alpha s / W_1 \;(s < W_1); \quad \alpha \to 0 \;(s < T_1); \quad
    o(T_1) \to 0 \;(s < T_2); \quad o(T_2) \to 0 \;(s < T); \quad 0

where → is half a cosine.  T₁ and T₂ are not rounded; the first update has rate 0.

Arguments:
    optimizer: its groups' rates are the peaks α.
    total_steps: T, the number of updates in all.
    warmup_factor: w, the share of the warm-up: of T₁ in the first leg, of T in the outer curve.
    restarts: the ends of the legs, as shares of T.

Example:
    >>> import torch, fallline
    >>> opt = fallline.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    >>> schedule = fallline.NestedRestarts(opt, total_steps=8, warmup_factor=0.25, restarts=(0.5,))
    >>> [round(schedule.rate_after(s, 1.0), 4) for s in range(8)]
    [0.0, 1.0, 0.75, 0.25, 0.75, 0.6402, 0.375, 0.1098]

References:
    AlgoPerf v0.5 ``caspr_adaptive/submission.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from fallline.rules.annotations import fraction
from fallline.schedules.closed_form import ClosedForm
from fallline.schedules.curves import cosine, positive_count, ramp
from fallline.schedules.warmup_cosine import warmup_cosine

CASPR = (0.53571619898, 0.75)


def nested_restarts(
    updates: float, peak: Any, total_steps: int, warmup_factor: float, *, restarts: Sequence[float] = CASPR
) -> Any:
    """The rate after so many updates.

    >>> from fallline.schedules import nested_restarts
    >>> [round(nested_restarts(s, 1.0, total_steps=8, warmup_factor=0.25), 4) for s in (0, 1, 5, 6)]
    [0.0, 1.0, 0.4297, 0.25]
    """
    positive_count.check("total_steps", total_steps)
    fraction.check("warmup_factor", warmup_factor)
    shares = [*restarts, 1.0]
    if not all(0.0 < a < b for a, b in itertools.pairwise(shares)):
        raise ValueError(f"restarts must increase and lie between 0 and 1, got {tuple(restarts)!r}")
    ends = [share * total_steps for share in shares]
    warmup = int(warmup_factor * ends[0])
    if updates < warmup:
        return ramp(updates, peak, warmup, "jax")
    leg = sum(updates >= end for end in ends[:-1])
    if leg == 0:
        return cosine((updates - warmup) / max(ends[0] - warmup, 1), peak)
    begin, end = ends[leg - 1], ends[leg]
    outer_warmup = int(warmup_factor * total_steps)
    outer = warmup_cosine(begin, peak, total_steps=total_steps, warmup_steps=outer_warmup)
    return cosine((updates - begin) / (end - begin), outer)


class NestedRestarts(ClosedForm):
    __doc__ = __doc__
    form = staticmethod(nested_restarts)
