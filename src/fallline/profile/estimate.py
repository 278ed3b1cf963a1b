"""From the steps of a cell to estimates: how much faster each arm is, and how well that is known.

An optimizer changes the step phase; data, forward and backward are the same work in every arm. So the difference of
two arms is that of their step phases, over the common time of the other phases, and its noise is that of a small part
of a step. The assumption is tested beside it: the ratio of the arms' forward and backward passes, and the difference of
whole steps with its own, wider interval.

Rounds on one allocation are correlated. So each block of rounds gives one value, and intervals are Student's over
blocks; with k arms against a baseline they are at a level of 1 − α/k, so that a table of equal arms calls any of them
different in at most a share α of tables.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from fallline.measure.stats import ALPHA, trimmed_mean
from fallline.measure.student import MeanInterval, mean_interval
from fallline.profile.results import CellRecord, Step
from fallline.profile.trained import MAJOR, MINOR, WHOLE
from fallline.training.curvature import EVERY
from fallline.training.phases import BACKWARD, CURVATURE, DATA, FORWARD, STEP, STEP_PHASES, TRAINING

WALL, CPU = "wall", "cpu"
DISTURBED = 0.02
"""A thread that was off its processor for a larger part of the time was disturbed; its CPU time is then the cost."""
CLOSE = 0.01
"""Differences of less than this are "as fast as" and "the same loss"."""


@dataclasses.dataclass(frozen=True)
class ArmEstimate:
    """One arm, from all of its timed steps."""

    label: str
    steps: int
    phases: Mapping[str, float]
    """Seconds per step of each phase, of this arm alone; the curvature's are spread over all steps."""
    whole: float
    """Seconds per step by a clock apart from that of the phases."""
    cpu: float
    """CPU seconds of the process per step."""
    seconds: float
    """Seconds per step: the common phases and the arm's own step."""
    delta: MeanInterval | None
    """By how much its throughput is above the baseline's; None for the baseline."""
    whole_delta: MeanInterval | None
    """The same from whole steps."""
    alike: MeanInterval | None
    """Its forward and backward over the baseline's."""
    faults: tuple[float, float]
    """Minor and major page faults per step."""
    values: tuple[float, ...]
    """The validation metric at the end of each repeat."""
    loss_delta: MeanInterval | None
    """The metric's difference to the baseline's, with the same seeds; negative is lower."""
    diverged: int

    @property
    def own(self) -> float:
        """Seconds of its own per step: its step phase and what belongs to it."""
        return self.phases.get(STEP, 0.0) + self.phases.get(CURVATURE, 0.0)

    @property
    def share(self) -> float:
        """The part of a step that is the optimizer's."""
        return self.own / self.seconds if self.seconds else math.nan


@dataclasses.dataclass(frozen=True)
class CellEstimate:
    """A cell: its arms in order, those with samples."""

    record: CellRecord
    arms: Mapping[str, ArmEstimate]
    clock: str
    off_processor: float
    """The part of the wall time in which the process had no processor, where it runs on one thread."""
    busy: tuple[str, ...]
    """Why blocks were measured on a busy machine."""
    tokens: float | None
    positions: float | None
    samples: float | None
    """Per step."""
    phase_gap: float
    """By how much the sum of phases differs from the measured step."""

    @property
    def baseline(self) -> ArmEstimate | None:
        return self.arms.get(self.record.plan.baseline)

    @property
    def unit(self) -> tuple[str, float]:
        """The unit that a rate counts, and how many of it a step has."""
        if self.positions is not None:
            return "tokens/s", self.positions
        return ("samples/s", self.samples) if self.samples else ("steps/s", 1.0)


def estimate(record: CellRecord) -> CellEstimate:
    """Everything that a table of this cell says."""
    timed = [step for step in record.steps if step.timed]
    labels = [label for label in record.plan.labels if any(step.arm == label for step in timed)]
    off = _off_processor(timed) if record.plan.threads == 1 else 0.0
    clock = CPU if off > DISTURBED and record.plan.threads == 1 and record.plan.device == "cpu" else WALL
    prefix = "cpu." if clock == CPU else ""
    by_block: dict[tuple[int, int], dict[str, list[Step]]] = defaultdict(lambda: defaultdict(list))
    for step in timed:
        by_block[step.repeat, step.block][step.arm].append(step)
    curvature = {label: _curvature([s for s in record.steps if s.arm == label], prefix) for label in labels}
    blocks = [
        _Block(arms, prefix, curvature, bool(record.blocks.get(place, {}).get("together", True)))
        for place, arms in sorted(by_block.items())
    ]
    family = max(1, len(labels) - 1)
    found = {label: _arm(record, label, timed, blocks, curvature[label], family, prefix) for label in labels}
    found = _on_one_scale(found, blocks, record.plan.baseline)
    counted = {name: _mean([s.seconds[name] for s in timed if name in s.seconds]) for name in _COUNTS}
    whole = math.fsum(s.seconds[WHOLE] for s in timed)
    summed = math.fsum(sum(s.seconds.get(phase, 0.0) for phase in _PHASES) for s in timed)
    return CellEstimate(
        record,
        found,
        clock,
        off,
        tuple(dict.fromkeys(facts["busy"] for facts in record.blocks.values() if facts.get("busy"))),
        counted["tokens"],
        counted["positions"],
        counted["samples"],
        summed / whole - 1.0 if whole else 0.0,
    )


_PLAIN = (*STEP_PHASES, TRAINING)
_PHASES = (*_PLAIN, CURVATURE)
_COUNTS = ("tokens", "positions", "samples")
COMMON = (DATA, FORWARD, BACKWARD)


class _Block:
    """The rounds of one allocation."""

    def __init__(
        self, arms: Mapping[str, Sequence[Step]], prefix: str, curvature: Mapping[str, float], together: bool
    ) -> None:
        self.together = together
        # Updates of curvature come in a few steps only: a mean of the middle ones would lose them.
        self.wholes = {a: np.array([_of(s, _PLAIN, prefix) for s in steps]) + curvature[a] for a, steps in arms.items()}
        self.passes = {a: np.array([_of(s, (FORWARD, BACKWARD), prefix) for s in steps]) for a, steps in arms.items()}
        self.own = {a: np.array([_of(s, (STEP,), prefix) for s in steps]) + curvature[a] for a, steps in arms.items()}
        everything = [_of(s, COMMON, prefix) for steps in arms.values() for s in steps]
        self.common = trimmed_mean(everything)[0]

    def typical(self, arm: str) -> float:
        """Seconds per step of an arm: the common phases and its own."""
        return self.common + trimmed_mean(self.own[arm])[0]

    def delta(self, arm: str, baseline: str) -> float | None:
        """How much higher its throughput is, from the step phases."""
        if arm not in self.own or baseline not in self.own or not self.common:
            return None
        return -self._difference(self.own[arm], self.own[baseline]) / self.typical(arm)

    def log_ratio(self, quantity: Mapping[str, np.ndarray], arm: str, baseline: str) -> float | None:
        if arm not in quantity or baseline not in quantity or min(quantity[arm].min(), quantity[baseline].min()) <= 0:
            return None
        return self._difference(np.log(quantity[arm]), np.log(quantity[baseline]))

    def _difference(self, one: np.ndarray, other: np.ndarray) -> float:
        if self.together and len(one) == len(other):
            return trimmed_mean(one - other)[0]
        return trimmed_mean(one)[0] - trimmed_mean(other)[0]


def _arm(
    record: CellRecord,
    label: str,
    timed: Sequence[Step],
    blocks: Sequence[_Block],
    curvature: float,
    family: int,
    prefix: str,
) -> ArmEstimate:
    own = [step for step in timed if step.arm == label]
    baseline, alpha = record.plan.baseline, ALPHA / family
    is_baseline = label == baseline
    deltas = [] if is_baseline else [d for block in blocks if (d := block.delta(label, baseline)) is not None]
    wholes = [] if is_baseline else [r for b in blocks if (r := b.log_ratio(b.wholes, label, baseline)) is not None]
    passes = [] if is_baseline else [r for b in blocks if (r := b.log_ratio(b.passes, label, baseline)) is not None]
    whole = mean_interval(wholes, alpha) if wholes else None
    values = _final(record, label)
    phases = {phase: trimmed_mean([s.seconds.get(prefix + phase, 0.0) for s in own])[0] for phase in STEP_PHASES}
    typical = [block.typical(label) for block in blocks if label in block.own]
    return ArmEstimate(
        label,
        len(own),
        {**phases, CURVATURE: curvature},
        trimmed_mean([s.seconds[WHOLE] for s in own])[0],
        _mean([_of(s, _PHASES, "cpu.") for s in own]) or 0.0,
        statistics.median(typical),
        # A workload whose own function trains has no phases; whole steps are all there is.
        (mean_interval(deltas, alpha) if deltas else None) or _throughput(whole),
        _throughput(whole),
        _exponential(mean_interval(passes, alpha)) if passes else None,
        (
            _mean([s.seconds.get(MINOR, 0.0) for s in own]) or 0.0,
            _mean([s.seconds.get(MAJOR, 0.0) for s in own]) or 0.0,
        ),
        tuple(values.values()),
        None if is_baseline else _loss_delta(values, _final(record, baseline)),
        sum(step.loss is not None and not math.isfinite(step.loss) for step in record.steps if step.arm == label),
    )


def _on_one_scale(found: Mapping[str, ArmEstimate], blocks: Sequence[_Block], baseline: str) -> dict[str, ArmEstimate]:
    """Seconds per step that agree with the differences: the baseline's, divided by one plus each difference."""
    if baseline not in found:
        return dict(found)
    level = statistics.median([block.typical(baseline) for block in blocks if baseline in block.own])
    if not level:  # no phases
        level = found[baseline].whole
    return {
        label: dataclasses.replace(arm, seconds=level / (1.0 + arm.delta.value) if arm.delta else level)
        for label, arm in found.items()
    }


def _of(step: Step, phases: Sequence[str], prefix: str) -> float:
    return math.fsum(step.seconds.get(prefix + phase, 0.0) for phase in phases)


def _curvature(steps: Sequence[Step], prefix: str) -> float:
    """Seconds per step of Hessian updates, which come every ten steps."""
    taken = [step.seconds[prefix + CURVATURE] for step in steps if prefix + CURVATURE in step.seconds]
    return trimmed_mean(taken)[0] / EVERY if taken else 0.0


def _off_processor(steps: Sequence[Step]) -> float:
    wall = math.fsum(_of(step, _PHASES, "") for step in steps)
    cpu = math.fsum(_of(step, _PHASES, "cpu.") for step in steps)
    return max(0.0, 1.0 - cpu / wall) if wall and cpu else 0.0


def _throughput(ratio: MeanInterval | None) -> MeanInterval | None:
    """The logarithm of a ratio of times as a gain of throughput."""
    if ratio is None:
        return None
    ends = sorted(_exp(-end) - 1.0 for end in (ratio.low, ratio.high))
    return MeanInterval(_exp(-ratio.value) - 1.0, ends[0], ends[1], ratio.count)


def _exponential(ratio: MeanInterval) -> MeanInterval:
    return MeanInterval(_exp(ratio.value), _exp(ratio.low), _exp(ratio.high), ratio.count)


def _exp(value: float) -> float:
    return math.inf if value > 700 else math.exp(value)


def _final(record: CellRecord, label: str) -> dict[int, float]:
    """Repeat → the last value of the validation metric."""
    return {
        repeat: curve[-1][1]
        for (repeat, arm), curve in sorted(record.evaluations.items())
        if arm == label and curve[-1][1] is not None
    }


def _loss_delta(values: Mapping[int, float], baseline: Mapping[int, float]) -> MeanInterval | None:
    both = [values[repeat] - baseline[repeat] for repeat in values if repeat in baseline]
    return mean_interval(both, ALPHA) if both else None


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
