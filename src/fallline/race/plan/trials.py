"""Every trial of a race, from its workloads, contestants and rules.

Draws are common: trial k of study s has the same seed, so the same first weights and batches, whoever runs it, and
contestants with the same search space or list try the same points.  The luck in them is everybody's, and two
implementations of one algorithm take the same steps to a target, so that their step times alone decide.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.race.contestants.contestant import Contestant, plain
from fallline.race.plan.entries import Entry
from fallline.race.plan.rules import RACE, TARGET, Rules
from fallline.workloads.seeding import mixed

TARGET_SEEDS = 3
"""The least number of runs that set a target where nothing is tuned."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training run to do."""

    workload: str
    contestant: str
    study: int
    number: int
    """Counted from 1, as in AlgoPerf."""
    seed: int
    point: Mapping[str, Any]
    kind: str = RACE


def reference_of(contestants: Sequence[Contestant]) -> Contestant:
    """The contestant whose step time is the unit of a budget, and that sets targets: AdamW, or the first."""
    return next((contestant for contestant in contestants if contestant.name == "adamw"), contestants[0])


def trials(entries: Sequence[Entry], contestants: Sequence[Contestant], rules: Rules) -> list[Trial]:
    """Every trial, in the order in which they should run: all contestants advance together, study by study.

    In rounds, those of the first round.
    """
    return [
        trial
        for entry in entries
        for study in range(rules.studies)
        for trial in trials_of_study(entry, contestants, rules, study)
    ]


def trials_of_study(entry: Entry, contestants: Sequence[Contestant], rules: Rules, study: int) -> list[Trial]:
    """The trials of one study on one workload, which do not depend on who else runs it."""
    made = []
    points = {c.name: _points(c, entry.draws, study, rules) for c in contestants}
    for number in range(1, max(map(len, points.values()), default=0) + 1):
        for contestant in contestants:
            if number <= len(points[contestant.name]):
                made.append(
                    Trial(
                        entry.name,
                        contestant.name,
                        study,
                        number,
                        _seed(rules, entry.draws, draws_of(contestant), study, number),
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
            entry.name, reference.name, study, number, _seed(rules, entry.draws, "target", study, number), point, TARGET
        )
        for study in range(studies)
        for number, point in enumerate(points, 1)
    ]


def _points(contestant: Contestant, workload: str, study: int, rules: Rules) -> list[dict[str, Any]]:
    searched = json.dumps([plain(contestant.space), plain(contestant.points)])
    seed = 1 + mixed(rules.seed, "points", workload, draws_of(contestant), searched) % (2**31 - 1)
    return contestant.trial_points(trials=rules.trials, study=study, seed=seed, tuned=rules.tuned)


def draws_of(contestant: Contestant) -> str:
    return contestant.name if contestant.own_draws else ""


def _seed(rules: Rules, workload: str, draws: str, study: int, number: int) -> int:
    return mixed(rules.seed, "trial", workload, draws, study, number) % 2**31
