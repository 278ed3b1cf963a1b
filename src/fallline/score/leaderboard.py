"""A table of times turned into a leaderboard: scores, intervals, groups, and one sentence that says what they mean."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fallline.measure.stats import ALPHA
from fallline.score import profiles
from fallline.score.algoperf import TAU_MAX
from fallline.score.separation import Pair, compare_all, fewest_studies, groups
from fallline.score.times import StudyTimes
from fallline.score.uncertainty import RESAMPLES, ScoreSamples, bootstrap

TAU_MAX_AXIS = tuple(np.round(np.arange(1.5, 4.0001, 0.05), 2).tolist())
"""Where the score is given as a function of τ_max."""
TAU_POINTS = 121
MANY_STUDIES = 1000
"""More than anybody runs."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A contestant's line."""

    rank: int
    contestant: str
    score: float
    low: float | None
    high: float | None
    """Bounds of the 95 % bootstrap interval; None with a single study, which says nothing of its spread."""
    groups: str
    """Letters; contestants that share one cannot be told apart."""
    above_next: float | None
    """P(score above that of the next contestant), by the same bootstrap; None for the last."""
    speedup: float | None
    """How many times faster than the reference, geometric mean over workloads; None where that is not known."""
    reached: int
    """Workloads that count for it: reached in time, with their held-out variants."""
    times: Mapping[str, float]
    """Workload → median seconds to target before any rule; ∞ where missed."""
    ratios: Mapping[str, float]
    """Workload → time over the fastest's, after the rules."""

    @property
    def interval(self) -> str:
        return "–" if self.low is None or self.high is None else f"{self.low:.2f} to {self.high:.2f}"


@dataclasses.dataclass(frozen=True)
class Leaderboard:
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...]
    groups: tuple[tuple[str, ...], ...]
    workloads: tuple[str, ...]
    variants: tuple[str, ...]
    studies: int
    """Studies of most cells."""
    tau_max: float
    reference: str | None
    compat: bool
    by_tau_max: Mapping[str, tuple[float, ...]]
    """Contestant → scores at TAU_MAX_AXIS."""
    never_reached: bool
    """Whether no study of anybody reached any target."""
    bands: Mapping[str, tuple[list[float], ...]] = dataclasses.field(default_factory=dict)
    """Contestant → the low and the high edge of its profile on :func:`tau_axis`; none of a single study or workload."""

    def pair(self, a: str, b: str) -> Pair:
        return next(p for p in self.pairs if {p.first, p.second} == {a, b})

    @property
    def verdict(self) -> str:
        return verdict(self)

    def as_data(self) -> dict[str, Any]:
        """Plain data for JSON; ∞ is null, which JSON has and ∞ it has not."""
        data = dataclasses.asdict(dataclasses.replace(self, bands={}))
        del data["bands"]  # drawn, and made anew from the same times
        data["pairs"] = [{**dataclasses.asdict(pair), "separated": pair.separated} for pair in self.pairs]
        data["tau_max_axis"] = list(TAU_MAX_AXIS)
        data["alpha"] = ALPHA
        data["verdict"] = self.verdict
        return without_infinity(data)


def without_infinity(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: without_infinity(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [without_infinity(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def leaderboard(
    table: StudyTimes,
    *,
    tau_max: float = TAU_MAX,
    compat: bool = False,
    reference: str | None = None,
    allowed: Mapping[tuple[str, str], float] | None = None,
    standing: Mapping[str, tuple[float, ...]] | None = None,
    seed: int = 0,
) -> Leaderboard:
    """Scores, ranks, intervals and groups.  ``compat``: AlgoPerf's own integral.

    Speed-ups refer to ``reference``; a miss of (contestant, workload) counts there as the time in ``allowed``.
    ``standing`` orders contestants whose times are all the same, as those of misses are: the smaller, the better.
    """
    integral = profiles.score_compat if compat else profiles.score
    medians = table.medians()
    times = profiles.apply_rules(medians, table.workloads, table.variants, tau_max)
    ratio = profiles.ratios(times)
    scores = dict(zip(table.contestants, integral(ratio, tau_max).tolist(), strict=True))
    samples = bootstrap(table, tau_max=tau_max, resamples=RESAMPLES, seed=seed, compat=compat)
    # Equal scores are ordered by the speed on what was reached, by how many studies reached a target, by how the others
    # ended, then by name, never by the order of a folder.
    ends = standing or {}
    ranked = sorted(
        table.contestants,
        key=lambda name: (
            -scores[name],
            _mean_log(times, table, name),
            -_studies_reached(table, name),
            ends.get(name, ()),
            name,
        ),
    )
    pairs = compare_all(table, tau_max)
    runs = groups(ranked, pairs)
    faster = _speedups(medians[:, : len(table.workloads)], table, reference, allowed)
    studies = _usual(len(cell) for cell in table.cells.values())
    rows = []
    for rank, name in enumerate(ranked, 1):
        index = table.contestants.index(name)
        low, high = samples.interval(name) if studies > 1 else (None, None)
        rows.append(
            Row(
                rank=rank,
                contestant=name,
                score=scores[name],
                low=None if low is None else min(low, scores[name]),
                high=None if high is None else max(high, scores[name]),
                groups="".join(_letter(i) for i, run in enumerate(runs) if name in run),
                above_next=samples.above(name, ranked[rank]) if rank < len(ranked) and studies > 1 else None,
                speedup=faster.get(name),
                reached=int(np.isfinite(times[index]).sum()),
                times=dict(zip(table.columns, medians[index].tolist(), strict=True)),
                ratios=dict(zip(table.workloads, ratio[index].tolist(), strict=True)),
            )
        )
    return Leaderboard(
        rows=tuple(rows),
        pairs=tuple(pairs),
        groups=tuple(runs),
        workloads=table.workloads,
        variants=tuple(table.variants),
        studies=studies,
        tau_max=tau_max,
        reference=reference,
        compat=compat,
        by_tau_max=dict(zip(table.contestants, _by_tau_max(ratio, integral), strict=True)),
        never_reached=not any(_studies_reached(table, name) for name in table.contestants),
        bands=_bands(samples, tau_max) if studies > 1 and len(table.workloads) > 1 else {},
    )


def tau_axis(tau_max: float) -> list[float]:
    """Where profiles have bands; profiles themselves are exact."""
    return [float(tau) for tau in np.linspace(1.0, tau_max, TAU_POINTS)]


def _bands(samples: ScoreSamples, tau_max: float) -> dict[str, tuple[list[float], ...]]:
    return {name: samples.profile_band(name, tau_axis(tau_max)) for name in samples.contestants}


def _by_tau_max(ratio: np.ndarray, integral: Callable[[np.ndarray, float], np.ndarray]) -> list[tuple[float, ...]]:
    return [tuple(float(integral(row, tau)) for tau in TAU_MAX_AXIS) for row in ratio]


def _mean_log(times: np.ndarray, table: StudyTimes, name: str) -> float:
    own = times[table.contestants.index(name)]
    finite = own[np.isfinite(own)]
    return float(np.log(finite).mean()) if len(finite) else math.inf


def _studies_reached(table: StudyTimes, name: str) -> int:
    return sum(math.isfinite(time) for workload in table.columns for time in table.cell(name, workload).values())


def _speedups(
    times: np.ndarray, table: StudyTimes, reference: str | None, allowed: Mapping[tuple[str, str], float] | None
) -> dict[str, float]:
    """Not of those, nor over one, whose miss counts as no known time: who could not take a step."""
    if reference is None or reference not in table.contestants or allowed is None:
        return {}
    limits = np.array([[allowed[name, workload] for workload in table.workloads] for name in table.contestants])
    capped = dict(zip(table.contestants, np.where(np.isinf(times), limits, times), strict=True))
    known = {name: own for name, own in capped.items() if np.isfinite(own).all()}
    if reference not in known:
        return {}
    return {name: float(profiles.speedup(own, known[reference])) for name, own in known.items()}


def _letter(index: int) -> str:
    return chr(ord("a") + index) if index < 26 else f"({index + 1})"


def _usual(counts: Iterable[int]) -> int:
    found = sorted(counts)
    return int(np.median(found)) if found else 0


def verdict(board: Leaderboard) -> str:
    """One sentence: who leads, from whom that cannot be told apart, and what it would take."""
    if not board.rows or board.rows[0].score == 0.0:
        how_often = "" if board.never_reached else " in most studies"
        return f"Nobody reached a target in time{how_often}: there is no leader."
    first, *others = board.rows
    studies = "1 study" if board.studies == 1 else f"{board.studies} studies"
    if not others:
        return f"{first.contestant} raced alone ({studies}): there is nothing to compare."
    settings = f"{studies}, α = {100 * ALPHA:g} %"
    if len(board.pairs) > 1:
        settings += f", Holm over {len(board.pairs)} pairs"
    apart = [pair for row in others if (pair := board.pair(first.contestant, row.contestant)).separated]
    contrary = [pair.better for pair in apart if pair.better != first.contestant]
    if contrary:
        # Ranks are by medians, in which a few misses do not count; the test looks at every study.
        does = "does" if len(contrary) == 1 else "do"
        return (
            f"{first.contestant} has the best score by its medians, but {listed(contrary)} {does} better on the mean "
            f"of all studies, misses included ({settings}): there is no leader."
        )
    alike = [row for row in others if not board.pair(first.contestant, row.contestant).separated]
    if not alike:
        names = others[0].contestant if len(others) == 1 else f"all {len(others)} others"
        return f"{first.contestant} is the fastest: separated from {names} ({settings})."
    level = [row.contestant for row in alike if row.score == first.score]
    below = [row.contestant for row in alike if row.score != first.score]
    if level:
        sentence = f"{listed([first.contestant, *level])} lead with equal scores"
        sentence += f", and cannot be told apart from {listed(below)}" if below else ""
    else:
        names = "any of the others" if len(below) == len(others) > 1 else listed(below)
        sentence = f"{first.contestant} leads, but cannot be told apart from {names}"
    return f"{sentence} ({settings}); {_more_studies(board, first.contestant, alike[0].contestant)}."


def listed(names: Sequence[str]) -> str:
    """
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _more_studies(board: Leaderboard, first: str, second: str) -> str:
    """How many studies would separate two contestants that are not."""
    pair = board.pair(first, second)
    needed = pair.studies_needed
    floor = fewest_studies(len(board.workloads), ALPHA / len(board.pairs))
    if board.studies < floor:
        among = f" of {len(board.rows)}" if len(board.rows) > 2 else ""
        return f"no result of fewer than {floor} studies each could separate two contestants{among}"
    if pair.within_pace_error:
        why = "their difference is within the error of their step times"
        return f"no number of studies would separate {first} from {second}: {why}"
    if needed is None:
        return f"no number of studies would separate {first} from {second}: their scores are equal"
    first, second = (pair.better, second) if pair.better == first else (second, first)
    if needed <= board.studies:
        return f"a few more studies may separate {first} from {second}: p = {pair.p_holm:.2g} after the correction"
    more = needed - board.studies
    if more >= MANY_STUDIES:
        return f"more than {MANY_STUDIES:,} more studies each would be needed to separate {first} from {second}"
    # An estimate from a few studies: two digits are more than it knows.
    about = int(float(f"{more:.2g}"))
    return f"about {about} more {'study' if about == 1 else 'studies'} each would separate {first} from {second}"
