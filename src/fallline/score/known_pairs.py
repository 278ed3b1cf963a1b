"""AlgoPerf's logs as a race: after how many hours of training was it known which of two submissions is better?

Studies are taken in their order.  With every number of them two submissions are compared by the noise that all share
(`decision.several`), corrected by Holm over all pairs.  The exchange test of `separation` is the cross-check: a pair
that it separates with all studies, and that was called the other way round before, is *reversed*.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fallline.measure.stats import ALPHA, holm
from fallline.measure.student import t_tail
from fallline.score.algoperf import TARGETS, TAU_MAX
from fallline.score.decision import LEVEL, Evidence, looks_up_to
from fallline.score.decision.several import scores_of
from fallline.score.logs import Trial
from fallline.score.separation import compare_all
from fallline.score.times import StudyTimes, study_time

FEWEST = 2
"""Studies of each: one says nothing of noise."""


@dataclasses.dataclass(frozen=True)
class Known:
    """A pair that can be told apart."""

    better: str
    worse: str


@dataclasses.dataclass(frozen=True)
class Stage:
    """The verdicts of so many studies of each."""

    studies: int
    hours: float
    """Hours of training, every trial to its end."""
    lockstep_hours: float
    """With trials that end once their study has a faster one, or at four times the fastest submission."""
    share: float
    lockstep_share: float
    """Shares of all hours in the logs that are scored."""
    known: tuple[Known, ...]
    """At α = 2 %, as if the comparison had been planned with so many studies."""
    sequentially: tuple[Known, ...]
    """At the levels of a race that was looked at before; what was known stays known."""
    exchange: tuple[Known, ...]
    """By the exchange test with so many studies."""


@dataclasses.dataclass(frozen=True)
class Replay:
    stages: tuple[Stage, ...]
    separated: tuple[Known, ...]
    """By the exchange test with all studies."""

    @property
    def total_hours(self) -> float:
        return self.stages[-1].hours if self.stages else 0.0

    @property
    def reversed(self) -> tuple[Known, ...]:
        """Pairs that were called the other way round at some stage than the exchange test does with all studies."""
        wrong = {Known(pair.worse, pair.better) for pair in self.separated}
        return tuple(sorted({k for s in self.stages for k in (*s.known, *s.sequentially)} & wrong, key=str))

    def all_known_at(self) -> Stage | None:
        """The first stage with which all pairs are known that all studies separate."""
        return next((stage for stage in self.stages if set(self.separated) <= set(stage.known)), None)

    @property
    def sentence(self) -> str:
        stage, count = self.all_known_at(), len(self.separated)
        turned = "none was reversed" if not self.reversed else f"{len(self.reversed)} were reversed"
        if not count:
            return "All studies together separate no two submissions by the exchange test."
        if stage is None:
            return f"Not all of the {count} pairs that all studies separate are known by the common noise; {turned}."
        shares = f"{100 * stage.lockstep_share:.0f} % of the hours with trials ended in time, {100 * stage.share:.0f} %"
        return (
            f"The {count} pairs that all studies separate were known after {stage.studies} studies: "
            f"{shares} without; {turned}."
        )


def replay(trials: Sequence[Trial], table: StudyTimes) -> Replay:
    """Stage by stage, from two studies to all there are."""
    most = max((len(cell) for cell in table.cells.values()), default=0)
    scored = [trial for trial in trials if trial.workload in table.columns]
    total = sum(trial.training_hours for trial in scored)
    stages: list[Stage] = []
    looks = looks_up_to(most)
    for studies in range(FEWEST, most + 1):
        some = first_studies(table, studies)
        hours, lockstep = _hours([t for t in scored if t.study < studies], some)
        corrected = pairs_apart(scores_of(some))
        level = LEVEL / (looks.index(studies) + 1) if studies in looks else 0.0
        before = set(stages[-1].sequentially) if stages else set()
        now = {pair for pair, p in corrected.items() if p <= level and Known(pair.worse, pair.better) not in before}
        stages.append(
            Stage(
                studies=studies,
                hours=hours,
                lockstep_hours=lockstep,
                share=hours / total if total else 0.0,
                lockstep_share=lockstep / total if total else 0.0,
                known=tuple(pair for pair, p in corrected.items() if p <= ALPHA),
                sequentially=tuple(sorted(before | now, key=str)),
                exchange=_separated(some),
            )
        )
    return Replay(tuple(stages), stages[-1].exchange if stages else ())


def pairs_apart(evidence: Evidence) -> dict[Known, float]:
    """The better and the worse of every pair → p, two-sided, corrected over all pairs."""
    pairs, ps = [], []
    for a, b in itertools.combinations(evidence.names, 2):
        difference = evidence.difference(b, a)
        if difference is None:
            continue
        error = difference.error()
        # Without any noise two are equal, or they are not.
        p = (
            (0.0 if difference.gap else 1.0)
            if error == 0.0
            else 2 * t_tail(abs(difference.gap) / error, difference.freedom)
        )
        pairs.append(Known(a, b) if difference.gap >= 0 else Known(b, a))
        ps.append(p)
    return dict(zip(pairs, holm(ps), strict=True))


def first_studies(table: StudyTimes, count: int) -> StudyTimes:
    cells = {key: {study: t for study, t in cell.items() if study < count} for key, cell in table.cells.items()}
    return dataclasses.replace(table, cells=cells)


def _separated(table: StudyTimes) -> tuple[Known, ...]:
    found = []
    for pair in compare_all(table):
        if pair.separated:
            found.append(Known(pair.better, pair.second if pair.better == pair.first else pair.first))
    return tuple(found)


def _hours(trials: Iterable[Trial], table: StudyTimes) -> tuple[float, float]:
    """Hours of training, to the end and in lockstep."""
    groups: dict[tuple[str, str, int], list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[trial.submission, trial.workload, trial.study].append(trial)
    fastest = _fastest(table)
    whole = lockstep = 0.0
    for (_, workload, _), members in groups.items():
        limit = min(study_time(members, TARGETS[workload]), TAU_MAX * fastest[workload]) / 3600
        for trial in members:
            whole += trial.training_hours
            lockstep += min(trial.training_hours, limit)
    return whole, lockstep


def _fastest(table: StudyTimes) -> Mapping[str, float]:
    medians = table.medians()
    return {workload: float(np.min(medians[:, column])) for column, workload in enumerate(table.columns)}
