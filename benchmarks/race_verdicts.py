"""How often verdicts on twins are wrong, and how often a dearer twin is placed below: from the trials of real races.

Three contestants are AdamW.  ``twin`` is a second name, with seeds and trial points of its own; ``dearer`` has those of
``adamw``, as a slower implementation of the same algorithm has in a race.  What a step costs is set by hand, or is
measured as in a race, several times in processes of their own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.race_interruptions import TASK
from benchmarks.settings import ROOT
from fallline.measure.stats import ALPHA
from fallline.race.clock.pace import STEPS, errors_by_workload, errors_of_cells
from fallline.race.contestants import named
from fallline.race.engine import LocalEngine
from fallline.race.plan import STEPS_CLOCK, Entry, Rules
from fallline.race.results import Results
from fallline.race.run import Race
from fallline.race.step_costs import StepCosts, measure_steps, workload_request
from fallline.race.verdict.summary import summarize
from fallline.score.decision import LEADER, looks_up_to
from fallline.score.decision import Times as Evidence
from fallline.score.decision.replay import of_times, replay
from fallline.score.leaderboard import leaderboard, without_infinity
from fallline.score.separation import compare_all
from fallline.score.times import StudyTimes
from fallline.workloads import load

STUDIES = 5
MORE_STUDIES = (5, 7, 10, 20)
DEARER = 1.15
TASKS = {"inside": f"{TASK}:inside", "at the end": TASK}
"""Where the best rate lies in the space → the task."""

CALIBRATIONS = 10
EVERY = 4
"""Steps between evaluations of both tasks."""
Times = Mapping[str, Sequence[float]]
"""Contestant → its studies' steps to target."""


def study_times(task: str, path: Path, studies: int, trials: int) -> dict[str, list[float]]:
    """Steps to target in every study; ∞ for a miss.  Goes on where it was stopped; a race that ended makes room."""
    adamw = named("adamw")
    contestants = [adamw, named("twin=adamw"), dataclasses.replace(adamw, name="dearer")]
    path.parent.mkdir(exist_ok=True)
    with Results(path) as results:
        engine = LocalEngine(2)
        try:
            rules = Rules(trials=trials, studies=studies, clock=STEPS_CLOCK)
            Race([Entry(task, load(task))], contestants, rules, results, engine).run()
        finally:
            engine.close()
        table = summarize(results).times[STEPS]
    path.unlink()
    return {name: [t for _, t in sorted(table.cell(name, table.workloads[0]).items())] for name in table.contestants}


def calibrations(task: str, count: int = CALIBRATIONS, seconds: float = 4.0) -> list[StepCosts]:
    """The cost of a step of ``adamw``, and of the same under another name."""
    entry = Entry(task, load(task))
    request = workload_request(entry, entry.workload.target)
    found = []
    for _ in range(count):
        engine = LocalEngine(1)
        try:
            found.append(measure_steps(engine, request, [named("adamw"), named("twin=adamw")], seconds=seconds))
        finally:
            engine.close()
    return found


def twins(studies: int = 40, trials: int = 5, runs: int = 1000) -> dict[str, Any]:
    """On both tasks.  Own draws are only reported: there the spread of studies decides, and how many there are."""
    found = {}
    for name, task in TASKS.items():
        path = ROOT / "build" / f"race_twins_{name.replace(' ', '_')}.sqlite"
        found[name] = _rates(study_times(task, path, studies, trials), calibrations(task), runs)
    right = all(
        rates["drawn, called different"] <= _bound(runs)
        and max(rates["step times measured, called different"].values()) <= _bound(CALIBRATIONS)
        and rates["called different"] * rates["races"] <= 2
        and rates["15 % dearer below"] >= 0.9
        and all(found["told apart"] == 0 for found in rates["in rounds, by studies"].values())
        for rates in found.values()
    )
    return {**found, "ok": right}


def in_rounds(steps: Mapping[str, Sequence[float | None]], studies: int) -> dict[str, int]:
    """Real twins raced in rounds until one is left, so many studies each: how many races, and how many told them apart.

    ``steps`` are those to the target, None for a miss; a race has the next studies of both.
    """
    twins = {name: [math.inf if n is None else math.log(n) for n in steps[name]] for name in ("adamw", "twin")}
    every = [math.exp(y) for row in twins.values() for y in row if math.isfinite(y)]
    # Misses are so many steps late that what a budget is matters little; evaluations are four steps apart.
    budget, floor = math.log(2 * max(every)), EVERY / float(np.median(every)) / math.sqrt(12)
    races = [
        {name: row[start : start + studies] for name, row in twins.items()}
        for start in range(0, len(twins["adamw"]) - studies + 1, studies)
    ]
    apart = 0
    for race in races:
        evidence = Evidence(race, miss=dict.fromkeys(race, budget), floor=floor, paired=False)
        apart += bool(replay(of_times(evidence), list(race), looks_up_to(studies), until=LEADER)[-1].out)
    return {"races": len(races), "told apart": apart}


def _bound(draws: int) -> float:
    """Three standard errors: exceeded once in a thousand if the rate is exactly α."""
    return ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / draws)


def _rates(times: Times, costs: Sequence[StepCosts], runs: int) -> dict[str, Any]:
    """Races of five studies each: all that the trials give, and many drawn from them."""
    pool = np.array([*times["adamw"], *times["twin"]])
    studies = len(times["adamw"])
    generator = np.random.default_rng(0)

    def own(steps: Mapping[str, float], count: int = STUDIES) -> StudyTimes:
        """Two contestants that share nothing but what they are, at these costs of a step."""
        return _table({name: generator.choice(pool, count).tolist() for name in steps}, steps)

    def common(steps: Mapping[str, float], count: int = STUDIES) -> StudyTimes:
        """The same studies of two contestants with common draws, which ``dearer`` has."""
        drawn = generator.choice(studies, count, replace=False)
        of = {name: times["dearer" if name == "twin" else name] for name in steps}
        return _table({name: [found[i] for i in drawn] for name, found in of.items()}, steps)

    def measured(draw: Callable[[Mapping[str, float], int], StudyTimes], count: int) -> float:
        """How often twins are called different at step times that were measured."""
        races = []
        for cost in costs:
            steps = {name: found.step_seconds for name, found in cost.found.items()}
            calibration = {("w", name): found for name, found in cost.found.items()}
            errors = errors_of_cells(errors_by_workload(list(steps), {"w": cost.sessions}, calibration), calibration)
            races += [dataclasses.replace(draw(steps, count), pace_errors=errors) for _ in range(runs // len(costs))]
        return _called(races)

    equal, dearer = {"adamw": 1.0, "twin": 1.0}, {"twin": DEARER, "adamw": 1.0}
    blocks = [
        _table({name: times[name][i : i + STUDIES] for name in equal}, equal)
        for i in range(0, studies - STUDIES + 1, STUDIES)
    ]
    finite = pool[np.isfinite(pool)]
    return {
        "studies": len(pool),
        "missed": len(pool) - len(finite),
        "spread": float(finite.std() / finite.mean()),
        "median steps": float(np.median(pool)),
        "races": len(blocks),
        "called different": _called(blocks),
        "drawn races": runs,
        "drawn, called different": _called([own(equal) for _ in range(runs)]),
        "step times measured, called different": {
            f"{kind} draws, {count} studies": measured(draw, count)
            for kind, draw in (("own", own), ("common", common))
            for count in (STUDIES, 20)
        },
        "step times measured, twin's over adamw's, %": [
            100 * (cost.found["twin"].step_seconds / cost.found["adamw"].step_seconds - 1) for cost in costs
        ],
        "15 % dearer below": _below([common({"dearer": DEARER, "adamw": 1.0}) for _ in range(runs // 5)]),
        "15 % dearer below, own draws, by studies": {
            count: _below([own(dearer, count) for _ in range(runs // 5)]) for count in MORE_STUDIES
        },
        "in rounds, by studies": {count: in_rounds(times, count) for count in (STUDIES, 10, studies)},
        "steps to target": without_infinity({name: list(found) for name, found in times.items()}),
    }


def _table(times: Times, steps: Mapping[str, float]) -> StudyTimes:
    cells = {(name, "w"): {i: steps[name] * t for i, t in enumerate(found)} for name, found in times.items()}
    return StudyTimes(tuple(times), ("w",), {}, cells)


def _called(races: Sequence[StudyTimes]) -> float:
    return sum(compare_all(race)[0].separated for race in races) / len(races)


def _below(races: Sequence[StudyTimes]) -> float:
    """A tie, which names would break, does not place anyone below."""
    firsts = [leaderboard(race).rows[:2] for race in races]
    return sum(first.contestant == "adamw" and first.score > second.score for first, second in firsts) / len(races)
