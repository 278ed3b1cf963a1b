"""Races of twins made of real runs: AlgoPerf's logs, and stored races on `chars`, where they are present.

Every contestant of such a race is the same one under another name, its studies drawn from those that were recorded.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.settings import ROOT
from fallline.score.decision import LEADER, LEVEL, Times, looks_up_to
from fallline.score.decision.evidence import Evidence
from fallline.score.decision.replay import EvidenceAt, of_times, replay
from fallline.score.decision.several import scores_of
from fallline.score.logs import read
from fallline.score.times import StudyTimes, from_logs

ARCHIVE = "algoperf_v05_external_logs.tar.xz"
ALGOPERF_GRID = 0.029
"""The interval between AlgoPerf's evaluations over a typical time to target."""
CHARS = Path(__file__).with_name("race_chars_steps.json")
"""The steps to target of the default contestants on `chars`, in many studies."""
CHARS_GRID = 0.06
Rate = Callable[[int, np.random.Generator], float]


def archive() -> Path | None:
    places = [
        os.environ.get("FALLLINE_ALGOPERF_LOGS", ""),
        *(str(p / "shared" / "data" / ARCHIVE) for p in ROOT.parents),
    ]
    return next((Path(place) for place in places if place and Path(place).is_file()), None)


def rows(races: int) -> dict[str, tuple[Sequence[int], Rate]]:
    """Row → numbers of contestants, and the share of wrong verdicts for each, for the data that is present."""
    found: dict[str, tuple[Sequence[int], Rate]] = {}
    few, logs = max(20, races // 4), archive()
    if logs is not None:
        table = from_logs(read(logs).trials)
        cells = _whole_cells(table)
        found["twins resampled from AlgoPerf's cells, up to 18"] = (
            (2, 3, 5, 8),
            lambda k, generator: of_cells(cells, k, races, generator),
        )
        found["twins on AlgoPerf's scores, 8 workloads, looks at 3 to 5"] = (
            (2, 3, 5, 8, 11),
            lambda k, generator: of_scores(table, k, few, generator),
        )
        found["the same, at two thirds of the level"] = (
            (2,),
            lambda k, generator: of_scores(table, k, few, generator, LEVEL * 2 / 3),
        )
    chars = chars_studies()
    found["twins of real `chars` studies"] = (
        (2, 3, 4, 5),
        lambda k, generator: of_cells(chars, k, races, generator, CHARS_GRID),
    )
    return found


def _whole_cells(table: StudyTimes) -> list[np.ndarray]:
    """Logarithms of the times of every cell that reached its target in all studies."""
    cells = [np.array(list(cell.values())) for cell in table.cells.values() if len(cell) > 1]
    return [np.log(cell) for cell in cells if np.isfinite(cell).all()]


def chars_studies(path: Path = CHARS) -> list[np.ndarray]:
    """Logarithms of the steps to target of those that reached it in every study."""
    steps: dict[str, list[float | None]] = json.loads(path.read_text())["steps to target"]
    return [np.log([n for n in cell if n]) for cell in steps.values() if None not in cell]


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
