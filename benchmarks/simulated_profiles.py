"""Profiles with drawn samples, whose truth is known: tests and the calibration of verdicts use them.

Rounds on one allocation are correlated, as they are on real machines: every phase of an arm keeps a factor for a whole
block, because where memory lies makes 1 to 3 %.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fallline.profile.arms import Arm
from fallline.profile.plan import Counts, Plan
from fallline.profile.results import ArmFacts, CellRecord, Step
from fallline.profile.trained import MAJOR, MINOR, WHOLE

FORWARD, BACKWARD, DATA = 0.020, 0.040, 0.001
PHASES = ("data", "forward", "backward", "step")


def simulated(
    steps: Mapping[str, float],
    *,
    blocks: int = 3,
    rounds: int = 10,
    repeats: int = 3,
    seed: int = 0,
    noise: float = 0.15,
    placement: float = 0.02,
    passes: Mapping[str, float] | None = None,
    label: str = "",
    positions: int = 256,
    faults: float = 0.0,
) -> CellRecord:
    """Arms whose step phase takes so many seconds; noise of each round is common to all, and of each arm.

    ``placement`` is the standard deviation of a factor that every phase of an arm keeps for a block: where its memory
    lies. ``passes`` multiplies forward and backward of an arm.
    """
    rng = np.random.default_rng(seed)
    names = list(steps)
    arms = tuple(Arm(name, "adamw") for name in names)
    plan = Plan("gpt-tiny", arms, names[0], repeats=repeats, label=label, axis=label.partition(" ")[0], threads=2)
    found: list[Step] = []
    for repeat in range(repeats):
        number = 0
        for block in range(blocks):
            lies = {name: np.exp(placement * rng.standard_normal(4)) for name in names}
            for _ in range(rounds):
                slow = np.exp(noise * abs(rng.standard_normal()))
                for name in names:
                    factor = (passes or {}).get(name, 1.0)
                    truth = np.array([DATA, FORWARD * factor, BACKWARD * factor, steps[name]])
                    # Each phase is disturbed by itself: a step scatters as much as its parts together.
                    own = np.exp(noise * 0.5 * rng.standard_normal(4))
                    times = truth * lies[name] * own * slow
                    cost = dict(zip(PHASES, map(float, times), strict=True))
                    cost |= {f"cpu.{phase}": value for phase, value in cost.items()}
                    cost |= {WHOLE: float(times.sum()), MINOR: faults, MAJOR: 0.0}
                    cost |= {"tokens": positions, "positions": positions}
                    found.append(Step(repeat, block, name, number, True, 3.0 - 0.01 * number, cost))
                number += 1
    facts = {
        "peak_bytes": 50e6,
        "state_bytes": 25e6,
        "held_bytes": 38e6,
        "warm_up_seconds": 0.1,
        "lowerings": ["native"],
    }
    return CellRecord(
        plan,
        Counts(blocks, rounds, rounds),
        {},
        {name: ArmFacts(None, dict(facts)) for name in names},
        {(repeat, block): {"together": True} for repeat in range(repeats) for block in range(blocks)},
        found,
        {(repeat, name): [(number, 3.0)] for repeat in range(repeats) for name in names},
    )
