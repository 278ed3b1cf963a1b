"""A job that was stopped goes on where it was; equivalence is not claimed too easily."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.int8_training import equivalence
from benchmarks.stored_runs import all_runs


def test_finished_runs_are_not_repeated(tmp_path: Path) -> None:
    path, done = tmp_path / "runs.json", []
    keys = [{"seed": seed} for seed in range(4)]

    def run(key: Mapping[str, Any]) -> dict[str, int]:
        if key["seed"] == 2 and len(done) == 2:
            done.append(-1)
            raise KeyboardInterrupt
        done.append(key["seed"])
        return {"loss": 10 * key["seed"]}

    with pytest.raises(KeyboardInterrupt):
        all_runs(path, keys, run)
    assert [result["loss"] for result in all_runs(path, keys, run)] == [0, 10, 20, 30]
    assert done == [0, 1, -1, 2, 3]


def test_equivalence_needs_the_interval_inside_the_margin() -> None:
    pytest.importorskip("scipy")
    close = equivalence([0.0004, -0.0003, 0.0006, 0.0001, -0.0005])
    assert close.shown and -0.005 < close.low < close.mean < close.high < 0.005
    assert not equivalence([0.0060, 0.0055, 0.0065, 0.0058, 0.0061]).shown
    wild = equivalence([0.02, -0.02, 0.01, -0.012, 0.001])
    assert not wild.shown and wild.high > 0.005


def test_interval_and_p_value_agree_at_the_margin() -> None:
    pytest.importorskip("scipy")
    differences = [0.001, 0.002, 0.0005, 0.0015, 0.0025]
    high = equivalence(differences).high
    assert equivalence(differences, margin=high * 1.001).p_value < 0.05
    assert equivalence(differences, margin=high * 0.999).p_value > 0.05
