"""Whether an arm has room: its peak by the model of memory, and the largest batch that fits into a budget."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from fallline.footprint.prediction import Predictor
from fallline.footprint.setting import Setting
from fallline.footprint.trainees.from_workload import from_workload
from fallline.footprint.trainees.trainee import Unbuildable
from fallline.profile.arms import OURS, Arm
from fallline.profile.plan import Plan
from fallline.step.implementations import IMPLEMENTATIONS
from fallline.training.optimizer_files import is_file
from fallline.workloads import Workload, WorkloadError
from fallline.workloads.loading import load, with_settings

BATCH = "batch"
FEW = 2
"""A batch whose iteration is traced in place of larger ones, whose sizes follow from it."""
MOST = 1 << 20
"""No batch beyond this is looked for."""


@dataclasses.dataclass(frozen=True)
class Fit:
    """The largest batch of one arm within a budget, by the model and by a run."""

    batch: int
    predicted: int
    measured: int | None = None


class Room:
    """The predicted peaks of one workload; the model is traced once, without memory."""

    def __init__(self, workload: Workload, precision: str, batch: int | None = None):
        """``batch``: the size that is asked about, where the workload was made with a smaller one."""
        self._batch = batch
        self._precision = "float32" if precision == "fp32" else "autocast"
        self._predictor: Predictor | None = None
        self.missing: str | None = None
        """Why nothing can be predicted."""
        try:
            self._predictor = Predictor(from_workload(workload))
        except (Unbuildable, WorkloadError) as reason:
            self.missing = str(reason)

    def peak(self, arm: Arm, batch: int | None = None) -> int | None:
        """The bytes in tensors at the peak of a step; None where the model cannot say."""
        setting, batch = self._setting(arm), self._batch if batch is None else batch
        if self._predictor is None or setting is None:
            return None
        try:
            if batch is None:
                return self._predictor.predict(setting).peak
            return self._predictor.at_batch(setting, batch).peak
        except Exception as error:  # a model that cannot run without memory, in whichever way it says so
            self.missing = str(error).partition("\n")[0]
            self._predictor = None
            return None

    def _setting(self, arm: Arm) -> Setting | None:
        if is_file(arm.optimizer):
            return None
        states = str(arm.settings.get("state_dtype", "float32"))
        if arm.implementation != OURS and IMPLEMENTATIONS[arm.implementation].states == "int8":
            states = "int8"
        return Setting(optimizer=arm.optimizer, state_dtype=states, precision=self._precision)

    def largest(self, arm: Arm, budget: int) -> Fit | None:
        """The largest batch whose peak is within the budget; a batch of 0 where not even one sample fits."""
        if self.peak(arm) is None:
            return None
        batch = largest_within(budget, lambda size: self.peak(arm, size) or 0)
        return Fit(batch, self.peak(arm, batch) or 0 if batch else 0)


def room_of(plan: Plan, workload: Workload) -> Room:
    """The room of a plan's arms; a large batch is not made to find out that it does not fit."""
    name, settings = with_settings(plan.workload)
    batch = settings.get(BATCH)
    if not isinstance(batch, float) or batch <= FEW:
        return Room(workload, plan.precision)
    return Room(load(name, {**settings, BATCH: float(FEW)}), plan.precision, int(batch))


def largest_within(budget: int, size_of: Callable[[int], int]) -> int:
    """The largest number whose size is within the budget; sizes grow with the number.

    >>> largest_within(100, lambda n: 10 + 7 * n)
    12
    >>> largest_within(5, lambda n: 10 + 7 * n)
    0
    """
    if size_of(1) > budget:
        return 0
    low, high = 1, 2
    while high < MOST and size_of(high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if size_of(middle) <= budget:
            low = middle
        else:
            high = middle
    return low
