"""The convex online problem of Reddi, Kale & Kumar 2018, on which Adam goes to the worst point and AMSGrad does not.

f_t(x) = 1010·x if t mod 101 = 1, and −10·x otherwise, on [−1, 1].  The mean slope is positive, so −1 is the best point.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

import fallline
from fallline.document.figures import Axis, Chart, Mark, Panels, Series
from fallline.gallery.exhibit import Exhibit, Wishes
from fallline.gallery.stepping import positions

PERIOD, RARE, USUAL = 101, 1010.0, -10.0
BETAS, RATE = (0.9, 0.99), 0.5
"""The rate of step t is 0.5/√t, as the convergence proofs ask."""
STEPS = 600 * PERIOD
BEST, WORST = -1.0, 1.0


def exhibit(wishes: Wishes) -> Exhibit:
    walked = {name: walk(name, STEPS) for name in ("Adam", "AMSGrad")}
    ends = {name: float(path[-1]) for name, path in walked.items()}
    costs = {name: cost_by_period(path) for name, path in walked.items()}
    last = {name: float(found[-1]) for name, found in costs.items()}
    # Once in a period, at its end; in between they jump.
    steps = list(range(PERIOD, STEPS + 1, PERIOD))
    x = Axis("steps", 0, STEPS, {float(step): f"{step:,}" for step in range(0, STEPS, 20_000)})
    place = Chart(
        "place", "Where they are", x, Axis("x", -1.15, 1.15),
        [Series(name, steps, path[steps].tolist()) for name, path in walked.items()],
        marks=[Mark(BEST, "best"), Mark(WORST, "worst")],
    )  # fmt: skip
    cost = Chart(
        "cost", f"What a step costs there, mean of {PERIOD}", x, Axis("f(x) − f(−1)", 0.0, 0.5),
        [Series(name, steps, found.tolist()) for name, found in costs.items()],
    )  # fmt: skip
    caption = (
        f"On f_t(x) = 1010·x at every {PERIOD}st step and −10·x at all others, x in [−1, 1], the best point is −1. "
        f"After {STEPS:,} steps Adam (β₂ = {BETAS[1]:g}) is at {_signed(ends['Adam'])}, because it forgets the rare "
        "large gradient before the many small ones are through. AMSGrad, which never divides by less than before, is "
        f"at {_signed(ends['AMSGrad'])}. In the last {PERIOD} steps Adam pays {last['Adam']:.3f} a step more than the "
        f"best point, and AMSGrad {abs(last['AMSGrad']):.3f}."
    )
    numbers = {"steps": STEPS, "ends": ends, "cost_per_step": last}
    figure = Panels("adam_counterexample", "A convex problem on which Adam fails", [place, cost], 2)
    source = "computed here; the problem is that of Reddi, Kale & Kumar 2018, On the convergence of Adam and beyond"
    return Exhibit([figure], caption, numbers, source)


def _signed(x: float) -> str:
    return f"{x:+.2f}".replace("-", "−")


def walk(name: str, steps: int) -> np.ndarray:
    """x before every step, and at the end."""
    rare, usual = torch.tensor([RARE]).double(), torch.tensor([USUAL]).double()

    def gradient(step: int, x: Tensor) -> Tensor:
        return rare if step % PERIOD == 1 else usual

    cls = getattr(fallline, name)
    found = positions(
        lambda at: cls(at, lr=RATE, betas=BETAS), torch.zeros(1), gradient, steps,
        rate=lambda step: RATE / math.sqrt(step), bound=1.0,
    )  # fmt: skip
    return found[:, 0].numpy()


def cost_by_period(path: np.ndarray) -> np.ndarray:
    """The cost of a step beyond the best fixed point, as the mean of every period."""
    slopes = np.where(np.arange(1, len(path)) % PERIOD == 1, RARE, USUAL)
    found: np.ndarray = (slopes * (path[:-1] - BEST)).reshape(-1, PERIOD).mean(axis=1)
    return found
