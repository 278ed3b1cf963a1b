"""How often verdicts on twins are wrong, and how often a dearer twin is placed below: from the trials of real races."""

from __future__ import annotations

import math
import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.race_interruptions import TASK
from fallline.measure.stats import ALPHA
from fallline.race.contestants import named
from fallline.race.engine import LocalEngine
from fallline.race.plan import STEPS_CLOCK, Entry, Rules
from fallline.race.results import Results
from fallline.race.run import Race
from fallline.score.leaderboard import leaderboard
from fallline.score.separation import compare_all
from fallline.score.times import StudyTimes
from fallline.workloads import load

STUDIES = 5
DEARER = 1.15
ALGOPERF_SPREAD = 0.069
"""Of study times in AlgoPerf's logs, the median over cells."""


def study_times(studies: int, trials: int) -> dict[str, list[float]]:
    """Steps to target of one contestant under two names, each with seeds and trial points of its own."""
    with tempfile.TemporaryDirectory() as folder, Results(Path(folder) / "twins.sqlite") as results:
        engine = LocalEngine(2)
        try:
            rules = Rules(trials=trials, studies=studies, clock=STEPS_CLOCK)
            twins = [named("adamw"), named("twin=adamw")]
            Race([Entry(TASK, load(TASK))], twins, rules, results, engine).run()
        finally:
            engine.close()
        database = sqlite3.connect(results.path)
        rows = database.execute("select contestant, study, min(steps_to_target) from trial group by 1, 2").fetchall()
        database.close()
    found: dict[str, list[float]] = {"adamw": [], "twin": []}
    for name, _, steps in rows:
        found[name].append(math.inf if steps is None else float(steps))
    return found


def twins(studies: int = 40, trials: int = 5, runs: int = 1000) -> dict[str, Any]:
    """Races of five studies each: all that the trials give, and many drawn from them.

    Tuning so small a task is a lottery: its study times spread several times wider than AlgoPerf's.  Who is placed
    below is therefore also counted with the same times drawn together to AlgoPerf's spread.
    """
    times = study_times(studies, trials)
    pool = np.array([*times["adamw"], *times["twin"]])
    generator = np.random.default_rng(0)
    races = [
        {name: found[i : i + STUDIES] for name, found in times.items()}
        for i in range(0, studies - STUDIES + 1, STUDIES)
    ]
    drawn = [{name: generator.choice(pool, STUDIES).tolist() for name in times} for _ in range(runs)]
    called, called_drawn = _called(races), _called(drawn)
    finite = pool[np.isfinite(pool)]
    power = ALGOPERF_SPREAD / float(np.log(finite).std())
    narrow = [{name: [t**power for t in times] for name, times in race.items()} for race in drawn[: runs // 4]]
    below, below_narrow = _below(drawn[: runs // 4]), _below(narrow)
    # Three standard errors: fails once in a thousand if the rate is exactly α.
    bound = ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / runs)
    return {
        "studies": len(pool),
        "missed": len(pool) - len(finite),
        "spread": float(finite.std() / finite.mean()),
        "races": len(races),
        "called different": called,
        "drawn races": runs,
        "drawn, called different": called_drawn,
        "15 % dearer below": below,
        "15 % dearer below, at AlgoPerf's spread": below_narrow,
        "ok": called_drawn <= bound and called * len(races) <= 2 and below_narrow >= 0.9,
    }


def _table(race: dict[str, list[float]], dearer: float = 1.0) -> StudyTimes:
    factors = {"adamw": 1.0, "twin": dearer}
    cells = {(name, "w"): {i: factors[name] * t for i, t in enumerate(times)} for name, times in race.items()}
    # The dearer one first: ties must not place it below.
    return StudyTimes(("twin", "adamw"), ("w",), {}, cells)


def _called(races: Sequence[dict[str, list[float]]]) -> float:
    return sum(compare_all(_table(race))[0].separated for race in races) / len(races)


def _below(races: Sequence[dict[str, list[float]]]) -> float:
    return sum(leaderboard(_table(race, DEARER)).rows[0].contestant == "adamw" for race in races) / len(races)
