"""Races of twins made of real runs: AlgoPerf's logs, and stored races on `chars`, where they are present.

Every contestant of such a race is the same one under another name, its studies drawn from those that were recorded.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.settings import ROOT
from fallline.race.clock.pace import STEPS
from fallline.race.results import Results
from fallline.race.verdict.summary import summarize
from fallline.score.decision import LEADER, LEVEL, Times, looks_up_to
from fallline.score.decision.evidence import Evidence
from fallline.score.decision.replay import EvidenceAt, of_times, replay
from fallline.score.decision.several import scores_of
from fallline.score.logs import read
from fallline.score.times import StudyTimes, from_logs

ARCHIVE = "algoperf_v05_external_logs.tar.xz"
ALGOPERF_GRID = 0.029
"""The interval between AlgoPerf's evaluations over a typical time to target."""
CHARS = ROOT / "benchmarks" / "results" / "race-chars-studies.sqlite"
"""A race on `chars` with many studies each."""
FEWEST = 10
"""Studies of a contestant from which twins are drawn."""


def archive() -> Path | None:
    places = [
        os.environ.get("FALLLINE_ALGOPERF_LOGS", ""),
        *(str(p / "shared" / "data" / ARCHIVE) for p in ROOT.parents),
    ]
    return next((Path(place) for place in places if place and Path(place).is_file()), None)


def rates(races: int, generator: np.random.Generator) -> dict[str, Mapping[int, float | None]]:
    """Row → contestants → share of wrong verdicts, for the data that is present."""
    found: dict[str, Mapping[int, float | None]] = {}
    logs = archive()
    if logs is not None:
        table = from_logs(read(logs).trials)
        found["twins resampled from AlgoPerf's cells, up to 18"] = {
            k: of_cells(_whole_cells(table), k, races, generator) for k in (2, 3, 5, 8)
        }
        found["twins on AlgoPerf's scores, 8 workloads, looks at 3 to 5"] = {
            k: of_scores(table, k, max(20, races // 4), generator) for k in (2, 3, 5, 8, 11)
        }
        found["the same, at two thirds of the level"] = {
            2: of_scores(table, 2, max(20, races // 4), generator, LEVEL * 2 / 3)
        }
    chars = chars_studies()
    if chars:
        found["twins of real `chars` studies"] = {k: of_cells(chars, k, races, generator, 0.06) for k in (2, 3, 4, 5)}
    return found


def _whole_cells(table: StudyTimes) -> list[np.ndarray]:
    """Logarithms of the times of every cell that reached its target in all studies."""
    cells = [np.array(list(cell.values())) for cell in table.cells.values() if len(cell) > 1]
    return [np.log(cell) for cell in cells if np.isfinite(cell).all()]


def chars_studies(path: Path = CHARS) -> list[np.ndarray]:
    if not path.exists():
        return []
    with Results(path, writable=False) as results:
        table = summarize(results).times[STEPS]
    cells = [np.array(list(cell.values())) for cell in table.cells.values()]
    return [np.log(cell) for cell in cells if len(cell) >= FEWEST and np.isfinite(cell).all()]


def of_cells(
    cells: Sequence[np.ndarray],
    contestants: int,
    races: int,
    generator: np.random.Generator,
    grid: float = ALGOPERF_GRID,
    studies: int = 18,
) -> float:
    names = [str(place) for place in range(contestants)]
    wrong = 0
    for _ in range(races):
        cell = cells[int(generator.integers(len(cells)))]
        drawn = generator.choice(cell, (contestants, studies))
        times = Times(dict(zip(names, drawn, strict=True)), floor=grid / math.sqrt(12))
        wrong += bool(replay(of_times(times), names, looks_up_to(studies), until=LEADER)[-1].out)
    return wrong / races


def of_scores(
    table: StudyTimes, contestants: int, races: int, generator: np.random.Generator, level: float = LEVEL
) -> float:
    names = [str(place) for place in range(contestants)]
    wrong = 0
    for _ in range(races):
        submission = table.contestants[int(generator.integers(len(table.contestants)))]
        evidence_at = _drawn(table, submission, names, generator)
        wrong += bool(replay(evidence_at, names, (3, 4, 5), until=LEADER, level=level)[-1].out)
    return wrong / races


def _drawn(table: StudyTimes, submission: str, names: Sequence[str], generator: np.random.Generator) -> EvidenceAt:
    """Studies of one submission dealt to several names, on every workload and variant."""
    cells = {}
    for column in table.columns:
        times = list(table.cell(submission, column).values())
        for name in names if times else ():
            cells[name, column] = [times[i] for i in generator.integers(len(times), size=5)]

    def at(run: Mapping[str, int]) -> Evidence:
        some = {(name, column): dict(enumerate(times[: run[name]])) for (name, column), times in cells.items()}
        return scores_of(StudyTimes(tuple(names), table.workloads, table.variants, some))

    return at
