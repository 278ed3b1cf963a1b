"""Performance profiles and the score, on arrays of times whose last two axes are contestants and workloads.

.. math::
    r_{s,w} = t_{s,w} / \\min_s t_{s,w}, \\qquad \\rho_s(\\tau) = |\\{w : r_{s,w} \\le \\tau\\}| / n, \\qquad
    B_s = \\frac{1}{\\tau_{max} - 1} \\int_1^{\\tau_{max}} \\rho_s(\\tau)\\, d\\tau
        = \\frac{1}{n} \\sum_w \\max\\left(0, \\frac{\\tau_{max} - r_{s,w}}{\\tau_{max} - 1}\\right)

References: Dolan & Moré 2002 (profiles); Dahl et al. 2023, Benchmarking neural network training algorithms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fallline.score.algoperf import TAU_MAX

COMPAT_POINTS = 100
"""AlgoPerf's grid of τ, whose trapezoids are up to 0.0015 off the exact integral."""


def apply_rules(
    times: np.ndarray, workloads: Sequence[str], variants: Mapping[str, str], tau_max: float = TAU_MAX
) -> np.ndarray:
    """Times of the workloads alone, after the rules of v0.5; ``times`` has workloads, then variants.

    1. A variant does not count where its workload was missed, so that a useless fast method defines no
       "fastest".  2. More than τ_max times the fastest is a miss.  3. A missed variant is a missed workload.
    """
    times = np.array(times, dtype=np.float64)
    base = [workloads.index(variants[name]) for name in variants]
    held = range(len(workloads), len(workloads) + len(base))
    for column, of in zip(held, base, strict=True):
        times[..., column] = np.where(np.isinf(times[..., of]), np.inf, times[..., column])
    fastest = times.min(axis=-2, keepdims=True)
    times[times > tau_max * fastest] = np.inf
    for column, of in zip(held, base, strict=True):
        times[..., of] = np.where(np.isinf(times[..., column]), np.inf, times[..., of])
    return times[..., : len(workloads)]


def ratios(times: np.ndarray) -> np.ndarray:
    """Each time over the fastest contestant's on that workload; ∞ stays ∞, also where everybody missed."""
    fastest = times.min(axis=-2, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(times), np.inf, times / fastest)


def profile(ratio: np.ndarray, taus: Sequence[float] | np.ndarray) -> np.ndarray:
    """ρ(τ): … × contestants × len(taus)."""
    return (ratio[..., None] <= np.asarray(taus, dtype=np.float64)).mean(axis=-2)


def score(ratio: np.ndarray, tau_max: float = TAU_MAX) -> np.ndarray:
    """The area under the profile from 1 to τ_max, over τ_max − 1: 1 is fastest everywhere.  Exact.

    >>> score(np.array([[1.0, 2.5], [2.0, 1.0]])).round(4).tolist()
    [0.75, 0.8333]
    """
    return np.clip((tau_max - ratio) / (tau_max - 1.0), 0.0, None).mean(axis=-1)


def score_compat(ratio: np.ndarray, tau_max: float = TAU_MAX) -> np.ndarray:
    """The same by AlgoPerf's trapezoids."""
    heights = profile(ratio, np.linspace(1.0, tau_max, COMPAT_POINTS))
    return ((heights[..., 1:] + heights[..., :-1]) / 2).mean(axis=-1)


def speedup(times: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """How many times faster than the reference: the geometric mean over workloads of t_ref/t, all of them finite."""
    return np.exp(np.log(reference / times).mean(axis=-1))
