"""From the studies of every rung to advantages over the reference, and the noise in them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from fallline.race.ladder.trend import Advantages

PRIOR_DEGREES = 4.0
"""With so many degrees of freedom the mean variance of all rungs counts beside each rung's own."""
STRONGEST_CORRELATION = 0.9

Studies = Mapping[str, Sequence[Sequence[float]]]
"""Contestant → for every rung one value per study, smaller is better; empty where it has none."""


def advantages(
    studies: Studies,
    reference: str,
    rungs: Sequence[float],
    *,
    least: Sequence[float] | None = None,
    added: Sequence[float] | None = None,
    unsteady: Collection[str] = (),
) -> Advantages:
    """Means over studies, reference minus contestant.  Studies of one number have common draws, on every rung.

    ``least`` are the smallest variances of one study, by rung: times that are known at evaluations only may all be
    equal because that grid is coarse.  ``added`` are variances that a mean has whatever its studies say, such as the
    errors of step times.  ``unsteady`` contestants tell nothing of the noise, as misses count as a constant.
    """
    names = tuple(name for name in studies if name != reference)
    values = np.full((len(names), len(rungs)), math.nan)
    for i, name in enumerate(names):
        for k in range(len(rungs)):
            own, others = studies[name][k], studies[reference][k]
            if len(own) and len(own) == len(others):
                values[i, k] = float(np.mean(others) - np.mean(own))
    complete = [name for name in studies if all(map(len, studies[name]))]
    steady = [name for name in complete if name not in unsteady]
    noise, degrees = _noise([studies[name] for name in (steady if len(steady) > 1 else complete)], least)
    if noise is not None and added is not None:
        noise = noise + np.diag(added)
    return Advantages(names, tuple(rungs), values, noise, degrees)


def _noise(
    complete: Sequence[Sequence[Sequence[float]]], least: Sequence[float] | None
) -> tuple[np.ndarray | None, float]:
    """The covariance of a contestant's own means over the rungs, and its degrees of freedom.

    It is that of the residuals of contestants and studies on a rung: luck that a study brings to all cancels in an
    advantage.  Variances of single rungs are drawn towards their mean, and one correlation serves all pairs of rungs:
    there are a dozen residuals or so.
    """
    if len(complete) < 2 or min(len(rung) for rungs in complete for rung in rungs) < 2:
        return None, math.inf
    table = np.array(complete, dtype=np.float64)  # contestants × rungs × studies
    contestants, rungs, count = table.shape
    left = table - table.mean(axis=2, keepdims=True) - table.mean(axis=0) + table.mean(axis=(0, 2))[None, :, None]
    degrees = (contestants - 1) * (count - 1)
    found = np.einsum("cks,cls->kl", left, left) / degrees
    own = np.diag(found)
    variances = (degrees * own + PRIOR_DEGREES * own.mean()) / (degrees + PRIOR_DEGREES)
    variances = variances if least is None else np.maximum(variances, least)
    pairs = ~np.eye(rungs, dtype=bool)
    scale = np.sqrt(np.outer(own, own))[pairs].mean() if rungs > 1 else 0.0
    correlation = min(max(found[pairs].mean() / scale, 0.0), STRONGEST_CORRELATION) if scale > 0 else 0.0
    mixed = np.where(pairs, correlation, 1.0) * np.sqrt(np.outer(variances, variances))
    return mixed / count, float(degrees)
