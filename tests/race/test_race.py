"""Whole races in real worker processes: interrupted ones end as the others do, and what goes wrong is a row."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import race_interruptions as interruptions
from fallline.measure.store import StoreError
from fallline.race.clock.sessions import Rounds, Session
from fallline.race.clock.step_clock import StepClock
from fallline.race.contestants import Contestant, named
from fallline.race.engine import LocalEngine
from fallline.race.engine.messages import Calibrate, Calibration, End, Event, Reply, Request, RunTrial, Untrained
from fallline.race.plan import TARGET, Entry, Rules, trials
from fallline.race.progress import Progress, RaceError
from fallline.race.results import Calibrated, Results, Row, resume
from fallline.race.run import Race
from fallline.race.verdict.summary import Summary, summarize
from fallline.workloads import load
from tests.race import write_workload


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    """Workers serve race after race, as starting them takes longer than these races."""
    made = LocalEngine(2)
    yield made
    made.close()


def race(
    engine: LocalEngine, path: Path, workload: Path, contestants: list[Contestant], rules: Rules, **progress: Any
) -> tuple[Summary, list[Row]]:
    with Results(path) as results:
        entry = Entry(str(workload), load(str(workload)))
        Race([entry], contestants, rules, results, engine, Progress(**progress)).run()
        return summarize(results), results.rows()


STEPS = Rules(trials=2, studies=2, clock="steps")


def test_a_race_ends_with_leaderboard_and_verdict_and_running_it_again_runs_nothing(
    engine: LocalEngine, tmp_path: Path
) -> None:
    contestants = [named("adamw"), Contestant("slow", "sgd", {"lr": 1e-6}, schedule="constant")]
    workload = write_workload(tmp_path)
    summary, rows = race(engine, tmp_path / "r.sqlite", workload, contestants, STEPS)
    assert [row.contestant for row in summary.board.rows] == ["adamw", "slow"]
    assert summary.board.rows[0].score == 1.0 and summary.unfinished == 0
    assert "fewer than" in summary.verdict, "two studies can separate nothing"
    assert {row.status for row in rows if row.contestant == "slow"} <= {"over budget", "censored"}
    assert not (tmp_path / "r.sqlite.checkpoints").exists()
    again, same = race(
        engine, tmp_path / "r.sqlite", workload, contestants, STEPS, trial_ended=lambda *_: pytest.fail("ran a trial")
    )
    assert same == rows and again.verdict == summary.verdict


def test_the_clock_is_calibrated_and_both_axes_are_there(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fallline.race.step_costs.CALIBRATION_SECONDS", 1.0)
    rules = Rules(ruleset="budget", trials=1, studies=2)
    contestants = [named("adamw"), named("schedule_free_adamw")]
    summary, rows = race(engine, tmp_path / "r.sqlite", write_workload(tmp_path), contestants, rules)
    cost = summary.calibration["tiny", "schedule_free_adamw"]
    assert 0 < cost.low <= cost.step_seconds <= cost.high and cost.switch_seconds > 0
    assert cost.state_bytes > cost.parameter_bytes
    assert set(summary.boards) == {"seconds", "steps", "wall"}
    budget = 120 * summary.calibration["tiny", "adamw"].step_seconds

    def seconds(steps: int) -> float:
        return steps * cost.step_seconds + math.ceil(steps / 10) * cost.switch_seconds

    for row in rows:
        assert row.max_steps is not None and row.status == "ended" and row.steps == row.max_steps
        if row.contestant == "adamw":
            assert row.max_steps == 120
        else:
            assert seconds(row.max_steps) <= budget * (1 + 1e-6) < seconds(row.max_steps + 1), "switches count"
    (quality,) = summary.quality
    assert all(len(values) == 2 for values in quality.values.values())
    assert "With the same time" in quality.verdict
    data = summary.as_data()
    assert data["verdict"] == summary.verdict and "seconds" in data["clocks"]


def test_without_a_target_the_reference_sets_it(engine: LocalEngine, tmp_path: Path) -> None:
    workload = write_workload(tmp_path, target=None)
    summary, _ = race(engine, tmp_path / "r.sqlite", workload, [named("adamw")], STEPS)
    facts = summary.workloads["tiny"]
    assert facts["target_from"] == "the best of adamw" and 0 < facts["target"] < 10


def test_without_a_target_and_tuning_it_is_the_median_of_the_references_runs(
    engine: LocalEngine, tmp_path: Path
) -> None:
    workload, rules = write_workload(tmp_path, target=None), Rules(ruleset="self", studies=1, clock="steps")
    statuses: list[Summary] = []

    def look(text: str) -> None:
        with Results(tmp_path / "r.sqlite", writable=False) as reader:
            statuses.append(summarize(reader))

    summary, _ = race(engine, tmp_path / "r.sqlite", workload, [named("adamw")], rules, notice=look)
    assert all(status.unfinished == 1 and "has not ended" in status.verdict for status in statuses) and statuses
    with Results(tmp_path / "r.sqlite", writable=False) as results:
        rows = results.rows(TARGET)
        bests = [min(value or math.inf for _, value, _ in results.evaluations(row.id)) for row in rows]
    assert {row.max_steps for row in rows} == {80} and len(rows) == 3
    facts = summary.workloads["tiny"]
    assert facts["target"] == sorted(bests)[1] and facts["target_from"] == "the median of 3 runs of adamw"


def test_self_tuning_has_one_trial_a_study_and_three_times_the_budget(engine: LocalEngine, tmp_path: Path) -> None:
    workload = write_workload(tmp_path, target=1e-12, max_steps=20)
    rules = Rules(ruleset="self", studies=2, clock="steps")
    _, rows = race(engine, tmp_path / "r.sqlite", workload, [named("adamw")], rules)
    assert [(row.study, row.number, row.steps) for row in rows] == [(0, 1, 60), (1, 1, 60)]


FLAKY = """    from pathlib import Path
    counter = Path(__file__).with_name("count")
    counter.write_text(str(int(counter.read_text()) + 1 if counter.exists() else 1))
    if int(counter.read_text()) in ({fails}):
        {how}
"""


@pytest.mark.parametrize(
    ("how", "status", "note"),
    [
        ("raise ValueError('my own mistake')", "crashed", "ValueError: my own mistake"),
        ("raise MemoryError('no more')", "out of memory", "MemoryError: no more"),
        ("torch.empty(2**50)", "out of memory", "allocate memory"),
        ("raise SystemExit(3)", "crashed", "SystemExit: 3"),
    ],
)
def test_a_trial_that_raises_is_a_row_and_the_rest_goes_on(
    engine: LocalEngine, tmp_path: Path, how: str, status: str, note: str
) -> None:
    # Evaluations 2 to 5 are those of the first trial of four: the untrained model is evaluated first.
    flaky = FLAKY.replace("{fails}", "3,").replace("{how}", how)
    workload = write_workload(tmp_path, target=1e-12, max_steps=40, in_evaluate=flaky)
    notices: list[str] = []
    solo = LocalEngine(1)
    try:
        summary, rows = race(solo, tmp_path / "r.sqlite", workload, [named("adamw")], STEPS, notice=notices.append)
    finally:
        solo.close()
    assert [row.status for row in rows] == [status, *["over budget"] * 3]
    assert rows[0].note is not None and note in rows[0].note.splitlines()[0]
    assert any(note in text for text in summary.notes)
    assert (status == "crashed") == any(note in text for text in notices)
    assert not summary.broken, "three of four were trained"


def test_who_cannot_take_a_step_has_rows_that_say_so_and_the_others_race(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fallline.race.step_costs.CALIBRATION_SECONDS", 0.3)
    broken = Contestant("broken", "sgd", {"lr": -1.0}, schedule="constant")
    workload, path = write_workload(tmp_path), tmp_path / "r.sqlite"
    rules = Rules(trials=1, studies=2)
    summary, rows = race(engine, path, workload, [named("adamw"), broken], rules)
    assert [row.status for row in rows if row.contestant == "broken"] == ["crashed"] * 2
    assert any("broken: 2 trials crashed" in note and "lr" in note for note in summary.notes)
    assert {row.status for row in rows if row.contestant == "adamw"} == {"reached"}
    assert [row.contestant for row in summary.board.rows] == ["adamw", "broken"]
    notices: list[str] = []
    race(engine, path, workload, [named("adamw"), broken], rules, notice=notices.append)
    assert not notices, "nothing is measured again"


def test_who_cannot_take_a_step_does_not_end_an_equal_time_race_that_grows(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fallline.race.step_costs.CALIBRATION_SECONDS", 0.3)
    broken = Contestant("broken", "sgd", {"lr": -1.0}, schedule="constant")
    workload, path = write_workload(tmp_path), tmp_path / "r.sqlite"
    for studies in (1, 2):
        rules = Rules(ruleset="budget", trials=1, studies=studies)
        _, rows = race(engine, path, workload, [named("adamw"), broken], rules)
        ends = [(row.contestant, row.status) for row in rows]
        assert sorted(ends) == sorted([("adamw", "ended"), ("broken", "crashed")] * studies)


def test_who_cannot_take_a_step_is_known_before_the_others_race(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fallline.race.step_costs.CALIBRATION_SECONDS", 0.3)
    broken = Contestant("broken", "sgd", {"lr": -1.0}, schedule="constant")
    ends: list[str] = []
    rules = Rules(trials=1, studies=3)
    race(
        engine,
        tmp_path / "r.sqlite",
        write_workload(tmp_path),
        [named("adamw"), broken],
        rules,
        trial_ended=lambda row, status: ends.append(row.contestant),
    )
    assert ends == ["broken"] * 3 + ["adamw"] * 3, "killed in between, it measures nobody again"


def test_a_contestant_that_is_added_does_not_change_what_equal_time_is(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fallline.race.step_costs.CALIBRATION_SECONDS", 0.3)
    workload, path = write_workload(tmp_path), tmp_path / "r.sqlite"
    rules = Rules(ruleset="budget", trials=1, studies=1)
    race(engine, path, workload, [named("lion"), named("sgd")], rules)
    grown, rules = [named("adamw"), named("sgd"), named("lion")], Rules(ruleset="budget", trials=1, studies=2)
    # Steps of AdamW take twice as long: were it the unit, the second study would have twice the steps of the first.
    seconds = {"adamw": 0.02, "lion": 0.01, "sgd": 0.01}
    with Results(path) as results:
        entry = Entry(str(workload), load(str(workload)))
        results.begin([entry], grown, rules)
        results.set_calibration("tiny", {n: Calibrated(s, s, s, 0.0, 0, 0, None) for n, s in seconds.items()}, {}, {})
        Race([entry], grown, rules, results, engine).run()
        lengths = {(row.contestant, row.study): row.max_steps for row in results.rows()}
    assert lengths["lion", 0] == lengths["lion", 1] == 120 and lengths["adamw", 0] == lengths["adamw", 1] == 60


class Asked:
    """An engine that trains nothing, and remembers whether a trial was given a checkpoint to go on from."""

    slots = 1

    def __init__(self) -> None:
        self.found: list[bool] = []
        self.seconds: dict[str, float] = {}
        """Seconds that a step of each contestant takes."""
        self.share = 0.005
        """To which share of it that is known."""
        self.noise = 0.0
        """Noise of the rounds, in which every second contestant is slow when the others are quick."""
        self.measured: list[list[str]] = []
        """The contestants of every request to measure steps."""
        self.renewed = 0
        self._event: Event = Untrained(9.0, 0.1)

    def _measured(self, seconds: float) -> Calibrated:
        return Calibrated(seconds, (1 - self.share) * seconds, (1 + self.share) * seconds, seconds, 8, 4, None)

    def submit(self, slot: int, request: Request) -> None:
        self._event = Untrained(9.0, 0.1)
        if isinstance(request, Calibrate):
            names = [arm.contestant.name for arm in request.arms]
            found = {name: self._measured(self.seconds[name]) for name in names}
            self.measured.append(names)
            signs = [1, -1] * 4
            steps = {
                name: Rounds([self.seconds[name] * (1 + (-1) ** at * sign * self.noise) for sign in signs])
                for at, name in enumerate(names)
            }
            switches = {name: Rounds([self.seconds[name]] * 4) for name in names}
            self._event = Calibration(found, Session(steps, switches, "not measured"), "at the time limit")
        if isinstance(request, RunTrial):
            assert request.task.checkpoint is not None
            self.found.append(Path(request.task.checkpoint).exists())
            self._event = End("over budget", 120, training=1.0, evaluation=1.0)

    def wait(self) -> tuple[int, Event]:
        return 0, self._event

    def reply(self, slot: int, reply: Reply) -> None: ...

    def renew(self, slot: int) -> None:
        self.renewed += 1

    def close(self) -> None: ...


@pytest.mark.parametrize("begun", [False, True])
def test_a_checkpoint_whose_results_are_gone_is_not_taken(tmp_path: Path, begun: bool) -> None:
    spec, rules = str(write_workload(tmp_path)), Rules(trials=1, studies=1, clock="steps")
    left = tmp_path / "r.sqlite.checkpoints" / "1.pt"
    left.parent.mkdir()
    left.touch()
    engine, entry = Asked(), Entry(spec, load(spec))
    with Results(tmp_path / "r.sqlite") as results:
        if begun:
            results.begin([entry], [named("adamw")], rules)
            results.add_trials(trials([entry], [named("adamw")], rules))
            results.start(1, 120)
        Race([entry], [named("adamw")], rules, results, engine).run()
    assert engine.found == [begun]


def test_who_joins_an_equal_time_race_is_put_on_the_clock_of_those_before(tmp_path: Path) -> None:
    rules = Rules(ruleset="budget", trials=1, studies=1)
    spec, asked = str(write_workload(tmp_path)), Asked()
    entry, three = Entry(spec, load(spec)), [named(name) for name in ("adamw", "lion", "sgd")]
    asked.seconds = {"adamw": 0.1, "lion": 0.2}
    with Results(tmp_path / "r.sqlite") as results:
        Race([entry], three[:2], rules, results, asked).run()
        before = results.calibration()
        # A slower hour: twice and thrice as long as before, 1 / √6 on the stored clock.
        asked.seconds = {"adamw": 0.2, "lion": 0.6, "sgd": 0.4}
        Race([entry], three, replace(rules, studies=2), results, asked).run()
        costs = results.calibration()
        assert {key: costs[key] for key in before} == before
        joined, scale = costs["tiny", "sgd"], 6**-0.5
        assert (joined.step_seconds, joined.switch_seconds) == (pytest.approx(0.4 * scale), pytest.approx(0.4 * scale))
        assert (joined.low, joined.high) == (pytest.approx(0.398 * scale), pytest.approx(0.402 * scale))
        (row,) = results.store.rows("select scale from calibration where contestant = 'sgd'")
        assert row["scale"] == pytest.approx(scale)
        lengths = {(r.contestant, r.study): r.max_steps for r in results.rows()}
        assert all(lengths[name, 0] == lengths[name, 1] for name in ("adamw", "lion", "sgd"))
    assert len(asked.measured) == 2 and asked.renewed == 0, "trials are as long as the first measurement allows"


def test_who_joins_later_is_measured_beside_the_others_and_refines_their_ratios(tmp_path: Path) -> None:
    rules, spec, asked = Rules(trials=1, studies=1), str(write_workload(tmp_path)), Asked()
    entry, three = Entry(spec, load(spec)), [named(name) for name in ("adamw", "lion", "sgd")]
    asked.seconds = {"adamw": 0.1, "lion": 0.2}
    with Results(tmp_path / "r.sqlite") as results:
        Race([entry], three[:2], rules, results, asked).run()
        assert asked.measured == [["adamw", "lion"]] * 2 and asked.renewed == 1, "before the trials, and after them"
        asked.seconds = {"adamw": 0.2, "lion": 0.6, "sgd": 0.4}
        Race([entry], three, rules, results, asked).run()
        assert asked.measured[2:] == [["adamw", "lion", "sgd"]] * 2 and asked.renewed == 2
        costs = {name: cost.step_seconds for (_, name), cost in results.calibration().items()}
        # A ratio of 2 in two sessions and of 3 in two; nothing that was shown before moves with the machine's speed.
        assert costs["lion"] / costs["adamw"] == pytest.approx(6**0.5)
        assert costs["lion"] * costs["adamw"] == pytest.approx(0.1 * 0.2)
        assert costs["sgd"] ** 2 / (costs["lion"] * costs["adamw"]) == pytest.approx(0.4**2 / (0.2 * 0.6))
        assert [len(session.steps) for session in results.sessions("tiny")] == [2, 2, 3, 3]
        assert results.calibration()["tiny", "sgd"].switch_seconds == pytest.approx(costs["sgd"]), "a switch is a step"
        Race([entry], three, rules, results, asked).measure_again()
        assert results.calibration()["tiny", "adamw"].step_seconds == pytest.approx(0.2), "that replaces all"
        assert len(results.sessions("tiny")) == 1


def test_steps_are_measured_between_rounds_only_of_those_in_contention_and_until_they_are_known_well(
    tmp_path: Path,
) -> None:
    spec, asked = str(write_workload(tmp_path)), Asked()
    entry, three = Entry(spec, load(spec)), [named(name) for name in ("adamw", "lion", "sgd")]
    asked.seconds, asked.noise = {"adamw": 0.1, "lion": 0.2, "sgd": 0.3}, 0.005
    with Results(tmp_path / "r.sqlite") as results:
        race = Race([entry], three, Rules(trials=1, studies=1), results, asked)
        race.run()
        asked.measured.clear()
        for _ in range(10):
            race.measuring.measure(["adamw", "lion"])
        assert 0 < len(asked.measured) < 10 and all(names == ["adamw", "lion"] for names in asked.measured)
        assert summarize(results).pace_errors["tiny"]["adamw", "lion"] <= 0.005
        assert summarize(results).pace_errors["tiny"]["lion", "sgd"] > 0.005, "who has left is measured no more"
        race.measuring.measure(["adamw"])
        steps = Race([entry], three, Rules(trials=1, studies=1, clock="steps"), results, asked)
        asked.measured.clear()
        steps.measuring.measure(list(steps.contestants))
        assert asked.measured == [], "one alone has no ratio, and a race by steps no clock"


def test_equal_time_is_one_length_per_contestant_whatever_was_measured_since(tmp_path: Path) -> None:
    spec, asked = str(write_workload(tmp_path)), Asked()
    asked.seconds = {"adamw": 0.1, "lion": 0.1}
    entry, both = Entry(spec, load(spec)), [named("adamw"), named("lion")]
    rules = Rules(ruleset="budget", trials=1, studies=1)
    with Results(tmp_path / "r.sqlite") as results:
        Race([entry], both, rules, results, asked).run()
        results.set_calibration("tiny", {"lion": Calibrated(0.3, 0.3, 0.3, 0.0, 0, 0, None)}, {}, {})
        Race([entry], both, replace(rules, studies=2), results, asked).run()
        assert [row.max_steps for row in results.rows() if row.contestant == "lion"] == [120, 120]


def test_equal_time_can_be_given_in_seconds(tmp_path: Path) -> None:
    spec, asked = str(write_workload(tmp_path)), Asked()
    asked.seconds = {"adamw": 0.1, "lion": 0.05}
    entry, rules = Entry(spec, load(spec)), Rules(ruleset="budget", trials=1, studies=1, seconds=22.0)
    with Results(tmp_path / "r.sqlite") as results:
        Race([entry], [named("adamw"), named("lion")], rules, results, asked).run()
        assert results.rules() == rules
        # A switch every ten steps takes as long as a step.
        assert [row.max_steps for row in results.rows()] == [200, 400]
        reference = replace(results.rows()[0], kind=TARGET)
        clock = StepClock(rules, results.calibration(), {"tiny": 10})
        assert Race([entry], [named("adamw")], rules, results, asked).trials.max_steps(reference, clock) == 133


@pytest.mark.parametrize(
    ("rules", "share", "said"),
    [
        (Rules(trials=1, studies=1), 0.009, None),
        (Rules(trials=1, studies=1), 0.032, "`fallline results calibrate {path} {spec}` measures them again"),
        (Rules(ruleset="budget", trials=1, studies=1), 0.032, "trials are as long as they allow"),
    ],
)
def test_steps_that_are_badly_known_are_told(tmp_path: Path, rules: Rules, share: float, said: str | None) -> None:
    spec, asked = str(write_workload(tmp_path)), Asked()
    asked.seconds, asked.share = {"adamw": 0.1}, share
    notices: list[str] = []
    with Results(tmp_path / "r.sqlite") as results:
        progress = Progress(notice=notices.append)
        Race([Entry(spec, load(spec))], [named("adamw")], rules, results, asked, progress).run()
    told = [notice for notice in notices if "known to" in notice]
    expected = "Steps on tiny are known to ±3.2 % (adamw), at the time limit: the machine was busy; "
    assert told == ([] if said is None else [expected + said.format(path=tmp_path / "r.sqlite", spec=spec)])


def test_where_and_how_trials_were_run_is_stored_once_per_command_that_ran_any(tmp_path: Path) -> None:
    spec, rules = str(write_workload(tmp_path)), Rules(trials=1, studies=1, clock="steps")
    entry, command = Entry(spec, load(spec)), ["race", "tiny.py"]
    with Results(tmp_path / "r.sqlite") as results:
        for studies in (1, 1, 2):
            grown = replace(rules, studies=studies)
            Race([entry], [named("adamw")], grown, results, Asked(), command=command).run()
        runs = results.store.rows("select * from run order by id")
    assert len(runs) == 2 and all(json.loads(run["command"]) == command for run in runs)
    assert "torch" in json.loads(runs[0]["machine"])["versions"] and runs[0]["started"] <= runs[0]["ended"]


def test_a_trial_that_goes_on_keeps_the_length_it_began_with(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fallline.race.step_costs.CALIBRATION_SECONDS", 0.3)
    spec, rules = str(write_workload(tmp_path)), Rules(ruleset="budget", trials=1, studies=1)
    entry = Entry(spec, load(spec))
    with Results(tmp_path / "r.sqlite") as results:
        results.begin([entry], [named("adamw")], rules)
        results.add_trials(trials([entry], [named("adamw")], rules))
        results.start(1, 50)  # on a clock that said so
        Race([entry], [named("adamw"), named("lion")], rules, results, engine).run()
        assert [row.steps for row in results.rows() if row.contestant == "adamw"] == [50]


def test_a_workload_that_nobody_can_train_on_is_left_out_and_the_others_are_raced(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fallline.race.step_costs.CALIBRATION_SECONDS", 0.3)
    files = [write_workload(tmp_path), write_workload(tmp_path, name="sad", in_loss="    raise KeyError('sorry')\n")]
    entries = [Entry(str(file), load(str(file))) for file in files]
    with Results(tmp_path / "r.sqlite") as results:
        rules = Rules(trials=1, studies=1)
        Race(entries, [named("adamw")], rules, results, engine).run()
        summary = summarize(results)
        assert list(summary.workloads) == ["tiny"] and summary.unfinished == 0
        assert any("sad: loss(model, batch) raised KeyError: 'sorry'" in note for note in summary.notes)
        # Mended, it joins with the same command.
        entries[1] = Entry(str(write_workload(tmp_path, name="sad2")), load(str(tmp_path / "sad2.py")))
        entries[1] = Entry(entries[1].spec, entries[1].workload.replace(name="sad"))
        Race(entries, [named("adamw")], rules, results, engine).run()
        assert list(summarize(results).workloads) == ["tiny", "sad"]


def test_the_clock_of_a_race_is_measured_again_without_its_trials(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fallline.race.step_costs.CALIBRATION_SECONDS", 0.3)
    path, rules = tmp_path / "r.sqlite", Rules(trials=1, studies=2)
    race(engine, path, write_workload(tmp_path), [named("adamw"), named("lion")], rules)
    with Results(path) as results:
        before, rows = results.calibration(), results.rows()
        entries = resume.entries_again(results, [str(tmp_path / "tiny.py")])
        Race(entries, results.contestants(), results.rules(), results, engine).measure_again()
        assert results.rows() == rows
        assert results.calibration().keys() == before.keys()
        assert all(results.calibration()[key] != cost for key, cost in before.items())
        equal_time = Race(entries, results.contestants(), Rules(ruleset="budget"), results, engine)
        with pytest.raises(RaceError, match="equal-time race"):
            equal_time.measure_again()


def test_a_results_file_runs_no_file_that_the_user_did_not_name(tmp_path: Path) -> None:
    spec, marker = str(write_workload(tmp_path)), tmp_path / "was run"
    entry = Entry(spec, load(spec))
    own = Contestant("mine", f"{tmp_path}/mine.py:Mine")
    with Results(tmp_path / "r.sqlite") as results:
        results.begin([entry, Entry("rosenbrock", load("rosenbrock"))], [named("adamw"), own], Rules())
        (tmp_path / "tiny.py").write_text(f"open({str(marker)!r}, 'w')\nimport os\n")
        with pytest.raises(StoreError, match=r"was raced on tiny of .*tiny.py, a file of code; name it too if it may"):
            resume.entries_again(results, [])
        with pytest.raises(StoreError, match=r"mine raced with .*mine.py:Mine, a file of code; name it too with --opt"):
            resume.contestants_again(results, [])
        assert not marker.exists()
        write_workload(tmp_path)
        assert [again.name for again in resume.entries_again(results, [spec])] == ["tiny", "rosenbrock"]
        assert len(resume.contestants_again(results, [own.optimizer])) == 2
        other = write_workload(tmp_path, name="other").rename(tmp_path / "elsewhere.py")
        renamed = Entry(str(other), load(str(other)).replace(name="tiny"))
        with pytest.raises(StoreError, match=r"holds a race on tiny of .*tiny.py, not of .*elsewhere.py; name another"):
            Race([renamed], [named("adamw")], Rules(), results, Asked()).measure_again()


BROKEN = "    return float('nan')\n"


@pytest.mark.parametrize("remedy", ["mended", "target", "anew"])
def test_a_workload_whose_target_runs_gave_no_value_can_be_mended(
    engine: LocalEngine, tmp_path: Path, remedy: str
) -> None:
    rules = Rules(trials=1, studies=1, clock="steps")

    def attempt(entry: Entry) -> None:
        with Results(tmp_path / "r.sqlite") as results:
            if remedy == "anew":
                results.make_room([entry])
            Race([entry], [named("adamw")], rules, results, engine).run()

    spec = str(write_workload(tmp_path, target=None, max_steps=30, in_evaluate=BROKEN))
    for _ in range(2):
        with pytest.raises(RaceError, match="too few trials of adamw gave a value; give a target with --target"):
            attempt(Entry(spec, load(spec)))
    # Under another name, as a worker keeps the workloads that it has loaded.
    spec = str(write_workload(tmp_path, target=None, max_steps=30).rename(tmp_path / "mended.py"))
    changes = {"target": 0.5} if remedy == "target" else {}
    attempt(Entry(spec, load(spec).replace(**changes), changes))
    with Results(tmp_path / "r.sqlite", writable=False) as results:
        assert [row.status for row in results.rows()] != [] and all(row.status for row in results.rows())
        about = results.workloads()["tiny"]
        assert about["problem"] is None and about["target"] is not None
        assert about["target_from"] == ("given" if remedy == "target" else "the best of adamw")


def test_a_workload_that_is_mended_after_its_trials_began_keeps_them(tmp_path: Path) -> None:
    spec, rules = str(write_workload(tmp_path)), Rules(trials=1, studies=1, clock="steps")
    entry = Entry(spec, load(spec))
    with Results(tmp_path / "r.sqlite") as results:
        results.begin([entry], [named("adamw")], rules)
        results.add_trials(trials([entry], [named("adamw")], rules))
        results.start(1, 120)
        results.set_workload("tiny", target=None, problem="too few trials")
        results.begin([Entry(spec, entry.workload.replace(target=None))], [named("adamw")], rules)
        assert [row.attempts for row in results.rows()] == [1]


def test_a_metric_that_is_never_a_number_is_told(engine: LocalEngine, tmp_path: Path) -> None:
    workload = write_workload(tmp_path, name="nan", in_evaluate="    return float('nan')\n")
    summary, rows = race(engine, tmp_path / "r.sqlite", workload, [named("adamw")], STEPS)
    assert {row.status for row in rows} == {"over budget"}
    assert summary.notes == ("adamw: 4 trials over budget: the metric was never a number",)


def test_a_lost_worker_is_replaced_and_its_trial_goes_on_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fallline.race.step_costs.ATTEMPTS", 2)
    lethal = FLAKY.replace("{fails}", "3, 8, 9").replace("{how}", "import os; os.kill(os.getpid(), 9)")
    workload = write_workload(tmp_path, target=1e-12, max_steps=40, eval_every=10, in_evaluate=lethal)
    solo = LocalEngine(1)
    try:
        _, rows = race(solo, tmp_path / "r.sqlite", workload, [named("adamw")], STEPS)
    finally:
        solo.close()
    assert rows[0].status == "over budget" and rows[0].attempts == 2
    assert rows[1].status == "failed" and rows[1].attempts == 2
    assert rows[1].note is not None and "killed by signal 9" in rows[1].note
    assert [row.status for row in rows[2:]] == ["over budget"] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": 1e9}, "already met before the first step"),
        (
            {"in_evaluate": "    raise KeyError('sorry')\n"},
            r"^tiny: evaluate\(model\) raised KeyError: 'sorry'\nTraceback .*\n  File .*tiny.py",
        ),
        (
            {"in_evaluate": "    return None\n"},
            r"^tiny: evaluate\(model\) returned None; return the mse as one number$",
        ),
    ],
)
def test_a_workload_that_cannot_be_raced_is_an_error_of_the_race(
    engine: LocalEngine, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(RaceError, match=said):
        race(engine, tmp_path / "r.sqlite", write_workload(tmp_path, **options), [named("adamw")], STEPS)


# ------------------------------------------------------------------ kill -9


@pytest.mark.parametrize("early_stop", [False, True])
def test_killed_races_end_as_the_uninterrupted_one(tmp_path: Path, early_stop: bool) -> None:
    workload = str(write_workload(tmp_path, max_steps=240, eval_every=4, target=0.5))
    race = ("-o", "adamw,schedule_free_adamw", "--trials", "2", "--studies", "2")
    race = (*race, "--early-stop" if early_stop else "--no-early-stop")
    whole, killed = tmp_path / "whole.sqlite", tmp_path / "killed.sqlite"
    out = interruptions.finish(workload, whole, *race)
    total = interruptions.evaluations(whole)
    assert interruptions.interrupt(workload, killed, *race, after=(0.02 * total, 0.5 * total)) == 2
    again = interruptions.finish(workload, killed, *race)
    assert not interruptions.differences(whole, killed, early_stop=early_stop)
    assert interruptions.leaderboard(again) == interruptions.leaderboard(out)
    assert any(row.split()[2].isdigit() for row in interruptions.leaderboard(out)[:-1]), "somebody reached the target"
