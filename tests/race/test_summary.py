"""What is said of a race, from rows written by hand: both axes, warnings, equal budgets, the verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from fallline.cli.output import render
from fallline.cli.race_text import show_race
from fallline.race.contestants import named
from fallline.race.plan import Entry, Rules, trials
from fallline.race.results import Calibrated, Results
from fallline.race.stopping import PAST_TAU_MAX
from fallline.race.summary import Summary, summarize
from fallline.workloads import load
from tests.race import write_workload

CONTESTANTS = ("adamw", "lion")


def cost(step: float, switch: float = 0.0) -> Calibrated:
    return Calibrated(step, 0.99 * step, 1.01 * step, switch, 2_000_000, 1_000_000, None)


def raced(
    folder: Path,
    steps: Mapping[str, Sequence[int | None]],
    costs: Mapping[str, Calibrated],
    *,
    rules: Rules | None = None,
    finals: Mapping[str, Sequence[float | None]] | None = None,
    paces: Mapping[str, float] | None = None,
) -> Summary:
    """A race whose studies, one trial each, reached the target after so many steps and ended with such values."""
    path = write_workload(folder)
    entry, contestants = Entry(str(path), load(str(path))), [named(name) for name in CONTESTANTS]
    rules = rules or Rules(trials=1, studies=len(steps["adamw"]))
    with Results(folder / "r.sqlite") as results:
        results.begin([entry], contestants, rules)
        results.set_calibration("tiny", costs, {}, {})
        results.add_trials(trials([entry], contestants, rules))
        for row in results.rows():
            reached = steps[row.contestant][row.study]
            results.start(row.id, 120)
            event = {"step": reached or 10, "value": 1.0, "loss": 1.0, "evaluation": 2.0}
            event["training"] = event["step"] * (paces or {}).get(row.contestant, costs[row.contestant].step_seconds)
            results.add_evaluation(row.id, event, reached is not None)
            if finals is not None:
                final = finals[row.contestant][row.study]
                if final is not None:
                    results.add_evaluation(row.id, {**event, "step": 120, "value": final}, False)
            results.end(row.id, "reached" if reached else "over budget", event)
        return summarize(results)


def text(summary: Summary, width: int = 100) -> str:
    return render(lambda console: show_race(console, summary, Path("r.sqlite"), quiet=False), width)


def test_times_are_steps_times_seconds_and_switches_at_evaluations(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.5), "lion": cost(0.25, switch=1.0)}
    summary = raced(tmp_path, {"adamw": [20] * 5, "lion": [25] * 5}, costs)
    times = {row.contestant: row.times["tiny"] for row in summary.board.rows}
    # Evaluations every 10 steps: 25 steps contain three switches.
    assert times == {"adamw": pytest.approx(10.0), "lion": pytest.approx(25 * 0.25 + 3)}


def test_both_axes_are_shown_and_a_warning_where_they_rank_differently(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.1), "lion": cost(0.3)}
    summary = raced(tmp_path, {"adamw": [40] * 5, "lion": [30] * 5}, costs)
    assert [row.contestant for row in summary.board.rows] == ["adamw", "lion"]
    assert summary.warning == "Warning: the order depends on the clock; by steps: lion, adamw."
    shown = text(summary)
    assert summary.warning in " ".join(shown.split())
    row = next(line for line in shown.splitlines() if line.startswith("1  adamw"))
    assert row.split()[2:] == ["4.00", "s", "40", "100", "4.00", "s", "5", "of", "5", "1.00", "a", "2.00"]
    assert summary.verdict == "adamw is the fastest: separated from lion (5 studies, α = 2 %)."


def test_no_warning_where_all_clocks_agree(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.1), "lion": cost(0.1)}
    assert raced(tmp_path, {"adamw": [30] * 5, "lion": [40] * 5}, costs).warning is None


def test_a_busy_machine_shows_in_the_wall_clock_alone(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.1), "lion": cost(0.1)}
    summary = raced(tmp_path, {"adamw": [30] * 5, "lion": [40] * 5}, costs, paces={"adamw": 0.9})
    assert [row.contestant for row in summary.board.rows] == ["adamw", "lion"]
    assert summary.warning is not None and "wall clock of the trials: lion, adamw" in summary.warning


def test_an_early_end_that_a_new_clock_does_not_justify_is_told(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.1), "lion": cost(0.5)}
    raced(tmp_path, {"adamw": [20] * 5, "lion": [None] * 5}, costs)
    with Results(tmp_path / "r.sqlite") as results:
        last = next(row.id for row in results.rows() if row.contestant == "lion")
        results.remark(last, PAST_TAU_MAX)
        results.end(last, "censored", {"step": 20, "training": 10.0, "evaluation": 0.0})
        assert not any("might have counted" in note for note in summarize(results).notes), "10 s are 5 times 2 s"
        results.set_calibration("tiny", {"lion": cost(0.2)}, {}, {})
        assert any(note.startswith("1 ended early that might have counted") for note in summarize(results).notes)


def test_a_study_that_ended_without_a_value_counts_as_the_worst(tmp_path: Path) -> None:
    rules = Rules(ruleset="budget", trials=1, studies=3)
    finals = {"adamw": [2.0, 2.1, 2.2], "lion": [1.0, None, None]}
    costs = {"adamw": cost(0.1), "lion": cost(0.1)}
    summary = raced(tmp_path, {"adamw": [None] * 3, "lion": [None, 10, 10]}, costs, rules=rules, finals=finals)
    (quality,) = summary.quality
    assert quality.ranked == ["adamw", "lion"], "lion diverged in two of three studies"
    assert "adamw is best on tiny (mse 2.100 against none)" in quality.verdict
    assert "1.000 to –" in text(summary)


def test_the_text_of_a_race_fits_into_a_hundred_columns(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.0123), "lion": cost(0.01)}
    summary = raced(tmp_path, {"adamw": [30, 40, 50], "lion": [40, 44, None]}, costs)
    rows = text(summary, 300).splitlines()
    assert max(len(line) for line in rows if line[:1].isdigit()) <= 100
    assert "no result of fewer than 5 studies each could separate two contestants" in summary.verdict


def test_studies_that_are_missing_are_named_and_counted(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.1), "lion": cost(0.1)}
    summary = raced(tmp_path, {"adamw": [30, 50, 40, 60, 35], "lion": [40, 36, 62, 44, 58]}, costs)
    top = summary.as_data()["top_two"]
    assert not top["separated"] and top["studies"] == 5 and top["studies_needed"] > 5
    assert f"about {top['studies_needed'] - 5} more studies each would separate adamw from lion" in summary.verdict
