"""``python -m benchmarks.leaderboard_ceiling LOGS``: how far could the miniatures agree with AlgoPerf, and why not?

``LOGS`` is AlgoPerf's archive of logs, external tuning, v0.5.  First the ceiling: AlgoPerf's order against itself when
its studies are drawn again.  Then the miniatures beside it, by workload: agreement, misses, how late targets are met.
And AlgoPerf's own order with earlier targets.
``docs/leaderboard_page.py`` writes the figures into docs/leaderboard.md.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.store import save
from fallline.score import profiles
from fallline.score.agreement import kendall
from fallline.score.algoperf import BASE_WORKLOADS, BUDGETS, PUBLISHED, TARGETS, TAU_MAX, Target
from fallline.score.logs import Trial, read
from fallline.score.times import StudyTimes, from_logs, index_reached, study_time
from fallline.workloads import ALGOPERF

DOCS = Path(__file__).parents[1] / "docs"
PATH = DOCS / "leaderboard" / "ceiling.json"
RESAMPLES = 500
EARLIER = (0.25, 0.5, 0.75, 0.9)
"""Shares of the baseline's time to its target, at which it meets an earlier one."""
BASELINE = "baseline"
TIGHTER = (1.0, 1.1, 1.2, 1.3, 1.5, 2.0)
"""Budgets as multiples of what the baseline needs, the same for all workloads: a rule that looks at nobody's order."""
PAIRS = dict(zip(ALGOPERF, BASE_WORKLOADS, strict=True))
"""Miniature → AlgoPerf's workload."""

Times = Mapping[tuple[str, str], Sequence[float]]
"""(entry, workload) → seconds to target by study, ∞ for a miss."""


def cells_of(table: StudyTimes, names: Sequence[str]) -> dict[tuple[str, str], list[float]]:
    return {(name, column): list(table.cell(name, column).values()) for name in names for column in table.columns}


def scores(
    times: Times, names: Sequence[str], workloads: Sequence[str], variants: Mapping[str, str] | None = None
) -> np.ndarray:
    """AlgoPerf's scores of medians over studies."""
    variants = variants or {}
    columns = (*workloads, *variants)
    medians = np.array([[_median(times[name, column]) for column in columns] for name in names])
    return profiles.score(profiles.ratios(profiles.apply_rules(medians, workloads, variants, TAU_MAX)), TAU_MAX)


def _median(times: Sequence[float]) -> float:
    return float(np.median(times)) if len(times) else math.inf


def _summary(values: Sequence[float]) -> dict[str, float]:
    low, high = np.quantile(values, [0.05, 0.95])
    return {"mean": float(np.mean(values)), "low": float(low), "high": float(high)}


def in_halves(times: Times, rng: np.random.Generator) -> tuple[Times, Times]:
    """Every cell's studies, divided at random."""
    first, second = {}, {}
    for key, studies in times.items():
        order = rng.permutation(len(studies))
        cut = len(studies) // 2
        first[key], second[key] = [studies[i] for i in order[:cut]], [studies[i] for i in order[cut:]]
    return first, second


def drawn_again(times: Times, rng: np.random.Generator) -> Times:
    return {key: [studies[i] for i in rng.integers(0, len(studies), len(studies))] for key, studies in times.items()}


def against_itself(times: Times, score: Callable[[Times], np.ndarray], seed: int = 0) -> dict[str, dict[str, float]]:
    """τ of an order with itself: from halves of the studies, and from two drawings of as many."""
    rng = np.random.default_rng(seed)
    halves, drawings = [], []
    for _ in range(RESAMPLES):
        halves.append(kendall(*(score(part).tolist() for part in in_halves(times, rng)))[0])
        drawings.append(kendall(*(score(drawn_again(times, rng)).tolist() for _ in range(2)))[0])
    return {"halves": _summary(halves), "drawn": _summary(drawings)}


def published(names: Sequence[str]) -> list[float]:
    return [PUBLISHED[name] for name in names]


# ------------------------------------------------------------------ by workload


def by_workload(ours: Times, theirs: Times, names: Sequence[str], shares: Mapping[str, float]) -> list[dict[str, Any]]:
    """The two tables beside each other; ``shares``: at which part of its budget the miniature's target is met."""
    rng = np.random.default_rng(1)
    rows = []
    for mini, real in PAIRS.items():
        own, other = (
            [_median(times[name, where]) for name in names] for times, where in ((ours, mini), (theirs, real))
        )
        both = [i for i in range(len(names)) if math.isfinite(own[i]) and math.isfinite(other[i])]
        met = [time for time in other if math.isfinite(time)]
        rows.append(
            {
                "workload": mini,
                "of": real,
                "tau": kendall(own, other)[0],
                "tau where both reach it": kendall([own[i] for i in both], [other[i] for i in both])[0],
                "both": len(both),
                "itself": _one_workload_itself(ours, names, mini, rng),
                "algoperf itself": _one_workload_itself(theirs, names, real, rng),
                "misses": sum(map(math.isinf, own)),
                "algoperf misses": sum(map(math.isinf, other)),
                "share": shares[mini],
                "algoperf share": float(np.median(met)) / BUDGETS["v0.5"][real],
            }
        )
    return rows


def _one_workload_itself(times: Times, names: Sequence[str], workload: str, rng: np.random.Generator) -> float:
    """The mean τ between halves of its studies."""
    own = {(name, workload): times[name, workload] for name in names}
    taus = []
    for _ in range(RESAMPLES):
        first, second = in_halves(own, rng)
        taus.append(kendall(*([_median(part[name, workload]) for name in names] for part in (first, second)))[0])
    return float(np.mean(taus))


def role_of_misses(ours: Times, theirs: Times, names: Sequence[str], late: Mapping[str, float]) -> dict[str, float]:
    """τ with the published order of times and misses from different tables.

    A miss that is taken away is met when the budget ends.  Misses alone, with all other times equal, are the control:
    they say how much of the order lies in them.
    """
    ends = {**late, **{real: BUDGETS["v0.5"][real] for real in PAIRS.values()}}

    def mixed(times: Times | None, misses: Times | None) -> float:
        made: dict[tuple[str, str], list[float]] = {}
        for name in names:
            for mini, real in PAIRS.items():
                missed = misses is not None and math.isinf(_median(misses[name, mini if misses is ours else real]))
                where = mini if times is ours else real
                time = 1.0 if times is None else min(_median(times[name, where]), ends[where])
                made[name, mini] = [math.inf if missed else time]
        return kendall(scores(made, names, ALGOPERF).tolist(), published(names))[0]

    return {
        "our times, our misses": mixed(ours, ours),
        "our times, no misses": mixed(ours, None),
        "our times, AlgoPerf's misses": mixed(ours, theirs),
        "equal times, our misses": mixed(None, ours),
        "equal times, AlgoPerf's misses": mixed(None, theirs),
        "AlgoPerf's times, no misses": mixed(theirs, None),
        "AlgoPerf's times, our misses": mixed(theirs, ours),
    }


def leaving_out(score: Sequence[float], names: Sequence[str]) -> dict[str, float]:
    """Entry → τ with the published order of the others."""
    found = {}
    for name in names:
        rest = [i for i, other in enumerate(names) if other != name]
        found[name] = kendall([score[i] for i in rest], published([names[i] for i in rest]))[0]
    return found


# ------------------------------------------------------------------ earlier targets


def tighter_budgets(ours: Times, names: Sequence[str]) -> list[dict[str, float]]:
    """The order that the stored trials give with shorter budgets: whoever needed longer has missed."""
    needed = {workload: _median(ours[BASELINE, workload]) for workload in ALGOPERF}
    found = []
    for factor in TIGHTER:
        most = {workload: factor * time for workload, time in needed.items()}
        cut = {key: [time if time <= most[key[1]] else math.inf for time in studies] for key, studies in ours.items()}
        missed = sum(math.isinf(_median(studies)) for studies in cut.values())
        tau = kendall(scores(cut, names, ALGOPERF).tolist(), published(names))[0]
        found.append({"factor": factor, "misses": missed, "published": tau})
    return found


def earlier_targets(trials: Sequence[Trial], share: float) -> dict[str, Target]:
    """The values that the baseline has after a share of its time to the target, or of its training where it misses."""
    found = {}
    for workload in BASE_WORKLOADS:
        target, studies = TARGETS[workload], defaultdict(list)
        for trial in trials:
            if (trial.submission, trial.workload) == (BASELINE, workload):
                studies[trial.study].append(trial)
        values = [_value_after(_fastest(members, target), target, share) for members in studies.values()]
        found[workload] = Target(target.metric, float(np.median(values)))
    return found


def _fastest(trials: Sequence[Trial], target: Target) -> Trial:
    """The trial that is first at the target, or that ends with the best value."""

    def key(trial: Trial) -> tuple[float, float]:
        index = index_reached(trial, target)
        sign = 1.0 if target.reached(-math.inf) else -1.0
        return (math.inf if index is None else float(trial.seconds[index]), float(np.nanmin(sign * trial.metric)))

    return min(trials, key=key)


def _value_after(trial: Trial, target: Target, share: float) -> float:
    index = index_reached(trial, target)
    until = share * float(trial.seconds[-1 if index is None else index])
    seen = trial.metric[: max(1, int(np.searchsorted(trial.seconds, until, side="right")))]
    return float(np.nanmin(seen) if target.reached(-math.inf) else np.nanmax(seen))


def times_to(trials: Sequence[Trial], targets: Mapping[str, Target], names: Sequence[str]) -> Times:
    grouped: dict[tuple[str, str], dict[int, list[Trial]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        if trial.workload in targets:
            grouped[trial.submission, trial.workload][trial.study].append(trial)
    return {
        (name, workload): [study_time(members, target) for members in grouped[name, workload].values()]
        for name in names
        for workload, target in targets.items()
    }


# ------------------------------------------------------------------ all of it


def as_in_the_logs(table: StudyTimes, called: Mapping[str, str]) -> StudyTimes:
    """Our table with the names that entries have in AlgoPerf's logs."""
    cells = {(called.get(name, name), column): cell for (name, column), cell in table.cells.items()}
    names = tuple(called.get(name, name) for name in table.contestants)
    return StudyTimes(names, table.workloads, table.variants, cells)


def study(source: Path) -> dict[str, Any]:
    sys.path.insert(0, str(DOCS))
    import leaderboard_page as page

    races = [row for row in page.rows("trials") if row["kind"] == "race"]
    table = as_in_the_logs(page.raced_times(), page.IN_LOGS)
    names = [name for name in PUBLISHED if name in table.contestants]
    ours = cells_of(table, names)
    logs = read(source).trials
    official = from_logs(logs, held_out=True)
    theirs = cells_of(official, names)
    own_score = scores(ours, names, ALGOPERF).tolist()
    their_score = scores(theirs, names, BASE_WORKLOADS).tolist()

    shares, late, budgets = {}, {}, {}
    costs = {(workload, page.IN_LOGS.get(name, name)): cost for (workload, name), cost in page.calibrated().items()}
    for facts in page.facts():
        workload, most = facts["name"], facts["max_steps"]
        met = [float(row["steps_to_target"]) for row in races if row["workload"] == workload and row["steps_to_target"]]
        shares[workload], budgets[workload] = float(np.median(met)) / most, most
        late[workload] = most * float(np.median([costs[workload, name].step_seconds for name in names]))
    rng = np.random.default_rng(2)
    redrawn = [
        kendall(scores(drawn_again(ours, rng), names, ALGOPERF).tolist(), published(names))[0] for _ in range(RESAMPLES)
    ]
    found: dict[str, Any] = {
        "entries": len(names),
        "resamples": RESAMPLES,
        "steps": budgets,
        "ceiling": against_itself(theirs, lambda times: scores(times, names, official.workloads, official.variants)),
        "without held-out": kendall(their_score, published(names))[0],
        "ours": {
            "published": kendall(own_score, published(names))[0],
            "drawn": _summary(redrawn),
            "itself": against_itself(ours, lambda times: scores(times, names, ALGOPERF)),
            "without": leaving_out(own_score, names),
        },
        "misses": role_of_misses(ours, theirs, names, late),
        "workloads": by_workload(ours, theirs, names, shares),
        "earlier": [],
        "budgets": tighter_budgets(ours, names),
    }
    for share in (*EARLIER, 1.0):
        targets = TARGETS if share == 1.0 else earlier_targets(logs, share)
        there = {workload: targets[workload] for workload in BASE_WORKLOADS}
        times = times_to(logs, there, names)
        score = scores(times, names, BASE_WORKLOADS).tolist()
        missed = sum(math.isinf(_median(times[name, workload])) for name in names for workload in BASE_WORKLOADS)
        found["earlier"].append(
            {
                "share": share,
                "misses": missed,
                "published": kendall(score, published(names))[0],
                "ours": kendall(score, own_score)[0],
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leaderboard_ceiling", description=__doc__)
    parser.add_argument("logs", type=Path, help="AlgoPerf's logs: a folder or an archive")
    found = study(parser.parse_args().logs)
    save(PATH, found)
    print(PATH.read_text())


if __name__ == "__main__":
    main()
