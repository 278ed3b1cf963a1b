"""Settings that are found before a race: who tries what, which is taken, and that neither kills nor order matter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fallline.race.contestants import Contestant, named
from fallline.race.contestants.ranges import BadRange, narrowed, read_range, with_range
from fallline.race.engine.messages import (
    CRASHED,
    OVER_BUDGET,
    REACHED,
    Assignment,
    End,
    Evaluation,
    Event,
    Request,
    RunTrial,
)
from fallline.race.plan import RACE, ROUNDS, SEARCH, TARGET, Entry, Rules, search_trials
from fallline.race.progress import Progress
from fallline.race.results import Results
from fallline.race.run import Race
from fallline.race.verdict.answer import answer_of
from fallline.race.verdict.searched import _next_to, sentence
from fallline.race.verdict.summary import Summary, summarize
from fallline.workloads import load
from tests.race import write_workload
from tests.race.scripted import Killed, ScriptedEngine

RULES = Rules(ruleset="self", self_factor=1.0, trials=1, studies=3, clock="steps", design=ROUNDS, search=3)
BEST = {"adamw": 3e-3, "lion": 1e-3}


class RatesEngine(ScriptedEngine):
    """A trial is the slower, the further its rate is from the best."""

    def __init__(self, best: dict[str, float], **given: Any):
        super().__init__(lambda name, seed: 100.0, **given)
        self.best = best
        self.goal = 0.05

    def submit(self, slot: int, request: Request) -> None:
        if isinstance(request, RunTrial):
            self.goal = request.workload.changes.get("target", self.goal)
        super().submit(slot, request)

    def _trial(self, slot: int, task: Assignment) -> Iterator[Event]:
        off = abs(math.log(task.point["lr"] / self.best[task.contestant.name]))
        if math.isnan(off):
            yield End(CRASHED, note="ValueError: scripted")
            return
        steps = 100 + 40 * off + task.seed % 7
        for step in range(10, task.max_steps + 1, 10):
            value = 0.04 * steps / step  # 0.05 at about steps
            yield Evaluation(step, value, 1.0, training=float(step))
            if task.stop_at_target and value <= self.goal:
                yield End(REACHED, step, training=float(step), evaluation=0.0)
                return
            if slot in self._stopped:
                yield End("censored", step, training=float(step), evaluation=0.0)
                return
        yield End(OVER_BUDGET, task.max_steps, training=float(task.max_steps), evaluation=0.0)


def field() -> list[Contestant]:
    return [narrowed(named(name), []) for name in BEST]


def entry(tmp_path: Path, target: float | None = 0.05) -> Entry:
    spec = str(write_workload(tmp_path, max_steps=300, eval_every=10, target=target))
    return Entry(spec, load(spec))


def race(entry: Entry, path: Path, engine: ScriptedEngine, told: list[str] | None = None, **changes: Any) -> Summary:
    with Results(path) as results:
        progress = Progress(notice=lambda text: None if told is None else told.append(text))
        Race([entry], field(), Rules(**{**vars(RULES), **changes}), results, engine, progress).run()
        return summarize(results)


def points(path: Path, kind: str) -> list[tuple[str, int, float, int]]:
    with Results(path, writable=False) as results:
        return [(r.contestant, r.number, r.point["lr"], r.seed) for r in results.rows(kind)]


def test_everybody_tries_as_many_rates_and_races_with_the_best_on_other_seeds(tmp_path: Path) -> None:
    path, told = tmp_path / "r.sqlite", list[str]()
    summary = race(entry(tmp_path), path, RatesEngine(BEST), told)
    tried = points(path, SEARCH)
    assert Counter(name for name, *_ in tried) == {"adamw": 3, "lion": 3}
    assert len({seed for *_, seed in tried}) == 1, "common draws"
    raced = points(path, RACE)
    assert {(name, rate) for name, _, rate, _ in raced} == {("adamw", 0.0032), ("lion", 0.0011)}
    assert not {seed for *_, seed in tried} & {seed for *_, seed in raced}
    assert "Chosen on tiny: adamw lr 0.0032; lion lr 0.0011" in told
    (note,) = [note for note in summary.notes if "chosen from 3 each on one seed, 6 trials" in note]
    assert "a finer search could change the order" in note
    assert summary.verdict.startswith("Take ") and summary.looks[0].look.choice is not None


def test_the_answer_says_what_the_next_rates_cost_in_the_search(tmp_path: Path) -> None:
    summary = race(entry(tmp_path), tmp_path / "r.sqlite", RatesEngine(BEST))
    smaller, larger = summary.other_rates["adamw"]
    assert smaller.rate < 0.0032 < larger.rate and smaller.gap > 0.0 and larger.gap > 0.0
    chosen = summary.settings[str(summary.choice)].point["lr"]
    (told,) = [
        line for line in answer_of(summary).lines if f"In the search an lr of {chosen:.2g} was the fastest" in line
    ]
    assert " % more" in told


def test_rates_next_to_the_chosen_one_are_told_as_far_as_they_are_known() -> None:
    tried = [(1e-4, 300.0, True), (1e-3, 200.0, False), (1e-2, 100.0, False), (0.1, 150.0, True), (1.0, 90.0, True)]
    smaller, larger = _next_to(1e-2, tried)
    assert (smaller.rate, smaller.at_least, larger.rate, larger.at_least) == (1e-3, False, 0.1, True)
    assert sentence(1e-2, (smaller, larger)) == (
        "In the search an lr of 0.01 was the fastest; beside it, in one trial each: 0.001 took 100 % more and 0.1 took "
        "at least 50 % more."
    )
    assert _next_to(1e-4, tried) == () and sentence(1e-4, ()) is None, "nothing beside a rate that missed"
    assert [other.rate for other in _next_to(1e-2, [*tried, (0.02, 50.0, True)])] == [1e-3], "it diverged at once"


@pytest.mark.parametrize(("best", "tried"), [(1.0, 6), (2e-2, 4), (3e-3, 3), (1e-6, 6)])
def test_the_search_goes_beyond_a_documented_range_and_not_for_ever(tmp_path: Path, best: float, tried: int) -> None:
    path = tmp_path / "r.sqlite"
    race(entry(tmp_path), path, RatesEngine({**BEST, "adamw": best}))
    rates = [rate for name, _, rate, _ in points(path, SEARCH) if name == "adamw"]
    assert len(rates) == tried
    chosen = {rate for name, _, rate, _ in points(path, RACE) if name == "adamw"}
    assert chosen == {min(rates, key=lambda rate: abs(math.log(rate / best)))}


def test_a_range_of_the_user_is_a_limit(tmp_path: Path) -> None:
    made = with_range([named("adamw")], wanted := read_range("lr=1e-3:1e-2"))
    (adamw,) = [narrowed(contestant, [wanted]) for contestant in made]
    with Results(tmp_path / "r.sqlite") as results:
        Race([entry(tmp_path)], [adamw], RULES, results, RatesEngine({"adamw": 1.0})).run()
        assert len(results.rows(SEARCH)) == 3
        assert {row.point["lr"] for row in results.rows()} == {0.0068}


def test_without_a_target_the_reference_sets_it_with_the_rate_that_was_found(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    race(entry(tmp_path, None), path, RatesEngine(BEST))
    with Results(path, writable=False) as results:
        assert {row.max_steps for row in results.rows(SEARCH)} == {200}, "as long as the runs that set the target"
        assert {row.steps_to_target for row in results.rows(SEARCH)} == {None}
        assert {row.point["lr"] for row in results.rows(TARGET)} == {0.0032}
        assert results.workloads()["tiny"]["target_from"] == "the median of 3 runs of adamw"


def test_a_race_that_is_killed_in_its_search_chooses_the_same(tmp_path: Path) -> None:
    whole = tmp_path / "whole.sqlite"
    made = entry(tmp_path)
    verdict = race(made, whole, RatesEngine(BEST)).verdict
    for dies_after in range(3, 120, 13):
        path = tmp_path / f"{dies_after}.sqlite"
        for _ in range(2):
            with pytest.raises(Killed):
                race(made, path, RatesEngine(BEST, slots=2, order=dies_after, dies_after=dies_after))
        assert race(made, path, RatesEngine(BEST, slots=2)).verdict == verdict
        assert sorted(points(path, SEARCH)) == sorted(points(whole, SEARCH))
        assert set(points(path, RACE)) >= set(points(whole, RACE)), "but for studies that began ahead"
        assert {row[:3] for row in points(path, RACE)} == {row[:3] for row in points(whole, RACE)}


def test_a_run_that_was_killed_before_the_first_look_has_used_its_time(tmp_path: Path) -> None:
    path, made = tmp_path / "r.sqlite", entry(tmp_path)
    with pytest.raises(Killed):
        race(made, path, RatesEngine(BEST, dies_after=30))
    with Results(path) as results:
        assert results.seconds_used < 60 and results.ended_by is None
        with results.store.transaction() as database:
            database.execute("update run set started = started - 600")
            database.execute("update evaluation set at = at - 300")
        assert 290 < results.seconds_used < 360, "ten minutes ago it began, and five minutes ago it was killed"
    assert race(made, path, RatesEngine(BEST), minutes=4.0).ended_by == "time"
    assert race(made, path, RatesEngine(BEST), minutes=60.0).verdict.startswith("Take ")


def test_a_contestant_without_a_value_races_with_its_documented_setting(tmp_path: Path) -> None:
    path, told = tmp_path / "r.sqlite", list[str]()
    race(entry(tmp_path), path, RatesEngine({**BEST, "lion": math.nan}), told)
    assert {rate for name, _, rate, _ in points(path, RACE) if name == "lion"} == {3.4e-3}
    assert any("lion its documented setting, as no trial gave a value" in line for line in told)


def test_time_that_is_up_in_the_search_is_a_defined_end_and_more_time_goes_on(tmp_path: Path) -> None:
    path, made = tmp_path / "r.sqlite", entry(tmp_path, None)
    summary = race(made, path, RatesEngine(BEST), minutes=1e-9)
    assert summary.verdict == ("Time was up before everybody had run three studies: no choice yet.")
    assert race(made, path, RatesEngine(BEST), minutes=10.0).verdict.startswith("Take ")


def test_the_default_limit_waits_for_the_first_look(tmp_path: Path) -> None:
    summary = race(entry(tmp_path), tmp_path / "r.sqlite", RatesEngine(BEST), minutes_after_a_look=1e-9, within=0.0)
    assert [look.look.studies for look in summary.looks] == [3] and summary.ended_by in ("time", "one left")


def test_ranges_are_read_as_in_toml() -> None:
    assert read_range("lr=1e-4:1e-1").dimension == {"min": 1e-4, "max": 0.1, "scaling": "log"}
    assert read_range("sgd.momentum=0.8:0.95").dimension["scaling"] == "linear"
    assert read_range("lr=1e-3:2e-3:log").dimension["scaling"] == "log"
    assert read_range("lr=1e-3,3e-3").dimension == {"feasible_points": [1e-3, 3e-3]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lr", "is no range; write lr="),
        ("=1:2", "is no range"),
        ("lr=", "is no range"),
        ("lr=a:1", "'a' is no number"),
        ("lr=1:nan", "'nan' is no number"),
        ("lr=1:2:3:4", "a lower and an upper end"),
        ("lr=1e-3:1e-3", "nothing to search"),
        ("lr=1e-1:1e-3", "exchange them"),
        ("lr=0:1:log", "min must be > 0"),
        ("lr=1:2:cubic", '"log" or "linear"'),
        ("lr=1,1", "listed twice"),
    ],
)
def test_ranges_that_cannot_be_searched_are_one_line(text: str, said: str) -> None:
    with pytest.raises(BadRange) as error:
        read_range(text)
    assert said in str(error.value) and "\n" not in str(error.value) and text in str(error.value)


def test_a_range_is_for_those_that_search_the_setting() -> None:
    everybody = [named("adamw"), named("prodigy"), named("algoperf_baseline")]
    made = with_range(everybody, read_range("lr=1e-4:1e-1"))
    assert made[0].space["lr"]["max"] == 0.1 and made[1:] == everybody[1:]
    for text, said in (
        ("lion.lr=1:2", "lion is not in the race; there are adamw"),
        ("nosuch=1:2", "no contestant searches 'nosuch'"),
        ("algoperf_baseline.lr=1:2", "a list of settings of its own"),
    ):
        with pytest.raises(BadRange) as error:
            with_range(everybody, read_range(text))
        assert said in str(error.value)


def test_only_rates_and_the_users_ranges_are_searched(tmp_path: Path) -> None:
    assert set(narrowed(named("adamw"), []).space) == {"lr"}
    assert set(narrowed(named("prodigy"), []).space) == {"d_coef"}
    wanted = read_range("weight_decay=1e-3:1e-1")
    (lion,) = with_range([named("lion")], wanted)
    both = narrowed(lion, [wanted])
    assert set(both.space) == {"lr", "weight_decay"}
    tried = search_trials(entry(tmp_path), [both], RULES)
    assert len({t.point["lr"] for t in tried}) == len({t.point["weight_decay"] for t in tried}) == 3
