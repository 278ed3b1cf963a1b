"""Measures steps of a race's contestants and stores them, together with all that was measured before."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from fallline.measure import machine
from fallline.race import step_costs
from fallline.race.clock.sessions import ratio_errors
from fallline.race.contestants import Contestant
from fallline.race.engine import Engine
from fallline.race.lineup import Lineup
from fallline.race.plan import BUDGET, STEPS_CLOCK, Entry, Rules
from fallline.race.results import Results


def measure_and_store(
    engine: Engine,
    results: Results,
    rules: Rules,
    entry: Entry,
    contestants: Sequence[Contestant],
    seconds: float,
    *,
    anew: bool = False,
) -> step_costs.StepCosts:
    """One session of these contestants side by side; ``anew`` forgets all earlier ones."""
    target = results.workloads()[entry.name]["target"]
    request = step_costs.workload_request(entry, target)
    costs = step_costs.measure_steps(engine, request, contestants, seconds=seconds)
    if not costs.found:
        return costs
    known = {} if anew else {c: cost for (w, c), cost in results.calibration().items() if w == entry.name}
    before = [] if anew else results.sessions(entry.name)
    scale = 1.0
    # Trials of equal time are as long as stored times allow; and times without samples cannot be refined.
    if rules.ruleset == BUDGET or (known and not before):
        new, scale = step_costs.on_stored_clock(costs.found, known)
    else:
        new = step_costs.refined(costs.found, known, [*before, *costs.sessions])
    results.set_calibration(entry.name, new, costs.sessions, machine.describe(), scale, anew=anew)
    return costs


class Measuring:
    """Measures steps again between rounds, for a few seconds each in a new process; call it while no trial runs.

    Where memory lies in a process favours one contestant or another, and only several processes average that out.  Not
    in an equal-time race, whose trials are as long as the first measurement allows, and not on workloads where step
    times are known well enough beside each other.
    """

    def __init__(self, lineup: Lineup):
        self._entries, self._contestants = lineup.entries, lineup.contestants
        self._rules, self._results = lineup.rules, lineup.results
        self._engine = lineup.engine

    def wants_more(self, names: Collection[str]) -> bool:
        """Whether the step times of these contestants are not known well enough on some workload."""
        if self._rules.clock == STEPS_CLOCK or self._rules.ruleset == BUDGET:
            return False
        return any(not _known_well(self._results, entry, list(names)) for entry in self._entries.values())

    def measure(self, names: Collection[str]) -> None:
        if not self.wants_more(names):
            return
        seconds = min(step_costs.AGAIN_SECONDS, step_costs.CALIBRATION_SECONDS)
        self._engine.renew(0)
        for entry in self._entries.values():
            measured = self._results.calibration()
            chosen = [self._contestants[name] for name in names if (entry.name, name) in measured]
            if not _known_well(self._results, entry, [contestant.name for contestant in chosen]):
                measure_and_store(self._engine, self._results, self._rules, entry, chosen, seconds)


def _known_well(results: Results, entry: Entry, names: Sequence[str]) -> bool:
    errors = ratio_errors(results.sessions(entry.name))
    pairs = itertools.combinations(names, 2)
    return max((errors.get(frozenset(pair), 1.0) for pair in pairs), default=0.0) <= step_costs.KNOWN_WELL
