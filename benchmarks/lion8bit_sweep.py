"""Is Lion in 8 bits unstable at rates from 1e-4 to 3e-5?  ``python -m benchmarks.lion8bit_sweep``

3,000 steps on ``chars`` at constant rates, three seeds each.  A run is called unstable if its weights are no longer
finite, or if its validation loss rises by more than 5 % above the lowest before, which noise alone does not do here.
Two controls: the same in 32 bits, which says whether bits are to blame, and a rate a hundred times too high, which
says whether instability would be seen.  Goes on where it was stopped; about 25 minutes of one processor.  ``--show``
runs nothing, and counts the runs that have ended.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.settings import RESULTS, ROOT
from benchmarks.store import save
from fallline.measure import machine
from fallline.race.contestants import Contestant
from fallline.race.engine import LocalEngine
from fallline.race.engine.messages import DIVERGED
from fallline.race.plan import SELF, STEPS_CLOCK, Entry, Rules
from fallline.race.results import Results, Row
from fallline.race.run import Race
from fallline.workloads import load

STEPS, SEEDS, EVERY = 3000, 3, 50
RATES = (1e-4, 7e-5, 5e-5, 3e-5)
RISE = 0.05
UNREACHABLE = 0.01
"""Cross-entropy in nats: a target nobody meets, so that every run takes all its steps."""


def contestants() -> list[Contestant]:
    made = [("lion8bit", rate) for rate in RATES] + [("lion", RATES[0]), ("lion8bit", 100 * RATES[0])]
    return [
        Contestant(f"{name} {rate:g}", name, {"lr": rate, "weight_decay": 0.1}, schedule="constant")
        for name, rate in made
    ]


def largest_rise(values: Sequence[float | None]) -> float:
    """The highest that a value stands above the lowest before it, relative to that; ∞ if one is missing.

    >>> round(largest_rise([4.0, 2.0, 2.1, 1.5, 1.8]), 3), largest_rise([2.0, None])
    (0.2, inf)
    """
    lowest, rise = math.inf, 0.0
    for value in values:
        if value is None:
            return math.inf
        lowest = min(lowest, value)
        rise = max(rise, value / lowest - 1)
    return rise


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lion8bit_sweep", description=__doc__)
    parser.add_argument("--show", action="store_true", help="run nothing")
    changes = {"max_steps": STEPS, "eval_every": EVERY, "target": UNREACHABLE}
    path = ROOT / "build" / "lion8bit_sweep.sqlite"
    path.parent.mkdir(exist_ok=True)
    show = parser.parse_args().show
    with Results(path, writable=not show) as results:
        if not show:
            entry = Entry("chars", load("chars").replace(**changes), changes)
            rules = Rules(ruleset=SELF, self_factor=1.0, studies=SEEDS, clock=STEPS_CLOCK)
            engine = LocalEngine(1)
            try:
                Race([entry], contestants(), rules, results, engine).run()
            finally:
                engine.close()
        found = {}
        for contestant in contestants():
            rows = [row for row in results.rows() if row.contestant == contestant.name and row.status is not None]
            found[contestant.name] = _found(rows, [results.evaluations(row.id) for row in rows])
    save(RESULTS / "lion8bit_sweep.json", {"runs": found, "machine": machine.describe()})
    for name, row in found.items():
        rise, last = row["largest rise"], row["final cross-entropy"]
        print(f"{name}: {row['unstable']} of {row['seeds']} unstable, largest rise {rise:.1%}, at the end {last:.3f}")


def _found(rows: Sequence[Row], curves: Sequence[list[tuple[int, float | None, float]]]) -> dict[str, Any]:
    rises = [largest_rise([value for _, value, _ in curve]) for curve in curves]
    finals = [curve[-1][1] for curve in curves if curve and curve[-1][1] is not None]
    return {
        "seeds": len(rows),
        "statuses": [row.status for row in rows],
        "steps": [row.steps for row in rows],
        "largest rise": max(rises),
        "final cross-entropy": statistics.median(finals) if finals else None,
        "unstable": sum(rise > RISE or row.status == DIVERGED for row, rise in zip(rows, rises, strict=True)),
        "curves": [[[step, value] for step, value, _ in curve] for curve in curves],
    }


if __name__ == "__main__":
    main()
