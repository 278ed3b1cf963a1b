"""Measures steps of a race's contestants and stores them, together with all that was measured before."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from fallline.measure import machine
from fallline.race import step_costs
from fallline.race.clock.sessions import ratio_errors
from fallline.race.contestants import Contestant
from fallline.race.engine import Engine
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


def measure_between_rounds(
    engine: Engine,
    results: Results,
    rules: Rules,
    entries: Collection[Entry],
    contestants: Sequence[Contestant],
) -> None:
    """A few seconds of steps again in a new process; call it while no trial runs.

    Where memory lies in a process favours one contestant or another, and only several processes average that out.  Not
    in an equal-time race, whose trials are as long as the first measurement allows, and not on workloads where step
    times are known well enough beside each other.
    """
    if rules.clock == STEPS_CLOCK or rules.ruleset == BUDGET:
        return
    seconds = min(step_costs.AGAIN_SECONDS, step_costs.CALIBRATION_SECONDS)
    renewed = False
    for entry in entries:
        measured = results.calibration()
        chosen = [contestant for contestant in contestants if (entry.name, contestant.name) in measured]
        if _known_well(results, entry, [contestant.name for contestant in chosen]):
            continue
        if not renewed:
            engine.renew(0)
            renewed = True
        measure_and_store(engine, results, rules, entry, chosen, seconds)


def _known_well(results: Results, entry: Entry, names: Sequence[str]) -> bool:
    errors = ratio_errors(results.sessions(entry.name))
    pairs = itertools.combinations(names, 2)
    return max((errors.get(frozenset(pair), 1.0) for pair in pairs), default=0.0) <= step_costs.KNOWN_WELL
