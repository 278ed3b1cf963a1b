"""The length of Adam's first steps on a constant gradient, with and without bias correction."""

from __future__ import annotations

import math

import torch

import fallline
from fallline.document.figures import Axis, Chart, Series
from fallline.gallery.exhibit import Exhibit, Wishes
from fallline.gallery.stepping import positions

BETAS = (0.9, 0.999)
STEPS = 10_000
SETTLED = 0.01


def exhibit(wishes: Wishes) -> Exhibit:
    corrected, raw = lengths(True), lengths(False)
    peak = max(range(STEPS), key=lambda at: raw[at])
    settled = next(at + 1 for at in range(peak, STEPS) if abs(raw[at] - 1.0) < SETTLED)
    shown = sorted({*range(20), *(round(10 ** (power / 40)) - 1 for power in range(50, 161))})
    steps = [at + 1 for at in shown]
    chart = Chart(
        "bias_correction", "Adam's steps on a constant gradient, in learning rates",
        Axis("step", 1, STEPS, {10**power: f"{10**power:,}" for power in range(5)}, log=True),
        Axis("length of the step / learning rate", 0.0, 1.1 * raw[peak]),
        [
            Series("without correction", steps, [raw[at] for at in shown]),
            Series("with correction", steps, [corrected[at] for at in shown]),
        ],
        caption=f"β = {BETAS[0]}, {BETAS[1]}",
        direct=True,
    )  # fmt: skip
    caption = (
        f"With bias correction every step has the length of the learning rate. Without it the first is {raw[0]:.2f} "
        f"times as long, (1 − β₁)/√(1 − β₂), the longest, step {peak + 1}, {raw[peak]:.2f} times, and not before step "
        f"{settled:,} is it within {100 * SETTLED:.0f} %, because the second moment starts at 0 and fills slowly."
    )
    numbers = {"first": raw[0], "longest": raw[peak], "longest_at": peak + 1, "settled_at": settled}
    source = "computed here by fallline.LAMB, which is Adam without its ratio and decay, and has the switch"
    return Exhibit([chart], caption, numbers, source)


def lengths(correct: bool) -> list[float]:
    """Lengths of steps at a learning rate of 1."""
    found = positions(
        lambda at: fallline.LAMB(
            at, lr=1.0, betas=BETAS, eps=0.0, weight_decay=0.0, max_grad_norm=None, bias_correction=correct
        ),
        torch.zeros(1),
        lambda step, at: torch.ones_like(at),
        STEPS,
    )
    moved: list[float] = found.diff(dim=0)[:, 0].abs().tolist()
    assert all(map(math.isfinite, moved))
    return moved
