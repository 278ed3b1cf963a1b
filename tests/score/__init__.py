"""Small AlgoPerf logs, written by the tests themselves."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from fallline.score.algoperf import TARGETS


def write_log(
    root: Path,
    submission: str,
    study: int,
    workload: str,
    trial: int,
    *,
    seconds: Sequence[float],
    values: Sequence[float | str],
    framework: str = "jax",
) -> Path:
    """One trial in AlgoPerf's layout; columns as theirs, with some that nobody reads."""
    folder = root / submission / f"study_{study}" / f"{workload}_{framework}" / f"trial_{trial}"
    folder.mkdir(parents=True)
    path = folder / "eval_measurements.csv"
    metric = f"validation/{TARGETS[workload].metric}"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["accumulated_eval_time", "accumulated_submission_time", "global_step", "score", "train/loss", metric]
        )
        for index, (time, value) in enumerate(zip(seconds, values, strict=True)):
            writer.writerow([time / 10, time, 100 * (index + 1), time, 1.0, value])
    return path


def reach(root: Path, submission: str, study: int, workload: str, trial: int, at: float | None) -> Path:
    """A trial that reaches its target after so many seconds, or never."""
    target = TARGETS[workload]
    good = target.value
    bad = good + 1 if target.reached(good - 1) else good - 1
    seconds = [10.0, 20.0] if at is None else [at / 2, at, at + 5]
    return write_log(
        root,
        submission,
        study,
        workload,
        trial,
        seconds=seconds,
        values=[bad, bad] if at is None else [bad, good, bad],
    )
