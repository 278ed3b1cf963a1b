"""A block of interleaved rounds: each arm takes one step per round in random order, with a model in new memory.

Where memory does not hold all arms at once, arms take the steps of a block in turns, one model after the other.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fallline.measure.clock import no_garbage_collection
from fallline.measure.load import Meter, Share
from fallline.measure.memory import trim_malloc
from fallline.profile.plan import Course, Plan
from fallline.profile.results import Step
from fallline.profile.trained import Ended, TrainedArm
from fallline.workloads import Workload


class Place(NamedTuple):
    """One block of one repeat."""

    repeat: int
    block: int


class Block:
    """The arms of one block: those that are training, and what has come of them."""

    def __init__(
        self,
        plan: Plan,
        workload: Workload,
        course: Course,
        place: Place,
        saved: dict[str, Any],
        notice: Callable[[str], None],
    ) -> None:
        """``saved``: the checkpoints from which arms go on, by label; an entry goes when its arm has been made."""
        self.plan, self.workload, self.course, self.place, self.notice = plan, workload, course, place, notice
        self.saved = saved
        self.training: dict[str, TrainedArm] = {}
        self.steps: list[Step] = []
        self.ended: dict[str, str] = {}
        """Arm → why it takes no further step."""
        self.kept: dict[str, Any] = {}
        """Arm → its checkpoint at the end of the block; of the last block none."""
        self.values: dict[str, tuple[int, float]] = {}
        """Arm → (step, value of the metric) at the end of the last block."""
        self.skipped: dict[str, int] = {}
        """Arm → the steps that its loss scaler skipped so far."""

    def run(self, labels: Sequence[str], together: bool, rng: random.Random) -> Share:
        """Takes all steps of the block; returns the share of the machine that they had."""
        order = rng.sample(labels, len(labels))
        meter = Meter()
        with no_garbage_collection():
            for group in [order] if together else [[label] for label in order]:
                self._interleave(group, rng)
                if not together:
                    self._finish(apart=True)
                    self.training.clear()
                    trim_malloc()
        share = meter.share(self.plan.threads)
        if together:
            self._finish(apart=False)
        return share

    def _interleave(self, group: Sequence[str], rng: random.Random) -> None:
        """The rounds of some arms."""
        for label in group:
            self._make(label)
        untimed = self.course.untimed(self.place.block)
        for number in range(untimed + self.course.counts.rounds_of(self.place.block)):
            for label in rng.sample(group, len(group)):
                if label in self.training:
                    self._take(label, timed=number >= untimed)

    def _make(self, label: str) -> None:
        """A new model and optimizer, in new memory, where the old ones stopped."""
        plan, seed = self.plan, self.plan.seed + self.place.repeat
        try:
            made = TrainedArm(plan, plan.arm(label), self.workload, seed, self.course.total, plan.compiled)
            if label in self.saved:
                made.restore(self.saved.pop(label))
            made.advance(self.course.first_step(self.place.block))  # where a killed run was, from its last checkpoint
        except Ended as error:
            self.ended[label] = str(error)
        else:
            self.training[label] = made

    def _take(self, label: str, timed: bool) -> None:
        trained = self.training[label]
        number = trained.done
        try:
            loss, cost = trained.step()
        except Ended as error:
            self.ended[label] = str(error)
            del self.training[label]
        else:
            self.steps.append(Step(self.place.repeat, self.place.block, label, number, timed, loss, cost))

    def _finish(self, apart: bool) -> None:
        """Evaluates at the end of a repeat, off every clock; before it, keeps checkpoints.

        ``apart``: in memory of their own, because the models are dropped before the next ones are made.
        """
        for label, trained in self.training.items():
            self.skipped[label] = trained.skipped
            if self.course.is_last(self.place.block):
                self._evaluate(label, trained)
            else:
                content = trained.checkpoint()
                self.kept[label] = copy.deepcopy(content) if apart else content

    def _evaluate(self, label: str, trained: TrainedArm) -> None:
        try:
            self.values[label] = (trained.done, trained.evaluate())
        except Ended as error:
            self.notice(f"{label}: could not be evaluated: {error}")
