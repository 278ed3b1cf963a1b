"""Races in rounds: who runs what, when they end, and that nothing but the studies decides."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fallline.race.engine.messages import Check, Untrained
from fallline.race.plan import FIXED, MOST_STUDIES, ROUNDS, Entry, Rules
from fallline.race.progress import Progress
from fallline.race.results import Results
from fallline.race.rounds import Rounds
from fallline.race.run import Race
from fallline.race.verdict.looks import STUDIES_ARE_UP, TIME_IS_UP
from fallline.race.verdict.race_look import RaceLook
from fallline.race.verdict.summary import Summary, summarize
from fallline.score.decision import LEADER, NOBODY, ONE_LEFT, WITHIN
from fallline.workloads import load
from tests.race import write_workload
from tests.race.scripted import Killed, Script, ScriptedEngine, contestants, log_normal

FIELD = {"a": 0.0, "b": 0.04, "c": 0.0, "slow": 0.6}


def rules(**changes: Any) -> Rules:
    return Rules(**{"ruleset": "self", "self_factor": 1.0, "studies": 3, "clock": "steps", "design": ROUNDS, **changes})


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    spec = str(write_workload(tmp_path, max_steps=1000, eval_every=10, target=0.05))
    return Entry(spec, load(spec))


def race(
    entry: Entry,
    path: Path,
    script: Script,
    names: Mapping[str, float] = FIELD,
    engine: ScriptedEngine | None = None,
    looked: Callable[[RaceLook], None] = lambda look: None,
    **changes: Any,
) -> Summary:
    with Results(path) as results:
        engine = engine or ScriptedEngine(script)
        Race([entry], contestants(names), rules(**changes), results, engine, Progress(looked=looked)).run()
        return summarize(results)


def kept(path: Path) -> dict[str, Any]:
    """All that interruptions and workers must not change: looks but for their seconds, and their studies."""
    with Results(path, writable=False) as results:
        summary = summarize(results)
        studies = {s.contestant: s.studies for s in summary.looks[-1].look.standings}
        rows = [
            (r.contestant, r.study, r.number, r.seed, r.status, r.steps_to_target)
            for r in results.rows()
            if r.study < studies[r.contestant]
        ]
    looks = [{**look.as_data(), "seconds_used": None} for look in summary.looks]
    return {"looks": looks, "rows": sorted(rows), "verdict": summary.verdict, "board": summary.board.as_data()}


def test_three_studies_each_then_more_for_those_in_contention(entry: Entry, tmp_path: Path) -> None:
    summary = race(entry, tmp_path / "r.sqlite", log_normal(FIELD))
    sizes = [look.look.studies for look in summary.looks]
    assert sizes == [3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40][: len(sizes)] and len(sizes) > 2
    assert summary.looks[0].look.out == {"slow": 1}
    with Results(tmp_path / "r.sqlite", writable=False) as results:
        ran = Counter(row.contestant for row in results.rows())
    last = summary.looks[-1].look
    assert ran["slow"] == 3 and ran[str(last.choice)] == last.studies
    assert last.choice in ("a", "c") and summary.ended_by == last.decided in (WITHIN, ONE_LEFT)
    assert last.bound is not None and last.bound <= math.log(1.05)
    assert summary.verdict.startswith(f"Take {last.choice}: of these 4 it is the fastest in steps")
    assert summary.unfinished == 0 and not (tmp_path / "r.sqlite.checkpoints").exists()


def test_draws_are_common_to_all(entry: Entry, tmp_path: Path) -> None:
    race(entry, tmp_path / "r.sqlite", log_normal(FIELD))
    with Results(tmp_path / "r.sqlite", writable=False) as results:
        seeds = {(row.study, row.seed) for row in results.rows()}
    assert len(seeds) == len({study for study, _ in seeds})


@pytest.mark.parametrize("slots", [2, 3, 7])
def test_neither_workers_nor_their_order_change_rounds_looks_or_leaderboard(
    entry: Entry, tmp_path: Path, slots: int
) -> None:
    script = log_normal(FIELD)
    race(entry, tmp_path / "one.sqlite", script)
    for order in range(3):
        path = tmp_path / f"{order}.sqlite"
        race(entry, path, script, engine=ScriptedEngine(script, slots=slots, order=order))
        assert kept(path) == kept(tmp_path / "one.sqlite")


@pytest.mark.parametrize("slots", [1, 3])
def test_a_race_that_is_killed_anywhere_goes_on_to_the_same_looks(entry: Entry, tmp_path: Path, slots: int) -> None:
    script = log_normal(FIELD)
    race(entry, tmp_path / "whole.sqlite", script)
    path = tmp_path / "killed.sqlite"
    kills = 0
    for run in range(60):
        engine = ScriptedEngine(script, slots=slots, order=run, dies_after=97 + 53 * run)
        try:
            race(entry, path, script, engine=engine)
            break
        except Killed:
            kills += 1
    assert kills >= 5
    assert kept(path) == kept(tmp_path / "whole.sqlite")


def test_the_same_command_again_runs_nothing_and_says_the_same(entry: Entry, tmp_path: Path) -> None:
    first = race(entry, tmp_path / "r.sqlite", log_normal(FIELD))
    idle = ScriptedEngine(log_normal(FIELD))
    again = race(entry, tmp_path / "r.sqlite", log_normal(FIELD), engine=idle)
    assert idle.submitted == [] and again.verdict == first.verdict and again.looks == first.looks


def test_an_idle_worker_begins_the_next_study_of_the_best(entry: Entry, tmp_path: Path) -> None:
    ahead: list[tuple[int, list[str]]] = []

    def looked(look: RaceLook) -> None:
        with Results(tmp_path / "r.sqlite", writable=False) as results:
            early = [row.contestant for row in results.rows() if row.study >= look.look.studies and row.attempts]
        ahead.append((look.look.number, early))

    engine = ScriptedEngine(log_normal(FIELD), slots=6)
    summary = race(entry, tmp_path / "r.sqlite", log_normal(FIELD), engine=engine, looked=looked)
    assert ahead[0] == (1, []), "before the first look nobody leads"
    assert any(names for _, names in ahead[1:])
    for (_, names), before in zip(ahead[1:], summary.looks, strict=False):
        assert set(names) <= set(before.look.racing[:2])


def test_a_smaller_margin_goes_on_where_the_race_was(entry: Entry, tmp_path: Path) -> None:
    path, script = tmp_path / "r.sqlite", log_normal({"a": 0.0, "b": 0.03, "slow": 0.6})
    field = {"a": 0.0, "b": 0.03, "slow": 0.6}
    first = race(entry, path, script, field, within=0.15)
    second = race(entry, path, script, field, within=0.04)
    assert first.ended_by == WITHIN and len(second.looks) > len(first.looks)
    assert second.looks[: len(first.looks)] == first.looks, "looks stay as they were taken"
    wider = race(entry, path, script, field, within=0.2)
    assert wider.looks == second.looks and wider.ended_by in (WITHIN, ONE_LEFT)


def test_until_a_leader_one_must_be_left(entry: Entry, tmp_path: Path) -> None:
    field = {"a": 0.0, "b": 0.12}
    path, script = tmp_path / "r.sqlite", log_normal(field)
    first = race(entry, path, script, field, within=0.3)
    assert first.ended_by == WITHIN
    second = race(entry, path, script, field, until=LEADER)
    assert second.ended_by == ONE_LEFT and second.looks[-1].look.racing == ("a",)
    assert second.verdict.startswith("Take a: of these 2 it is the fastest in steps. Slower than it: b by ")


def test_one_more_contestant_catches_up_from_look_to_look(entry: Entry, tmp_path: Path) -> None:
    field = {"a": 0.0, "b": 0.02, "late": -0.15, "hopeless": 0.9}
    path, script = tmp_path / "r.sqlite", log_normal(field)
    pair = {"a": 0.0, "b": 0.02}
    before = race(entry, path, script, pair, within=0.05)
    grown = race(entry, path, script, field, within=0.05)
    assert grown.looks[: len(before.looks)] == before.looks
    joined = grown.looks[len(before.looks)].look
    assert joined.standing("late").studies == joined.standing("hopeless").studies == 3
    assert joined.standing("a").studies == before.looks[-1].look.studies, "the others wait"
    assert joined.number == len(before.looks) + 1, "looks are counted on, so that levels fall"
    assert "hopeless" in joined.out and grown.looks[-1].look.choice == "late"
    with Results(path, writable=False) as results:
        ran = Counter(row.contestant for row in results.rows())
    assert ran["hopeless"] == 3


def test_twins_end_at_the_limit_of_studies_and_not_before(entry: Entry, tmp_path: Path) -> None:
    field = {"a": 0.0, "b": 0.0}
    summary = race(entry, tmp_path / "r.sqlite", log_normal(field, sigma=0.2), field, within=0.0)
    assert summary.ended_by == STUDIES_ARE_UP and summary.looks[-1].look.studies == MOST_STUDIES
    assert "40 studies do not make that" in summary.verdict


def test_time_ends_a_race_and_more_time_goes_on(entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.0]

    def tick() -> float:
        seconds[0] += 0.05
        return seconds[0]

    monkeypatch.setattr(Rounds.__init__, "__defaults__", (*Rounds.__init__.__defaults__[:-1], tick))
    field = {"a": 0.0, "b": 0.0, "c": 0.01}
    path, script = tmp_path / "r.sqlite", log_normal(field, sigma=0.1)
    race(entry, tmp_path / "whole.sqlite", script, field, within=0.1)
    first = race(entry, path, script, field, within=0.1, minutes=0.6)
    assert first.ended_by == TIME_IS_UP and first.looks and first.unfinished > 0
    assert "at most" in first.verdict and "Time was up before that was 10 %." in first.verdict
    with Results(path, writable=False) as results:
        assert 36 <= results.seconds_used < 40
        assert not any(row.status == "censored" for row in results.rows()), "what ran is left, not judged"
    stays = race(entry, path, script, field, within=0.1, minutes=0.6)
    assert stays.looks == first.looks and stays.ended_by == TIME_IS_UP
    race(entry, path, script, field, within=0.1, minutes=1e6)
    assert kept(path) == kept(tmp_path / "whole.sqlite")


def test_time_that_is_up_in_the_first_round_is_no_choice(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]

    def tick() -> float:
        seconds[0] += 0.1
        return seconds[0]

    monkeypatch.setattr(Rounds.__init__, "__defaults__", (*Rounds.__init__.__defaults__[:-1], tick))
    summary = race(entry, tmp_path / "r.sqlite", log_normal(FIELD), minutes=0.1)
    assert summary.ended_by == TIME_IS_UP and summary.looks == ()
    assert summary.verdict == ("Time was up before everybody had run three studies: no choice yet.")
    assert summary.further is not None and "More time goes on where it was" in summary.further.sentence
    with Results(tmp_path / "r.sqlite") as results:
        assert any(row.status is None for row in results.rows())
        results.make_room([entry])
        assert not results.rows() and not results.settings(), "--anew begins anew, though trials are open"


def test_a_contestant_alone_nobody_and_crashes_are_defined(entry: Entry, tmp_path: Path) -> None:
    alone = race(entry, tmp_path / "alone.sqlite", log_normal({"a": 0.0}), {"a": 0.0})
    assert alone.ended_by == ONE_LEFT and alone.verdict == "a raced alone: there is nothing to compare."
    nobody = race(entry, tmp_path / "nobody.sqlite", lambda name, seed: math.inf)
    assert nobody.ended_by == NOBODY and nobody.verdict == (
        "Nobody reached the target: no choice. a came closest, mse 9 at step 10, target 0.05: race --anew with a "
        "--target that can be reached, or with more --max-steps."
    )
    some = log_normal(FIELD)
    seeds: list[int] = []

    def crashing(name: str, seed: int) -> float:
        if name == "slow":
            return math.nan
        if name == "b":
            seeds.append(seed)
            return math.nan if seed == seeds[0] else some(name, seed)
        return some(name, seed)

    crashed = race(entry, tmp_path / "crash.sqlite", crashing)
    first = crashed.looks[0].look
    assert first.out["slow"] == 1 and first.standing("slow").crashed == 3
    assert first.standing("b").crashed == 1 and first.standing("b").reached == 2
    assert crashed.looks[-1].look.choice in ("a", "c")


def test_a_choice_that_often_misses_says_so_in_its_second_line(entry: Entry, tmp_path: Path) -> None:
    field = {"a": 0.0, "b": 0.6, "c": 0.7}
    steps, seeds = log_normal(field, sigma=0.01), list[int]()

    def missing(name: str, seed: int) -> float:
        """Every third study, whoever runs it."""
        if seed not in seeds:
            seeds.append(seed)
        return math.inf if seeds.index(seed) % 3 == 1 else steps(name, seed)

    summary = race(entry, tmp_path / "r.sqlite", missing, field, design=FIXED, studies=6)
    assert summary.choice == "a" and summary.lines[0].startswith("Take a: ")
    assert summary.lines[1] == (
        "But a missed the target in 2 of 6 studies: expect no better of it in your own training."
    )
    rarely = race(entry, tmp_path / "s.sqlite", log_normal(field), field)
    assert rarely.choice == "a" and "missed" not in rarely.verdict


def test_a_crash_in_the_second_study_is_one_of_a_contestant_that_stays(entry: Entry, tmp_path: Path) -> None:
    steps, seeds = log_normal(FIELD), list[int]()

    def crashing(name: str, seed: int) -> float:
        if seed not in seeds:
            seeds.append(seed)
        return math.nan if name == "a" and seeds.index(seed) == 1 else steps(name, seed)

    summary = race(entry, tmp_path / "r.sqlite", crashing)
    first = summary.looks[0].look.standing("a")
    assert (first.crashed, first.reached, first.studies) == (1, 2, 3)
    assert summary.ended_by is not None and summary.choice is not None
    assert any("a: 1 trial crashed: ValueError: scripted" in note for note in summary.notes)


def test_a_metric_that_is_no_number_is_told_before_anything_runs(entry: Entry, tmp_path: Path) -> None:
    class NoNumber(ScriptedEngine):
        def submit(self, slot: int, request: Any) -> None:
            super().submit(slot, request)
            if isinstance(request, Check):
                assert not told
                self._events[slot] = iter([Untrained(None, 0.0)])

    told: list[str] = []
    with Results(tmp_path / "r.sqlite") as results:
        engine = NoNumber(log_normal(FIELD))
        Race([entry], contestants(FIELD), rules(), results, engine, Progress(notice=told.append)).run()
    assert told[0] == "tiny: mse is no number before training; while it is none, no target is met"


def test_without_noise_a_difference_of_one_evaluation_is_within_the_grid(entry: Entry, tmp_path: Path) -> None:
    steps = {"a": 400.0, "b": 410.0, "far": 800.0}
    summary = race(entry, tmp_path / "r.sqlite", lambda name, seed: steps[name], steps)
    assert summary.looks[0].look.out == {"far": 1}
    assert summary.ended_by == WITHIN and summary.looks[-1].look.choice == "a"


def test_a_fixed_design_is_looked_at_once(entry: Entry, tmp_path: Path) -> None:
    path, script = tmp_path / "r.sqlite", log_normal(FIELD)
    summary = race(entry, path, script, design=FIXED, studies=4)
    (look,) = summary.looks
    assert look.look.studies == 4 and look.look.out == {"slow": 1} and summary.ended_by is None
    again = race(entry, path, script, design=FIXED, studies=4)
    assert again.looks == summary.looks
    more = race(entry, path, script, design=FIXED, studies=5)
    assert [entry.look.number for entry in more.looks] == [1, 2] and more.looks[1].look.studies == 5


def test_equal_time_is_decided_by_the_metric(entry: Entry, tmp_path: Path) -> None:
    """Values at the end are the script's; the times to the target are the other way round."""
    from fallline.race.clock.calibrated import Calibrated
    from fallline.race.engine.messages import ENDED, End, Evaluation

    class Equal(ScriptedEngine):
        def _trial(self, slot: int, task: Any) -> Any:
            value = self._script(task.contestant.name, task.seed) / 400.0
            yield Evaluation(task.max_steps, value, 1.0, training=1.0)
            yield End(ENDED, task.max_steps, training=1.0, evaluation=0.0)

    field = {"a": 0.0, "b": 0.03, "bad": 0.5}
    path = tmp_path / "r.sqlite"
    chosen = rules(ruleset="budget", trials=1, clock="calibrated", within=0.01)
    with Results(path) as results:
        results.begin([entry], contestants(field), chosen)
        costs = {name: Calibrated(0.01, 0.0099, 0.0101, 0.0, 8, 8, None) for name in field}
        results.set_calibration("tiny", costs, {}, {})
        engine = Equal(log_normal(field, sigma=0.005))
        Race([entry], contestants(field), chosen, results, engine).run()
        summary = summarize(results)
    assert summary.looks[0].quantity == "metric" and summary.looks[0].look.out["bad"] == 1
    assert summary.looks[-1].look.choice == "a" and summary.ended_by in (WITHIN, ONE_LEFT)
    assert summary.verdict.startswith("Take a: of these 3 it is the best")
