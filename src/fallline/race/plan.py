"""What a race consists of: workloads, contestants and rules, and from them every trial.

Draws are common: trial k of study s has the same seed, so the same first weights and batches, whoever runs it, and
contestants with the same search space or list try the same points.  What luck there is in them is everybody's, and
two implementations of one algorithm take the same steps to a target, so that their step times alone decide.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fallline.race.contestants import Contestant, plain
from fallline.score.algoperf import TAU_MAX
from fallline.workloads import Workload
from fallline.workloads.seeding import mixed

EXTERNAL, SELF, BUDGET = "external", "self", "budget"
RULESETS = (EXTERNAL, SELF, BUDGET)
CALIBRATED_CLOCK, STEPS_CLOCK = "calibrated", "steps"
CLOCKS = (CALIBRATED_CLOCK, STEPS_CLOCK)
SELF_TUNING_FACTOR = 3.0
"""A self-tuning contestant's budget over an externally tuned one's: 3 in AlgoPerf v0.5, 1.5 since v0.6."""

MOST_TRIALS = 100_000
"""Of a race: more than anybody runs, and few enough for their points to be drawn in seconds."""
TARGET_SEEDS = 3
"""The least number of runs that set a target where nothing is tuned."""

RACE, TARGET = "race", "target"
"""Kinds of trials: those that are scored, and those of the reference that set a target where there is none."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """How contestants are tuned and when a trial ends."""

    ruleset: str = EXTERNAL
    trials: int = 5
    studies: int = 5
    seed: int = 0
    self_factor: float = SELF_TUNING_FACTOR
    clock: str = CALIBRATED_CLOCK
    """``calibrated``: steps × seconds per step, measured apart; ``steps``: steps alone, no calibration."""
    early_stop: bool = True
    tau_max: float = TAU_MAX
    seconds: float | None = None
    """Of an equal-time race: how long everybody trains on the clock; None: what the reference's budget takes."""

    @property
    def tuned(self) -> bool:
        return self.ruleset == EXTERNAL or (self.ruleset == BUDGET and self.trials > 1)

    @property
    def ends_early(self) -> bool:
        """Whether trials that can no longer count are ended; never where all have the same time."""
        return self.early_stop and self.ruleset != BUDGET

    @property
    def trials_per_study(self) -> int:
        return self.trials if self.tuned else 1

    def most_steps(self, budget: int, kind: str = RACE) -> int:
        """Of a trial on a workload with this budget.  Who has no tuning gets more; of equal times this is the
        reference's, the others' follow from the clock."""
        if kind == TARGET:
            return target_horizon(budget)
        return math.ceil(budget * self.self_factor) if self.ruleset == SELF else budget

    def fixed(self) -> dict[str, Any]:
        """What must not change when a race goes on; studies may become more."""
        return {
            "ruleset": self.ruleset,
            "trials": self.trials_per_study,
            "seed": self.seed,
            "self_factor": self.self_factor if self.ruleset == SELF else None,
            "clock": self.clock,
            "early_stop": self.early_stop,
            "seconds": self.seconds,
        }


@dataclasses.dataclass(frozen=True)
class Entry:
    """A workload in a race: what to load, and what was asked of it."""

    spec: str
    """A built-in name, or the absolute path of a file with the function's name."""
    workload: Workload
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fields of the workload that the user changed, such as the target."""

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def file(self) -> Path | None:
        """The user's file that it is from; None for a built-in one."""
        path = Path(self.spec.rpartition(":")[0] if ".py:" in self.spec else self.spec)
        return path if path.suffix == ".py" else None

    def facts(self) -> dict[str, Any]:
        """What makes results comparable: other facts are another workload."""
        w = self.workload
        return {
            "metric": w.metric,
            "direction": w.direction,
            "max_steps": w.max_steps,
            "eval_every": w.eval_every,
            "data": w.data_name,
        }


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training run to do."""

    workload: str
    contestant: str
    study: int
    number: int
    """From 1, as in AlgoPerf."""
    seed: int
    point: Mapping[str, Any]
    kind: str = RACE


def target_horizon(budget: int) -> int:
    """The steps in which a target is set: two thirds of the budget."""
    return max(1, 2 * budget // 3)


def reference_of(contestants: Sequence[Contestant]) -> Contestant:
    """Whose step time is the unit of a budget, and who sets targets: AdamW, or the first."""
    return next((contestant for contestant in contestants if contestant.name == "adamw"), contestants[0])


def trials(entries: Sequence[Entry], contestants: Sequence[Contestant], rules: Rules) -> list[Trial]:
    """Every trial, in the order in which they should run: all contestants advance together, study by study."""
    made = []
    for entry in entries:
        for study in range(rules.studies):
            points = {c.name: _points(c, entry.name, study, rules) for c in contestants}
            for number in range(1, rules.trials_per_study + 1):
                for contestant in contestants:
                    if number <= len(points[contestant.name]):
                        made.append(
                            Trial(
                                entry.name,
                                contestant.name,
                                study,
                                number,
                                _seed(rules, entry.name, _draws_of(contestant), study, number),
                                points[contestant.name][number - 1],
                            )
                        )
    return made


def trials_in_study(contestant: Contestant, rules: Rules) -> int:
    """How many there are, without drawing them."""
    if not searches(contestant, rules):
        return 1
    return min(rules.trials, len(contestant.points)) if contestant.points else rules.trials


def searches(contestant: Contestant, rules: Rules) -> bool:
    """Whether its trials have settings that differ: the rules let it tune, and it has something to tune."""
    return rules.tuned and bool(contestant.space or contestant.points)


def target_trials(entry: Entry, reference: Contestant, rules: Rules) -> list[Trial]:
    """Trials of the reference that set the target of a workload without one, with seeds of their own.

    As it is tuned in the race: a study of trials, or its one setting with several seeds.
    """
    seed = mixed(rules.seed, "target") % 2**31
    points = reference.trial_points(trials=rules.trials, study=0, seed=seed, tuned=rules.tuned)
    studies = 1 if searches(reference, rules) else max(TARGET_SEEDS, rules.studies)
    return [
        Trial(
            entry.name, reference.name, study, number, _seed(rules, entry.name, "target", study, number), point, TARGET
        )
        for study in range(studies)
        for number, point in enumerate(points, 1)
    ]


def _points(contestant: Contestant, workload: str, study: int, rules: Rules) -> list[dict[str, Any]]:
    searched = json.dumps([plain(contestant.space), plain(contestant.points)])
    seed = 1 + mixed(rules.seed, "points", workload, _draws_of(contestant), searched) % (2**31 - 1)
    return contestant.trial_points(trials=rules.trials, study=study, seed=seed, tuned=rules.tuned)


def _draws_of(contestant: Contestant) -> str:
    return contestant.name if contestant.own_draws else ""


def _seed(rules: Rules, workload: str, draws: str, study: int, number: int) -> int:
    return mixed(rules.seed, "trial", workload, draws, study, number) % 2**31
