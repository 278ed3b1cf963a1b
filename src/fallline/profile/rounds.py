"""Interleaved rounds: each arm takes one step per round in random order; models are made anew for every block.

Where memory does not hold all arms at once, arms take the steps of a block in turns, one model after the other.
"""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import math
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fallline.measure.clock import no_garbage_collection
from fallline.measure.load import Meter, reason
from fallline.measure.machine import available_memory
from fallline.measure.memory import trim_malloc
from fallline.profile.first_look import look_at
from fallline.profile.plan import LEAST_BLOCKS, SETTLE, Counts, Plan, counts_for, counts_within
from fallline.profile.results import CellRecord, Results, Step
from fallline.profile.room import room_of
from fallline.profile.trained import Ended, TrainedArm, memory_limited
from fallline.training import checkpoints
from fallline.workloads import Workload

ROOM = 0.8
"""The part of the available memory that all arms together may take in one process."""
OVERRUN = 1.25
"""A cell stops at the end of a block where it would take longer than so many times its limit."""
SAVE_EVERY = 20.0
"""Seconds between checkpoints on disk."""
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
    with memory_limited():
        started = time.perf_counter()
        record = _looked(plan, results, workload, limits, telling)
        counts = record.counts
        used = time.perf_counter() - started
        if counts is None:
            counts = _counts(record, limits, used)
            results.set_counts(plan, counts)
        running = _Running(plan, results, workload, counts, telling)
        if limits.steps is None:
            least = plan.repeats * (running.total * _round_seconds(record))
            running.deadline = started + OVERRUN * max(limits.seconds, used + least)
        for repeat in range(plan.repeats):
            running.repeat(repeat)


def _looked(plan: Plan, results: Results, workload: Workload, limits: Limits, telling: Telling) -> CellRecord:
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


class _Running:
    """One cell being measured."""

    def __init__(self, plan: Plan, results: Results, workload: Workload, counts: Counts, telling: Telling) -> None:
        self.plan, self.results, self.workload, self.counts, self.telling = plan, results, workload, counts, telling
        self.total = plan.warmup + (counts.blocks - 1) * SETTLE + counts.steps
        self.folder = results.path.with_name(results.path.name + ".states")
        self.trained: dict[str, TrainedArm] = {}
        self._saved = time.perf_counter()
        self.deadline = math.inf
        """When to stop at the end of a block, by this process's clock."""
        self._stopped = False

    def repeat(self, repeat: int) -> None:
        record = self.results.load(self.plan)
        done = [block for block in range(self.counts.blocks) if (repeat, block) in record.blocks]
        if len(done) == self.counts.blocks or self._stopped:
            return
        first = next(block for block in range(self.counts.blocks) if block not in done)
        together = self._together(record)
        labels = [label for label in self.plan.labels if self._goes_on(record, label)]
        rng = random.Random(f"{self.plan.key} {repeat} {first}")
        saved = self._begin(labels, repeat, first)
        for block in range(first, self.counts.blocks):
            if not labels or self._is_late(repeat, block):
                return
            began = time.perf_counter()
            labels, saved = self._block(labels, repeat, block, rng, together, saved)
            number = repeat * self.counts.blocks + block + 1
            self._longest = max(self._longest, time.perf_counter() - began)
            self.telling.block(self.plan, number, self.plan.repeats * self.counts.blocks, time.perf_counter() - began)
        for path in self.folder.glob(f"{self.plan.key}-{repeat}-*"):
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    _longest = 0.0

    def _is_late(self, repeat: int, block: int) -> bool:
        """Whether the time is up, which no result decides; two blocks are taken in any case, for an interval."""
        done = repeat * self.counts.blocks + block
        if done < LEAST_BLOCKS or time.perf_counter() + self._longest <= self.deadline:
            return False
        self._stopped = True
        self.telling.notice(
            f"  time is up after block {done} of {self.plan.repeats * self.counts.blocks}: steps took longer than in "
            "the first look; the same command takes the rest"
        )
        return True

    def _goes_on(self, record: CellRecord, label: str) -> bool:
        return record.arms[label].status is None

    def _together(self, record: CellRecord) -> bool:
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

    # ------------------------------------------------------------------ a block

    def _block(
        self, labels: list[str], repeat: int, block: int, rng: random.Random, together: bool, saved: dict[str, Any]
    ) -> tuple[list[str], dict[str, Any]]:
        """Takes the steps of a block and stores them; returns who goes on, and from where."""
        order = rng.sample(labels, len(labels))
        first = self._first_step(block)
        untimed = self.plan.warmup if block == 0 else SETTLE
        rounds = self.counts.rounds_of(block)
        steps: list[Step] = []
        ended: dict[str, str] = {}
        arms: dict[str, TrainedArm] = {}
        meter = Meter()

        def take(label: str, timed: bool) -> None:
            trained = arms[label]
            number = trained.done
            try:
                loss, cost = trained.step()
            except Ended as error:
                ended[label] = str(error)
                arms.pop(label)
                return
            steps.append(Step(repeat, block, label, number, timed, loss, cost))

        def make(label: str) -> None:
            try:
                arms[label] = self._made(label, repeat, first, saved)
            except Ended as error:
                ended[label] = str(error)

        kept: dict[str, Any] = {}
        with no_garbage_collection():
            groups = [order] if together else [[label] for label in order]
            for group in groups:
                for label in group:
                    make(label)
                for number in range(untimed + rounds):
                    for label in rng.sample(group, len(group)):
                        if label in arms:
                            take(label, number >= untimed)
                if not together:
                    for label in group:
                        if label in arms:
                            kept[label] = _cloned(arms[label].checkpoint())
                    self._evaluate(arms, group, block)
                    arms_left = {label: arms.pop(label) for label in group if label in arms}
                    self._skipped |= {label: arm.skipped for label, arm in arms_left.items()}
                    del arms_left
                    trim_malloc()
        share = meter.share(self.plan.threads)
        if together:
            self._evaluate(arms, order, block)
            self._skipped |= {label: arm.skipped for label, arm in arms.items()}
            kept = {label: arm.checkpoint() for label, arm in arms.items()}
        facts = {"share": dataclasses.asdict(share), "busy": reason(share), "together": together}
        self.results.add_block(self.plan, (repeat, block), steps, facts, self._values)
        for label, why in ended.items():
            self.results.add_arm(self.plan, label, why, {})
            self.telling.looked(self.plan, label, why, {})
        for label in order:
            if label not in ended:
                self.results.add_arm(self.plan, label, None, {f"skipped.{repeat}": self._skipped.get(label, 0)})
        self._save(kept, repeat, block)
        return [label for label in labels if label not in ended], kept

    _values: dict[str, tuple[int, float]]
    _skipped: dict[str, int]

    def _evaluate(self, arms: Mapping[str, TrainedArm], group: list[str], block: int) -> None:
        """The validation metric at the end of a repeat, off every clock."""
        if block < self.counts.blocks - 1:
            return
        for label in group:
            if label in arms:
                try:
                    self._values[label] = (arms[label].done, arms[label].evaluate())
                except Ended as error:
                    self.telling.notice(f"{label}: could not be evaluated: {error}")

    def _first_step(self, block: int) -> int:
        if block == 0:
            return 0
        return self.plan.warmup + (block - 1) * SETTLE + sum(self.counts.rounds_of(b) for b in range(block))

    def _made(self, label: str, repeat: int, first: int, saved: dict[str, Any]) -> TrainedArm:
        """A new model and optimizer, in new memory, where the old ones stopped."""
        trained = TrainedArm(
            self.plan,
            self.plan.arm(label),
            self.workload,
            self.plan.seed + repeat,
            self.total,
            self.plan.compiled,
        )
        if label in saved:
            trained.restore(saved.pop(label))
        trained.advance(first)  # from the last checkpoint to where an interrupted run stopped
        return trained

    # ------------------------------------------------------------------ checkpoints

    def _begin(self, labels: list[str], repeat: int, block: int) -> dict[str, Any]:
        """The part of this repeat that an interrupted run saved."""
        self._values, self._skipped = {}, {}
        saved: dict[str, Any] = {}
        if block == 0:
            return saved
        for label in labels:
            content = checkpoints.read(str(self._path(label, repeat)), self._identity(label, repeat))
            if content is not None and content["step"] <= self._first_step(block):
                saved[label] = content
        if lost := [label for label in labels if label not in saved]:
            self.telling.notice(
                f"repeat {repeat + 1}: no readable checkpoint of {', '.join(lost)}; its steps are taken again, untimed"
            )
        return saved

    def _save(self, kept: Mapping[str, Any], repeat: int, block: int) -> None:
        if block == self.counts.blocks - 1 or time.perf_counter() - self._saved < SAVE_EVERY:
            return
        self.folder.mkdir(exist_ok=True)
        for label, content in kept.items():
            identity = {checkpoints.IDENTITY: self._identity(label, repeat)}
            if why := checkpoints.write(self._path(label, repeat), {**identity, **content}):
                self.telling.notice(f"{label}: its checkpoint could not be written: {why}")
        self._saved = time.perf_counter()

    def _path(self, label: str, repeat: int) -> Path:
        return self.folder / f"{self.plan.key}-{repeat}-{hashlib.sha256(label.encode()).hexdigest()[:8]}.pt"

    def _identity(self, label: str, repeat: int) -> str:
        return f"{self.plan.key} {repeat} {label}"


def _cloned(content: Any) -> Any:
    """A checkpoint with memory of its own, for a model that is about to be dropped."""
    import copy

    return copy.deepcopy(content)
