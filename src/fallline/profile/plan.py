"""The subject of a profile: a workload, arms, precision and counts; one cell of a sweep, or the only one."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from fallline.profile.arms import Arm
from fallline.workloads import Workload, load

BLOCK = 10
"""Timed rounds on one allocation. Where memory happens to lie makes 1 to 3 %, so models are made anew after so many."""
LEAST_BLOCKS = 2
"""Per repeat: of one allocation nothing is known of what another would have shown."""
LEAST_ROUNDS = 3
"""Timed rounds of a block, where steps take very long."""


SETTLE = 1
"""Steps that each new model takes before it is timed: its memory is touched for the first time."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """One cell: everything that decides what its numbers mean."""

    workload: str
    """As :func:`fallline.workloads.load` takes it, settings included."""
    arms: tuple[Arm, ...]
    baseline: str
    label: str = ""
    """Its place in a sweep: ``batch 16``."""
    axis: str = ""
    """The axis of that sweep."""
    preset: str = ""
    """The published profile that it repeats."""
    precision: str = "fp32"
    compiled: bool = False
    device: str = "cpu"
    threads: int = 1
    repeats: int = 3
    warmup: int = 2
    """Steps of each repeat that are not timed; compilation happens in them."""
    seed: int = 0

    @property
    def key(self) -> str:
        """A name for these conditions: other conditions have another one."""
        return hashlib.sha256(json.dumps(self.definition(), sort_keys=True).encode()).hexdigest()[:12]

    def definition(self) -> dict[str, Any]:
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**plain, "arms": [arm.definition() for arm in self.arms]}

    @classmethod
    def defined(cls, data: Mapping[str, Any]) -> Plan:
        return cls(**{**data, "arms": tuple(map(Arm.defined, data["arms"]))})

    def loaded(self) -> Workload:
        return load(self.workload)

    def arm(self, label: str) -> Arm:
        return next(arm for arm in self.arms if arm.label == label)

    @property
    def labels(self) -> list[str]:
        return [arm.label for arm in self.arms]


@dataclasses.dataclass(frozen=True)
class Counts:
    """How many steps of each arm are timed: repeats × blocks × rounds."""

    blocks: int
    rounds: int
    last: int
    """Rounds of the last block of a repeat."""

    def rounds_of(self, block: int) -> int:
        return self.last if block == self.blocks - 1 else self.rounds

    @property
    def steps(self) -> int:
        """Timed steps of one repeat."""
        return (self.blocks - 1) * self.rounds + self.last


@dataclasses.dataclass(frozen=True)
class Course:
    """The steps of one repeat, block after block, those that are not timed included.

    >>> course = Course(warmup=2, counts=Counts(blocks=2, rounds=10, last=5))
    >>> course.first_step(1), course.untimed(1), course.total
    (12, 1, 18)
    """

    warmup: int
    counts: Counts

    @property
    def total(self) -> int:
        return self.first_step(self.counts.blocks)

    def first_step(self, block: int) -> int:
        """The number of the first step of a block, counted from 0."""
        if block == 0:
            return 0
        return self.warmup + (block - 1) * SETTLE + sum(map(self.counts.rounds_of, range(block)))

    def untimed(self, block: int) -> int:
        """How many steps a block begins with that are not timed."""
        return self.warmup if block == 0 else SETTLE

    def is_last(self, block: int) -> bool:
        return block == self.counts.blocks - 1


def counts_for(steps: int) -> Counts:
    """Exactly so many timed steps per repeat.

    >>> counts_for(25), counts_for(4)
    (Counts(blocks=3, rounds=10, last=5), Counts(blocks=2, rounds=2, last=2))
    """
    rounds = min(BLOCK, max(1, -(-steps // LEAST_BLOCKS)))
    blocks = max(1, -(-steps // rounds))
    return Counts(blocks, rounds, steps - (blocks - 1) * rounds)


def counts_within(seconds: float, round_seconds: float, repeats: int, warmup: int = 2, most: int = 30) -> Counts:
    """As many rounds as fit into the time, decided before any is timed, so that no result decides when to stop.

    Rounds that are not timed count, too: the warm-up of each repeat, and the first round of each new allocation.

    >>> counts_within(60, 0.5, repeats=3)
    Counts(blocks=3, rounds=10, last=10)
    >>> counts_within(60, 20.0, repeats=3)
    Counts(blocks=2, rounds=3, last=3)
    """
    each = seconds / max(1e-9, round_seconds) / repeats - warmup + SETTLE
    rounds = int(min(BLOCK, max(LEAST_ROUNDS, each // LEAST_BLOCKS - SETTLE)))
    blocks = int(min(most, max(LEAST_BLOCKS, each // (rounds + SETTLE))))
    return Counts(blocks, rounds, rounds)
