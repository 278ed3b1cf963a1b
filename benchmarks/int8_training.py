"""Does AdamW with int8 states train as well as with float32?  A 1,000-step character model, five seeds each.

Both formats get the same initial weights and the same batches, so seeds are pairs. Two one-sided t-tests ask
whether the mean relative difference of the final validation losses is above −0.5 % and below +0.5 %; both
must hold at 5 %, which is to say that the 90 % interval lies within ±0.5 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import fallline
from benchmarks.char_lm import Training, train
from benchmarks.settings import RESULTS
from benchmarks.stored_runs import all_runs

FORMATS = ("float32", "int8")
MARGIN = 0.005
ALPHA = 0.05


@dataclasses.dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests on relative differences."""

    mean: float
    low: float
    high: float
    """Ends of the 90 % interval."""
    p_value: float
    """The larger of the two one-sided ones."""

    @property
    def shown(self) -> bool:
        return self.p_value < ALPHA


def equivalence(differences: Sequence[float], margin: float = MARGIN) -> Equivalence:
    from scipy import stats

    count = len(differences)
    mean, error = statistics.fmean(differences), statistics.stdev(differences) / count**0.5
    t = stats.t(count - 1)
    if error == 0.0:
        p_value = 0.0 if abs(mean) < margin else 1.0
    else:
        p_value = float(max(t.sf((mean + margin) / error), t.sf((margin - mean) / error)))
    half = float(t.ppf(1 - ALPHA)) * error
    return Equivalence(mean, mean - half, mean + half, p_value)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.int8_training", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="20 steps, 2 seeds: shows that all works")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.seeds, chosen.steps = 2, 20
    if chosen.seeds < 2:
        parser.error(f"--seeds must be at least 2, got {chosen.seeds}: one difference has no spread")
    training = Training(steps=chosen.steps, warmup=min(100, chosen.steps // 10))
    keys = [
        {"format": name, "seed": seed, **dataclasses.asdict(training)}
        for seed in range(chosen.seeds)
        for name in FORMATS
    ]
    path = RESULTS / f"int8_training{'-quick' if chosen.quick else ''}.json"
    losses = [result["loss"] for result in all_runs(path, keys, lambda key: _run(key, training))]
    show(losses[0::2], losses[1::2], chosen.steps)
    return 0


def _run(key: Mapping[str, Any], training: Training) -> dict[str, float]:
    def adamw(model: torch.nn.Module) -> torch.optim.Optimizer:
        return fallline.create("adamw", model, weight_decay=training.weight_decay, state_dtype=key["format"])

    return {"loss": train(training, key["seed"], adamw)}


def show(wide: Sequence[float], narrow: Sequence[float], steps: int) -> None:
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    table = Table(header_style="bold", box=None)
    for heading in ("seed", "float32", "int8", "difference"):
        table.add_column(heading, justify="right")
    differences = [(b - a) / a for a, b in zip(wide, narrow, strict=True)]
    for seed, (a, b, difference) in enumerate(zip(wide, narrow, differences, strict=True)):
        table.add_row(str(seed), f"{a:.4f}", f"{b:.4f}", f"{difference:+.2%}")
    console.print(table)
    console.print(verdict(equivalence(differences), steps))


def verdict(found: Equivalence, steps: int) -> str:
    interval = f"90 % interval {found.low:+.2%} to {found.high:+.2%}, p = {found.p_value:.2g}"
    what = f"the same final loss within {MARGIN:.1%} after {steps:,} steps"
    start = "int8 and float32 AdamW reach" if found.shown else "It is not shown that int8 and float32 AdamW reach"
    return f"{start} {what}: mean difference {found.mean:+.2%}, {interval}."


if __name__ == "__main__":
    sys.exit(main())
