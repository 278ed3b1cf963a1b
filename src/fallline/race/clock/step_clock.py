"""Turns steps into seconds on the calibrated clock."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fallline.race.clock.calibrated import Calibrated
from fallline.race.plan.rules import STEPS_CLOCK, Rules


class StepClock:
    """Seconds of steps, switches to averaged weights included; the number of steps where steps are the clock."""

    def __init__(
        self,
        rules: Rules,
        calibration: Mapping[tuple[str, str], Calibrated],
        eval_every: Mapping[str, int],
    ):
        self._steps_alone = rules.clock == STEPS_CLOCK
        self._costs = calibration
        self._every = eval_every

    def knows(self, workload: str, contestant: str) -> bool:
        return self._steps_alone or (workload, contestant) in self._costs

    def seconds(self, workload: str, contestant: str, steps: float) -> float:
        """∞ for ∞ steps, and where steps could not be measured."""
        if self._steps_alone or math.isinf(steps):
            return float(steps)
        cost = self._costs.get((workload, contestant))
        if cost is None:
            return math.inf
        return steps * cost.step_seconds + math.ceil(steps / self._every[workload]) * cost.switch_seconds

    def steps_within(self, workload: str, contestant: str, seconds: float) -> int:
        """The most steps that fit into so many seconds; at least one."""
        allowed, every, cost = seconds * (1 + 1e-9), self._every[workload], self._costs[workload, contestant]
        # Switches take time too: whole intervals between evaluations, then what fits before one more switch.
        intervals = math.floor(allowed / self.seconds(workload, contestant, every))
        left = allowed - self.seconds(workload, contestant, intervals * every) - cost.switch_seconds
        return max(1, intervals * every + max(0, math.floor(left / cost.step_seconds)))
