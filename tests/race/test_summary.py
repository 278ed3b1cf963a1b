"""What is said of a race, from rows written by hand: both axes, warnings, equal budgets, the verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fallline.document.terminal import plain
from fallline.race.contestants import Contestant, named
from fallline.race.document import document
from fallline.race.engine.messages import End, Evaluation
from fallline.race.plan import TARGET, Entry, Rules, target_trials, trials
from fallline.race.results import Calibrated, Results
from fallline.race.verdict.early_stop import PAST_TAU_MAX
from fallline.race.verdict.quality import Quality
from fallline.race.verdict.summary import Summary, summarize
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
            pace = (paces or {}).get(row.contestant, costs[row.contestant].step_seconds)
            event = Evaluation(reached or 10, 1.0, 1.0, training=(reached or 10) * pace, evaluation=2.0)
            results.add_evaluation(row.id, event, reached is not None)
            if finals is not None:
                final = finals[row.contestant][row.study]
                if final is not None:
                    results.add_evaluation(row.id, replace(event, step=120, value=final), False)
            results.end(row.id, ended("reached" if reached else "over budget", event))
        return summarize(results)


def ended(status: str, event: Evaluation) -> End:
    return End(status, event.step, event.training, event.evaluation)


def text(summary: Summary, width: int = 100) -> str:
    return plain(document(summary, Path("r.sqlite")), width)


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
    assert row.split()[2:] == ["4.00", "s", "40", "100", "4.00", "s", "5", "of", "5", "1.00", "2.00"]
    assert summary.verdict.startswith("Take adamw: of these 2 it is the fastest in seconds. Slower than it: lion by ")


def test_no_warning_where_all_clocks_agree(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.1), "lion": cost(0.1)}
    assert raced(tmp_path, {"adamw": [30] * 5, "lion": [40] * 5}, costs).warning is None


def test_a_tie_on_one_clock_is_no_other_order(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.2), "lion": cost(0.1)}
    summary = raced(tmp_path, {"adamw": [30] * 5, "lion": [30] * 5}, costs)
    assert [row.contestant for row in summary.board.rows] == ["lion", "adamw"]
    assert summary.warning is None, "both took the same steps"


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
        results.end(last, End("censored", 20, 10.0, 0.0))
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
    assert summary.verdict.startswith("Take adamw: of these 2 it is the fastest in seconds, or at most ")
    assert "3 studies do not make that 5 %." in summary.verdict


def test_a_race_on_one_workload_shows_how_its_studies_spread(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.1), "lion": cost(0.1)}
    lines = text(raced(tmp_path, {"adamw": [30, 40, 50], "lion": [40, 60, None]}, costs), 80).splitlines()
    adamw, chosen, set_to = (line.split() for line in lines if line.startswith("adamw  "))
    lion, behind, _ = (line.split() for line in lines if line.startswith("lion  "))
    assert adamw[1:4] == ["3.00", "to", "5.00"] and adamw[5] == "to" and len(adamw) == 7
    assert lion[1:4] == ["4.00", "to", "–"]
    assert chosen[-2:] == ["the", "choice"] and float(behind[1]) > 0.0 > float(behind[2]) and behind[3] == "to"
    assert set_to[1] == "lr", "settings follow"
    (tmp_path / "r.sqlite").unlink()
    single = text(raced(tmp_path, {"adamw": [30], "lion": [40]}, costs))
    assert "range over studies" not in single, "of one study there is none"


def test_a_race_on_many_workloads_can_be_read_in_eighty_columns(tmp_path: Path) -> None:
    specs = ("clicks", "mri", "graphs", "translation", "chars", "fashion_mlp", "quadratic_deep", "rosenbrock")
    path = str(write_workload(tmp_path))
    entries = [Entry(path, load(path).replace(name=name)) for name in specs]
    names = ("schedule_free_prodigy", "generalized_adam")
    contestants, rules = [named(name) for name in names], Rules(trials=1, studies=2)
    with Results(tmp_path / "r.sqlite") as results:
        results.begin(entries, contestants, rules)
        for name in specs:
            results.set_calibration(name, {contestant: cost(0.0123) for contestant in names}, {}, {})
        results.add_trials(trials(entries, contestants, rules))
        for row in results.rows():
            results.start(row.id, 120)
            event = Evaluation(20, 1.0, 1.0, training=12.3, evaluation=2.0)
            results.add_evaluation(row.id, event, True)
            results.end(row.id, ended("reached", event))
        lines = text(summarize(results), 80).splitlines()
    assert "1  generalized_adam       1.0000   1.00 to 1.00      a     0.50     8 of 8" in lines
    assert sum(line.startswith("schedule_free_prodigy ") for line in lines) == 4, "axes, seconds, steps, settings"
    assert max(map(len, lines)) <= 80


def test_studies_that_are_missing_are_named_and_counted(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.1), "lion": cost(0.1)}
    summary = raced(tmp_path, {"adamw": [30, 50, 40, 60, 35], "lion": [40, 36, 62, 44, 58]}, costs)
    top = summary.as_data()["top_two"]
    assert not top["separated"] and top["studies"] == 5 and top["studies_needed"] > 5
    said = re.search(r"about (\d+) more studies each would separate adamw from lion", summary.board.verdict)
    assert said is not None and int(said[1]) == pytest.approx(top["studies_needed"] - 5, rel=0.05), "two digits of it"
    assert summary.further is not None and summary.further.command.endswith(f"--studies {5 + summary.further.studies}")


def test_the_exact_test_is_a_cross_check_from_seven_studies_on(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.1), "lion": cost(0.1)}
    few = raced(tmp_path, {"adamw": [30, 31, 32] * 2, "lion": [50, 52, 51] * 2}, costs)
    assert few.cross_check is None and "group" not in text(few) and "P(above" not in text(few)
    (tmp_path / "r.sqlite").unlink()
    many = raced(tmp_path, {"adamw": [30, 31, 32] * 3, "lion": [50, 52, 51] * 3}, costs)
    assert many.cross_check is not None and "adamw is the fastest: separated from lion" in many.cross_check
    shown = text(many)
    assert "group" in shown and shown.index("Cross-check by an exact test of time to target") < shown.index(
        "Take adamw"
    )


def test_what_was_spent_on_setting_a_target_is_among_the_costs(tmp_path: Path) -> None:
    costs = {"adamw": cost(0.1), "lion": cost(0.1)}
    before = raced(tmp_path, {"adamw": [30], "lion": [40]}, costs).training_hours
    spec = str(tmp_path / "tiny.py")
    with Results(tmp_path / "r.sqlite") as results:
        results.add_trials(target_trials(Entry(spec, load(spec)), named("adamw"), Rules(trials=1)))
        (row,) = results.rows(TARGET)
        results.end(row.id, End("ended", 80, 3600.0, 1.0))
        assert summarize(results).training_hours == pytest.approx(before + 1.0)
        results.end(row.id, End("crashed", note="of a trial that crashed, what came before its last evaluation"))
        assert summarize(results).training_hours == pytest.approx(before)
        results.add_evaluation(row.id, Evaluation(10, 1.0, 1.0, training=1800.0), False)
        assert summarize(results).training_hours == pytest.approx(before + 0.5)


def test_speed_ups_over_the_reference_are_means_over_workloads(tmp_path: Path) -> None:
    path = str(write_workload(tmp_path))
    entries = [Entry(path, load(path).replace(name=name)) for name in ("one", "two")]
    contestants, rules = [named("adamw"), named("lion")], Rules(trials=1, studies=1)
    reached = {("adamw", "one"): 40, ("adamw", "two"): 30, ("lion", "one"): 20, ("lion", "two"): None}
    with Results(tmp_path / "r.sqlite") as results:
        results.begin(entries, contestants, rules)
        for name in ("one", "two"):
            results.set_calibration(name, {"adamw": cost(0.2), "lion": cost(0.1)}, {}, {})
        results.add_trials(trials(entries, contestants, rules))
        for row in results.rows():
            steps = reached[row.contestant, row.workload]
            results.start(row.id, 120)
            event = Evaluation(steps or 120, 1.0, 1.0, training=1.0, evaluation=1.0)
            results.add_evaluation(row.id, event, steps is not None)
            results.end(row.id, ended("reached" if steps else "over budget", event))
        summary = summarize(results)
    # 8 s against 2 s, and 6 s against a miss, the 12 s of its budget of 120 steps.
    assert {row.contestant: row.speedup for row in summary.board.rows} == {
        "adamw": pytest.approx(1.0),
        "lion": pytest.approx(2**0.5),
    }
    assert "Speed-up over adamw, geometric mean, a miss counted as the budget: lion 1.41×." in text(summary)
    by_steps = {row.contestant: row.speedup for row in summary.boards["steps"].rows}
    assert by_steps["lion"] == pytest.approx((40 / 20 * 30 / 120) ** 0.5)


def test_a_second_name_shares_no_luck_with_the_others(tmp_path: Path) -> None:
    path = write_workload(tmp_path)
    entry, rules = Entry(str(path), load(str(path))), Rules(trials=2, studies=2, clock="steps")
    contestants = [named("adamw"), named("lion"), named("twin=adamw")]
    with Results(tmp_path / "r.sqlite") as results:
        results.begin([entry], contestants, rules)
        results.add_trials(trials([entry], contestants, rules))
        assert summarize(results).times["steps"].common_draws == {"adamw", "lion"}


def test_who_has_fewer_trials_is_named(tmp_path: Path) -> None:
    path = write_workload(tmp_path)
    entry, rules = Entry(str(path), load(str(path))), Rules(trials=3, studies=2, clock="steps")
    points = ({"lr": 0.1}, {"lr": 0.2})
    fixed, listed = Contestant("fixed", "sgd", {"lr": 0.1}), Contestant("listed", "sgd", points=points)
    contestants = [named("adamw"), fixed, listed]
    with Results(tmp_path / "r.sqlite") as results:
        results.begin([entry], contestants, rules)
        results.add_trials(trials([entry], contestants, rules))
        notes = summarize(results).notes
    assert notes == (
        "fixed: 1 trial a study, others have 3: it has no space to be tuned in",
        "listed: 2 trials a study, others have 3: its list has no more points",
    )


def test_an_equal_metric_has_no_best(tmp_path: Path) -> None:
    values = {"adamw": (0.5, 0.5, 0.6), "lion": (0.5, 0.4, 0.5), "sgd": (0.7, 0.8, 0.9)}
    sentence = Quality("tiny", "mse", "lower", values).verdict
    assert sentence.startswith("With the same time adamw and lion are equal on tiny (mse 0.5000), not distinguishable")
    assert "from sgd; 3 studies each cannot separate any two of 3, 6 could" in sentence
    # Ten studies that are all below the last one's, and ten with the same median that reach into them.
    last = tuple(1.0 + 0.01 * study for study in range(10))
    level = {"adamw": (0.5,) * 10, "lion": (0.5,) * 6 + (2.0,) * 4, "sgd": last}
    sentence = Quality("tiny", "mse", "lower", level).verdict
    assert sentence == "With the same time adamw and lion are equal on tiny (mse 0.5000), not distinguishable from sgd."
    two = {name: values[name] for name in ("adamw", "lion")}
    assert Quality("tiny", "mse", "lower", two).verdict == (
        "With the same time adamw and lion are equal on tiny (mse 0.5000)."
    )


@pytest.mark.parametrize("studies", [1, 3])
def test_one_contestant_one_study_and_nobody_there_are_said_as_they_are(tmp_path: Path, studies: int) -> None:
    costs = {"adamw": cost(0.1), "lion": cost(0.1)}
    nobody = raced(tmp_path, {"adamw": [None] * studies, "lion": [None] * studies}, costs)
    few = "Nobody reached a target in time: there is no leader."
    many = "Nobody reached the target: no choice. adamw came closest, mse 1 at step 10, target 4:"
    assert nobody.verdict.startswith(few if studies < 3 else many)
    assert "1 quasirandom trial a study" in text(nobody)


@pytest.mark.parametrize(
    ("pace", "rules", "said"),
    [
        (0.038, Rules(trials=1, studies=1), "busy then; measure them again with --calibrate"),
        (0.038, Rules(ruleset="budget", trials=1, studies=1), "busy then; race anew"),
        (0.095, Rules(trials=1, studies=1), None),  # within what intervals and memory do
        (0.2, Rules(trials=1, studies=1), None),  # trials share the machine
    ],
)
def test_steps_that_were_slower_when_measured_than_in_the_trials_are_told(
    tmp_path: Path, pace: float, rules: Rules, said: str | None
) -> None:
    costs = {"adamw": cost(0.1), "lion": cost(0.097)}
    summary = raced(tmp_path, {"adamw": [30], "lion": [40]}, costs, rules=rules, paces={"adamw": 0.1, "lion": pace})
    told = [note for note in summary.notes if "when they were measured" in note]
    expected = "steps of lion on tiny took 97 ms when they were measured and 38 ms in the trials: the machine was "
    assert told == ([] if said is None else [expected + said])
