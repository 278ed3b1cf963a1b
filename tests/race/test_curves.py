"""Stored evaluations give more than the leaderboard: learning curves with bands, and how close misses came."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from fallline.document.figures import Chart
from fallline.document.terminal import plain
from fallline.race.contestants import named
from fallline.race.document import document
from fallline.race.engine.messages import End, Evaluation
from fallline.race.figures import curve_figures
from fallline.race.plan import Entry, Rules, trials
from fallline.race.results import Calibrated, Results
from fallline.race.verdict.summary import Summary, summarize
from fallline.workloads import load
from tests.race import write_workload

TARGET = 4.0
Values = Sequence[float | None]


def raced(
    folder: Path,
    curves: Mapping[str, Sequence[Values]],
    *,
    ends: Mapping[str, str] | None = None,
    goes_on: bool = False,
    rules: Rules | None = None,
) -> Summary:
    """Contestant → one list of values per study, evaluated every 10 steps; a trial ends where it meets the target."""
    path = str(write_workload(folder, target=TARGET))
    entry, contestants = Entry(path, load(path)), [named(name) for name in curves]
    studies = len(next(iter(curves.values())))
    rules = rules or Rules(trials=1, studies=studies, ruleset="budget" if goes_on else "external")
    with Results(folder / "r.sqlite") as results:
        results.begin([entry], contestants, rules)
        results.set_workload("tiny", untrained=9.0)
        costs = {name: Calibrated(0.1, 0.099, 0.101, 0.0, 8, 4, None) for name in curves}
        results.set_calibration("tiny", costs, {}, {})
        results.add_trials(trials([entry], contestants, rules))
        for row in results.rows():
            results.start(row.id, 120)
            status, step = "over budget", 0
            for at, value in enumerate(curves[row.contestant][row.study]):
                step = 10 * (at + 1)
                met = value is not None and value <= TARGET
                results.add_evaluation(row.id, Evaluation(step, value, 1.0, training=0.1 * step), met)
                if met:
                    status = "reached"
                if met and not goes_on:
                    break
            results.end(row.id, End((ends or {}).get(row.contestant, status), step, 0.1 * step, 0.0))
        return summarize(results)


def test_a_curve_ends_at_the_target_at_the_median_time(tmp_path: Path) -> None:
    studies = [[8.0, 6.0, 4.0], [8.0, 7.0, 6.0, 5.0, 4.0], [8.0, 7.5, 7.0, 6.5, 6.0, 5.5, 5.0, 4.5, 4.0]]
    summary = raced(tmp_path, {"adamw": studies})
    (curve,) = summary.curves
    (row,) = summary.boards["steps"].rows
    assert curve.reached and curve.studies == 3
    assert (curve.steps[-1], curve.median[-1]) == (row.times["tiny"], TARGET)
    # After 30 steps the quickest has ended; it stays at the target and does not leave the others to be the middle.
    assert list(zip(curve.steps, curve.median, strict=True))[:5] == [
        (0, 9.0),
        (10, 8.0),
        (20, 7.0),
        (30, 6.0),
        (40, 5.0),
    ]
    assert curve.low[3] == TARGET and curve.high[3] == 7.0 and curve.low[4] == TARGET
    assert curve.seconds == pytest.approx([0.1 * step for step in curve.steps])


def test_curves_that_go_on_after_the_target_are_shown_to_their_end(tmp_path: Path) -> None:
    summary = raced(tmp_path, {"adamw": [[5.0, 3.0, 2.0]] * 2}, goes_on=True)
    (curve,) = summary.curves
    assert not curve.reached and curve.steps == (0, 10, 20, 30) and curve.median == (9.0, 5.0, 3.0, 2.0)


def test_a_study_without_a_value_is_worse_than_all_others_and_at_no_edge(tmp_path: Path) -> None:
    summary = raced(tmp_path, {"adamw": [[8.0, 7.0, 6.0], [8.0, None, None], [6.0, 6.0, 5.0]]})
    (curve,) = summary.curves
    assert curve.median == (9.0, 8.0, 7.0, 6.0) and curve.high == (9.0, 8.0, 7.0, 6.0) and not curve.reached
    (tmp_path / "r.sqlite").unlink()
    assert raced(tmp_path, {"adamw": [[None, None]] * 3}).curves == (), "nothing is known of it"


def test_bands_of_many_studies_are_their_middle_half(tmp_path: Path) -> None:
    values = [float(10 + study) for study in range(9)]
    (curve,) = raced(tmp_path, {"adamw": [[value] for value in values]}).curves
    assert (curve.low[1], curve.median[1], curve.high[1]) == (12.0, 14.0, 16.0)
    assert (curve.low[1], curve.high[1]) == tuple(np.quantile(values, [0.25, 0.75]))


def test_a_tuned_study_is_shown_by_the_trial_that_counts(tmp_path: Path) -> None:
    path = str(write_workload(tmp_path, target=TARGET))
    entry, contestants, rules = Entry(path, load(path)), [named("adamw")], Rules(trials=2, studies=1, clock="steps")
    with Results(tmp_path / "r.sqlite") as results:
        results.begin([entry], contestants, rules)
        results.add_trials(trials([entry], contestants, rules))
        for row, values in zip(results.rows(), [[8.0, 8.0, 8.0], [7.0, 3.0]], strict=True):
            for at, value in enumerate(values):
                results.add_evaluation(row.id, Evaluation(10 * (at + 1), value, 1.0, training=1.0), value <= TARGET)
            results.end(row.id, End("reached" if values[-1] <= TARGET else "over budget", 30, 1.0, 0.0))
        (curve,) = summarize(results).curves
    assert curve.median == (7.0, TARGET) and curve.seconds is None


def test_figures_have_a_line_for_each_contestant_with_its_time_and_the_target(tmp_path: Path) -> None:
    curves = {"adamw": [[8.0, 6.0, 5.0, 4.0]] * 3, "lion": [[8.0, 7.0, 6.0, 5.5, 5.0]] * 3}
    summary = raced(tmp_path, curves)
    by_steps, by_seconds = curve_figures(summary)
    assert isinstance(by_steps, Chart) and isinstance(by_seconds, Chart)
    assert (by_steps.name, by_seconds.name) == ("curves_tiny_steps", "curves_tiny_seconds")
    assert [line.name for line in by_steps.series] == ["adamw  40 steps", "lion"]
    assert [line.name for line in by_seconds.series] == ["adamw  4.00 s", "lion"]
    assert by_steps.caption == "median of 3 studies, band: their range" and by_steps.series[0].ends
    assert [(mark.y, mark.text) for mark in by_steps.marks] == [(4.0, "target 4")]
    assert by_steps.y.low < 4.0 and not by_steps.y.log and by_steps.x.high >= 50
    figures = document(summary, tmp_path / "r.sqlite").figures
    assert [figure.name for figure in figures][:2] == ["curves_tiny_steps", "curves_tiny_seconds"]
    assert "profiles" not in {figure.name for figure in figures}, "of one workload it is a jump from 0 to 1"
    data = json.loads(json.dumps(summary.as_data()))
    assert [curve["contestant"] for curve in data["curves"]] == ["adamw", "lion"]


def test_a_metric_that_falls_by_far_has_a_logarithmic_axis(tmp_path: Path) -> None:
    falling = [[10.0 * 0.5**k + TARGET * 0.001 for k in range(12)]]
    summary = raced(tmp_path, {"adamw": falling}, goes_on=True)
    chart = curve_figures(summary)[0]
    assert isinstance(chart, Chart) and chart.y.log and chart.y.low > 0.0


# ------------------------------------------------------------------ misses


def test_a_miss_is_told_with_its_best_value_and_the_step_of_it(tmp_path: Path) -> None:
    curves = {"adamw": [[4.0]] * 3, "lion": [[8.0, 5.0, 6.0], [8.0, 7.0, 4.5], [6.0, 4.0, 4.0]]}
    summary = raced(tmp_path, curves)
    (miss,) = summary.misses
    assert (miss.contestant, miss.missed, miss.studies, miss.crashed) == ("lion", 2, 3, 0)
    assert (miss.best, miss.step, miss.target) == (4.5, 30, TARGET)
    said = "lion missed the target on tiny in 2 of 3 studies: best mse 4.5 at step 30; target 4"
    assert said in summary.notes and said in " ".join(plain(document(summary, Path("r.sqlite")), 200).split())
    assert summary.as_data()["misses"][0]["best"] == 4.5


def test_who_crashed_ranks_below_who_missed_and_whoever_came_closer_above_both(tmp_path: Path) -> None:
    curves: dict[str, list[Values]] = {
        "adamw": [[8.0], [8.0], [8.0]],
        "lion": [[8.0, 6.0]] * 3,
        "sgd": [[4.0]] * 3,
        "adan": [[8.0, 5.0]] * 3,
    }
    summary = raced(tmp_path, curves, ends={"adamw": "crashed"})
    assert all(
        [row.contestant for row in board.rows] == ["sgd", "adan", "lion", "adamw"] for board in summary.boards.values()
    )
    crashed = next(miss for miss in summary.misses if miss.contestant == "adamw")
    assert (crashed.crashed, crashed.missed, crashed.sentence) == (3, 0, None), "why it crashed is told apart"


def test_a_miss_without_any_number_has_no_best_value_and_ranks_last_of_the_missed(tmp_path: Path) -> None:
    summary = raced(tmp_path, {"adamw": [[None, None]] * 2, "lion": [[8.0, 9.0]] * 2})
    assert [row.contestant for row in summary.board.rows] == ["lion", "adamw"]
    first = summary.misses[0]
    assert first.contestant == "adamw" and first.best is None and first.sentence is None
    assert all(math.isfinite(value) for value in summary.curves[0].median)
