"""Looks at a race: which studies they see, by which clock, and that early ends change nothing."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fallline.race.clock.pace import LARGEST_ERROR
from fallline.race.plan import FIXED, ROUNDS, Rules
from fallline.race.results import Results
from fallline.race.verdict.early_stop import late_shares
from fallline.race.verdict.looks import evidence_of, over, take
from fallline.race.verdict.material import Material, material_of
from fallline.race.verdict.quality import Quality
from fallline.race.verdict.race_look import METRIC, SCORE, TIME, RaceLook
from fallline.race.verdict.summary import summarize
from fallline.score.decision import Times
from fallline.score.decision.several import Scores
from fallline.score.times import StudyTimes
from tests.race.scripted import ScriptedEngine, log_normal
from tests.race.test_rounds import entry as entry
from tests.race.test_rounds import race

GENERATOR = np.random.default_rng(4)


def table(times: Mapping[str, Sequence[float]], errors: float = 0.0, workloads: Sequence[str] = ("w",)) -> StudyTimes:
    cells = {(name, w): dict(enumerate(row)) for name, row in times.items() for w in workloads}
    return StudyTimes(
        tuple(times), tuple(workloads), {}, cells, frozenset(times), {key: errors for key in cells} if errors else {}
    )


def material(
    times: Mapping[str, Sequence[float]], *, pace: Mapping[str, float] | None = None, error: float = 0.0, **changes: Any
) -> Material:
    """Steps to target, and seconds where a step's are given."""
    by_clock = {"steps": table(times)}
    allowed = {"steps": {(name, "w"): 1000.0 for name in times}}
    if pace is not None:
        by_clock["seconds"] = table({n: [pace[n] * t for t in row] for n, row in times.items()}, error)
        allowed["seconds"] = {(name, "w"): 1000.0 * pace[name] for name in times}
    ratios = {"w": {pair: error for pair in itertools.combinations(times, 2)}}
    made = Material(Rules(ruleset="self", design=ROUNDS), by_clock, allowed, {"w": 10}, frozenset(), (), ratios)
    return dataclasses.replace(made, **changes)


def scatter(typical: float, studies: int = 6, sigma: float = 0.03) -> list[float]:
    return (typical * np.exp(GENERATOR.normal(0.0, sigma, studies))).tolist()


TIMES = {"a": scatter(400), "b": scatter(420), "slow": scatter(900)}


def test_a_look_sees_the_first_studies_of_each_and_no_others() -> None:
    studies = {"a": 4, "b": 4, "slow": 3}
    found = evidence_of(material(TIMES), "steps", studies)
    assert isinstance(found, Times)
    assert {name: len(row) for name, row in found.values.items()} == studies
    assert found.values["a"] == pytest.approx(np.log(TIMES["a"][:4]))
    assert found.floor == pytest.approx(
        10 / np.median([*TIMES["a"][:4], *TIMES["b"][:4], *TIMES["slow"][:3]]) / 12**0.5
    )
    assert found.miss["a"] == pytest.approx(math.log(1000)) and found.paired


def test_seconds_decide_where_the_clock_is_good_and_steps_where_it_is_not() -> None:
    pace = {"a": 2.0, "b": 1.0, "slow": 1.0}
    studies = dict.fromkeys(TIMES, 6)
    good = take(material(TIMES, pace=pace, error=0.003), studies, ())
    assert (good.clock, good.other_clock, good.look.choice) == ("seconds", "steps", "b")
    assert good.clock_error == 0.003 and good.other is not None and good.other.choice == "b"
    assert good.other.bound is not None and good.other.bound > 0.0, "in steps b may cost something"
    busy = take(material(TIMES, pace=pace, error=2 * LARGEST_ERROR), studies, ())
    assert (busy.clock, busy.other_clock, busy.look.choice) == ("steps", "seconds", "a")
    assert busy.other is not None and busy.other.bound is not None and busy.other.bound > math.log(1.5)
    assert take(material(TIMES), studies, ()).other is None


def test_who_cannot_take_a_step_has_the_longest_budget_of_the_others() -> None:
    times = {**TIMES, "broken": [math.inf] * 6}
    made = material(times, pace={"a": 1.0, "b": 2.0, "slow": 1.0, "broken": math.inf})
    made = dataclasses.replace(made, crashed=frozenset(("broken", "w", study) for study in range(6)))
    found = evidence_of(made, "seconds", dict.fromkeys(times, 6))
    assert isinstance(found, Times) and found.miss["broken"] == pytest.approx(math.log(2000))
    assert take(made, dict.fromkeys(times, 6), ()).look.out["broken"] == 1


def test_the_metric_at_equal_time_is_a_logarithm_or_itself() -> None:
    studies = dict.fromkeys("ab", 3)

    def values(direction: str, **rows: tuple[float, ...]) -> Times:
        quality = Quality("w", "loss", direction, rows)
        made = material({"a": [1.0] * 3, "b": [1.0] * 3}, rules=Rules(ruleset="budget"), quality=(quality,))
        assert take(made, studies, ()).quantity == METRIC
        found = evidence_of(made, "steps", studies)
        assert isinstance(found, Times)
        return found

    lower = values("lower", a=(1.0, 1.1, 1.2), b=(2.0, math.inf, 2.4))
    assert lower.values["a"] == pytest.approx(np.log([1.0, 1.1, 1.2]))
    assert lower.values["b"][1] == math.inf and lower.miss["b"] == pytest.approx(math.log(2.4))
    higher = values("higher", a=(0.9, 0.8, 0.9), b=(0.5, -math.inf, 0.4))
    assert higher.best("ab") == "a" and higher.values["a"] == pytest.approx(-np.log([0.9, 0.8, 0.9]))
    signed = values("lower", a=(-2.0, -2.2, -1.8), b=(1.0, 1.1, 0.9))
    assert signed.best("ab") == "a" and signed.values["b"] == pytest.approx(np.array([1.0, 1.1, 0.9]) / 1.5)


def test_several_workloads_are_decided_by_scores() -> None:
    made = material(TIMES)
    wide = {"steps": table(TIMES, workloads=("w", "v"))}
    look = take(dataclasses.replace(made, times=wide), dict.fromkeys(TIMES, 6), ())
    assert look.quantity == SCORE and not look.look.relative and look.look.out == {"slow": 1}
    assert isinstance(evidence_of(dataclasses.replace(made, times=wide), "steps", dict.fromkeys(TIMES, 6)), Scores)


def test_looks_are_numbered_and_who_left_stays_out() -> None:
    made = material(TIMES)
    first = take(made, dict.fromkeys(TIMES, 3), ())
    second = take(made, {"a": 4, "b": 4, "slow": 3}, [first])
    assert first.look.out == {"slow": 1} and second.look.number == 2 and second.look.out["slow"] == 1
    assert first.quantity == TIME and RaceLook.from_data(first.as_data()) == first


def test_a_race_is_over_by_what_is_asked_of_it_now() -> None:
    look = take(material(TIMES), dict.fromkeys(TIMES, 3), ())
    assert look.look.bound is not None
    names = list(TIMES)
    wide = math.expm1(look.look.bound) + 0.01
    assert over([look], Rules(within=wide), names, 0.0) == "within"
    assert over([look], Rules(within=wide, until="leader"), names, 0.0) is None
    assert over([look], Rules(within=wide), [*names, "newcomer"], 0.0) is None
    assert over([look], Rules(within=0.0), names, 0.0) is None
    assert over([look], Rules(within=0.0, minutes=2.0), names, 121.0) == "time"
    assert over([], Rules(), names, 1e9) is None


def test_a_late_study_counts_as_missed_at_the_time_from_which_it_is_late() -> None:
    times = table({"a": [10.0] * 3, "late": [50.0, 45.0, 30.0]})
    assert late_shares(times, {("a", "w"): 100.0, ("late", "w"): 20.0}, 4.0) == {("a", "w"): 0.4, ("late", "w"): 1.0}


def test_early_ends_change_no_look_whatever_ran_beside_them(entry: Any, tmp_path: Path) -> None:
    """A fixed design in which trials end for being late: where they end depends on the order, the look does not."""
    field = {"a": 0.0, "b": 0.1, "late": 1.7}
    script = log_normal(field, sigma=0.1, typical=80.0)
    looks, ends = [], set()
    for order in range(4):
        path = tmp_path / f"{order}.sqlite"
        engine = ScriptedEngine(script, slots=1 + order, order=order)
        looks.append(race(entry, path, script, field, engine=engine, design=FIXED, studies=3).looks)
        with Results(path, writable=False) as results:
            ends.add(tuple(row.steps for row in results.rows()))
            assert material_of(results).allowed["steps"]["late", "tiny"] < 1000.0
    assert len(ends) > 1, "nothing ended early, so this compares nothing"
    assert all(found == looks[0] for found in looks)
    assert looks[0][0].look.out.get("late") == 1


def test_an_old_file_is_judged_by_the_rule_of_today_and_a_line_says_so(entry: Any, tmp_path: Path) -> None:
    path, script = tmp_path / "r.sqlite", log_normal({"a": 0.0, "b": 0.9})
    race(entry, path, script, {"a": 0.0, "b": 0.9}, design=FIXED, studies=4)
    with Results(path) as results:
        stored = summarize(results)
        with results.store.transaction() as database:
            database.execute("delete from look")
        again = summarize(results)
    assert again.looks == stored.looks and again.looks[0].look.out == {"b": 1}
    assert any("judged by the rule of today" in note for note in again.notes)
    assert not any("judged by the rule of today" in note for note in stored.notes)
