"""The fastest among those that fit: sizes as people write them, and rows of those that do not fit."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fallline.race.clock.calibrated import Calibrated
from fallline.race.plan import SEARCH
from fallline.race.progress import RaceError
from fallline.race.results import Results
from fallline.race.run import Race
from fallline.race.verdict.memory_budget import most_bytes, read_size, too_large
from fallline.race.verdict.summary import summarize
from tests.race.scripted import ScriptedEngine, contestants, log_normal
from tests.race.test_rounds import entry as entry
from tests.race.test_rounds import rules


def cost(size: int) -> Calibrated:
    return Calibrated(0.01, 0.0099, 0.0101, 0.0, size, 1000, None)


@pytest.mark.parametrize("text", ["2", "", "GB", "-1GB", "0MB", "nanGB", "1e3MB", "2 parsecs", "2GB!", "٢GB"])
def test_a_size_without_a_number_or_a_unit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="with its unit"):
        read_size(text)


def test_the_largest_states_over_workloads_count() -> None:
    sizes = most_bytes({("w", "a"): cost(1000), ("v", "a"): cost(2000), ("w", "b"): cost(1500)})
    assert too_large(1500, sizes) == {"a": "its states take 2 kB, the memory budget is 1.5 kB"}
    assert too_large(None, {"a": 10**12}) == {}


def test_the_fastest_that_does_not_fit_is_a_row_and_not_the_choice(entry: Any, tmp_path: Path) -> None:
    field = {"large": 0.0, "small": 0.1, "slow": 0.8}
    sizes = {"large": 3_000_000, "small": 1_000_000, "slow": 500_000}
    engine = ScriptedEngine(log_normal(field, sigma=0.02))
    with Results(tmp_path / "r.sqlite") as results:
        raced = contestants(field)
        results.begin([entry], raced, rules(memory_budget=2_000_000))
        results.set_calibration("tiny", {name: cost(size) for name, size in sizes.items()}, [], {})
        Race([entry], raced, rules(memory_budget=2_000_000), results, engine).run()
        summary = summarize(results)
    assert "large" not in {name for name, _ in engine.submitted}, "it did not run"
    assert summary.statuses["large"] == {"out of memory": 3} and summary.choice == "small"
    assert summary.verdict.startswith("Take small: of these 2 it is the fastest")
    assert "Left out: large (its states take 3 MB, the memory budget is 2 MB)." in summary.verdict
    assert "Slower than it: slow" in summary.verdict


def test_where_nobody_fits_nothing_runs_and_a_line_says_who_holds_least(entry: Any, tmp_path: Path) -> None:
    field = {"large": 0.0, "small": 0.1}
    engine = ScriptedEngine(log_normal(field))
    with Results(tmp_path / "r.sqlite") as results:
        raced = contestants(field)
        results.begin([entry], raced, rules(memory_budget=1000))
        costs = {"large": cost(3_000_000), "small": cost(1_000_000)}
        results.set_calibration("tiny", costs, [], {})
        with pytest.raises(RaceError, match=r"no contestant fits into .* 1 kB: small, which holds least, has 1 MB"):
            Race([entry], raced, rules(memory_budget=1000), results, engine).run()
    assert engine.submitted == []


def test_nothing_is_searched_where_nobody_fits_nor_for_those_that_do_not(entry: Any, tmp_path: Path) -> None:
    field = {"large": 0.0, "small": 0.1}
    sizes = {"large": cost(3_000_000), "small": cost(1_000_000)}
    raced = [dataclasses.replace(one, space={"lr": {"min": 1e-3, "max": 1e-1}}) for one in contestants(field)]
    for budget, searched in ((1000, set()), (2_000_000, {"small"})):
        engine, rule = ScriptedEngine(log_normal(field)), rules(memory_budget=budget, search=3)
        with Results(tmp_path / f"{budget}.sqlite") as results:
            results.begin([entry], raced, rule)
            results.set_calibration("tiny", sizes, [], {})
            with contextlib.suppress(RaceError):
                Race([entry], raced, rule, results, engine).run()
            assert {row.contestant for row in results.rows(SEARCH)} == searched
