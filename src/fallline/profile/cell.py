"""Measures one cell: looks at each arm alone, fixes how many rounds are timed, then takes repeat after repeat."""

from __future__ import annotations

import dataclasses
import gc
import math
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from fallline.measure.load import reason
from fallline.measure.machine import available_memory
from fallline.profile.first_look import look_at
from fallline.profile.plan import LEAST_BLOCKS, Counts, Course, Plan, counts_for, counts_within
from fallline.profile.results import CellRecord, Results
from fallline.profile.room import room_of
from fallline.profile.rounds import Block, Place
from fallline.profile.saved_arms import SavedArms
from fallline.profile.subject import Subject
from fallline.profile.trained import Ended, memory_limited
from fallline.workloads import Workload

ROOM = 0.8
"""The part of the available memory that all arms together may take in one process."""
OVERRUN = 1.25
"""A cell stops at the end of a block where it would take longer than so many times its limit."""
LOOK_STEPS = 1000
"""The length of training that a first look pretends, for schedules."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """How long to measure: so many timed steps per repeat, or so many seconds in all.

    The fewest steps that say something may take longer than that; so may steps where other work came meanwhile.
    """

    steps: int | None = None
    seconds: float = 180.0


@dataclasses.dataclass
class Telling:
    """The events that an observer is told of."""

    looked: Callable[[Plan, str, str | None, Mapping[str, Any]], None] = lambda plan, label, status, facts: None
    block: Callable[[Plan, int, int, float], None] = lambda plan, done, blocks, seconds: None
    notice: Callable[[str], None] = lambda text: None


def measure(plan: Plan, results: Results, limits: Limits, telling: Telling) -> None:
    """Measures one cell, or what an interrupted run left of it."""
    workload = plan.loaded()
    results.describe(plan, Subject.of(workload))
    with memory_limited():
        started = time.perf_counter()
        record = _looked(plan, results, workload, telling)
        counts = record.counts
        used = time.perf_counter() - started
        if counts is None:
            counts = _counts(record, limits, used)
            results.set_counts(plan, counts)
        repeats = _Repeats(plan, results, workload, Course(plan.warmup, counts), telling)
        if limits.steps is None:
            least = plan.repeats * (repeats.course.total * _round_seconds(record))
            repeats.deadline = started + OVERRUN * max(limits.seconds, used + least)
        for repeat in range(plan.repeats):
            repeats.take(repeat)


# ------------------------------------------------------------------ first looks


def _looked(plan: Plan, results: Results, workload: Workload, telling: Telling) -> CellRecord:
    """Looks at every arm that has not been looked at; the baseline first, because the others are held against it."""
    record = results.load(plan)
    room = room_of(plan, workload)
    free = available_memory()
    order = sorted(plan.labels, key=lambda label: label != plan.baseline)
    for label in order:
        if label in record.arms:
            continue
        status, facts = None, {"predicted_peak": room.peak(plan.arm(label))}
        try:
            _check_room(facts["predicted_peak"], free)
            facts |= look_at(plan, label, workload, total_steps=LOOK_STEPS)
        except Ended as ended:
            status = str(ended)
            gc.collect()
        results.add_arm(plan, label, status, facts)
        telling.looked(plan, label, status, facts)
    return results.load(plan)


def _check_room(predicted: int | None, free: int | None) -> None:
    """Refuses an arm that the model of memory says cannot be held."""
    if predicted is not None and free is not None and predicted > free:
        raise Ended(f"out of memory: needs {predicted / 1e9:.1f} GB, {free / 1e9:.1f} GB are available")


def _counts(record: CellRecord, limits: Limits, used: float) -> Counts:
    if limits.steps is not None:
        return counts_for(limits.steps)
    return counts_within(limits.seconds - used, _round_seconds(record), record.plan.repeats, record.plan.warmup)


def _round_seconds(record: CellRecord) -> float:
    """Compilation aside, a second step is what all further ones cost; evaluations and new models take a tenth more."""
    return 1.1 * sum(arm.facts.get("second_seconds", 0.0) for arm in record.arms.values() if arm.status is None)


# ------------------------------------------------------------------ repeats


class _Repeats:
    """The repeats of a cell, block by block; each block is stored when it ends."""

    def __init__(self, plan: Plan, results: Results, workload: Workload, course: Course, telling: Telling) -> None:
        self.plan, self.results, self.workload, self.course, self.telling = plan, results, workload, course, telling
        self.saved = SavedArms(plan, results.path, telling.notice)
        self.deadline = math.inf
        """When to stop at the end of a block, by this process's clock."""
        self._longest = 0.0
        """Seconds of the longest block."""
        self._stopped = False

    def take(self, repeat: int) -> None:
        """Takes the blocks of a repeat that are not stored."""
        record, blocks = self.results.load(self.plan), self.course.counts.blocks
        missing = [block for block in range(blocks) if (repeat, block) not in record.blocks]
        if not missing or self._stopped:
            return
        first = missing[0]
        together = self._have_room_together(record)
        labels = [label for label in self.plan.labels if record.arms[label].status is None]
        rng = random.Random(f"{self.plan.key} {repeat} {first}")
        saved = self.saved.read(labels, repeat, self.course.first_step(first)) if first else {}
        for block in range(first, blocks):
            if not labels or self._is_late(repeat, block):
                return
            began = time.perf_counter()
            labels, saved = self._block(labels, Place(repeat, block), together, rng, saved)
            seconds = time.perf_counter() - began
            self._longest = max(self._longest, seconds)
            self.telling.block(self.plan, repeat * blocks + block + 1, self.plan.repeats * blocks, seconds)
        self.saved.forget(repeat)

    def _block(
        self, labels: list[str], place: Place, together: bool, rng: random.Random, saved: dict[str, Any]
    ) -> tuple[list[str], dict[str, Any]]:
        """Takes a block and stores it; returns who goes on, and from where."""
        block = Block(self.plan, self.workload, self.course, place, saved, self.telling.notice)
        share = block.run(labels, together, rng)
        facts = {"share": dataclasses.asdict(share), "busy": reason(share), "together": together}
        self.results.add_block(self.plan, place, block.steps, facts, block.values)
        for label, why in block.ended.items():
            self.results.add_arm(self.plan, label, why, {})
            self.telling.looked(self.plan, label, why, {})
        for label, skipped in block.skipped.items():
            self.results.add_arm(self.plan, label, None, {f"skipped.{place.repeat}": skipped})
        self.saved.write(block.kept, place.repeat)
        return [label for label in labels if label not in block.ended], block.kept

    def _is_late(self, repeat: int, block: int) -> bool:
        """Whether the time is up, which no result decides; two blocks are taken in any case, for an interval."""
        done = repeat * self.course.counts.blocks + block
        if done < LEAST_BLOCKS or time.perf_counter() + self._longest <= self.deadline:
            return False
        self._stopped = True
        self.telling.notice(
            f"  time is up after block {done} of {self.plan.repeats * self.course.counts.blocks}: steps took longer "
            "than in the first look; the same command takes the rest"
        )
        return True

    def _have_room_together(self, record: CellRecord) -> bool:
        """Whether all arms have room in one process: what each holds, and the largest working memory of a step."""
        known = [arm.facts for arm in record.arms.values() if arm.facts.get("held_bytes")]
        free = available_memory()
        if free is None or not known:
            return True
        held = sum(2 * facts["held_bytes"] for facts in known)
        working = max(facts["peak_bytes"] - facts["held_bytes"] for facts in known)
        if held + working <= ROOM * free:
            return True
        self.telling.notice("memory does not hold all arms at once; they take turns, a block of steps each")
        return False
