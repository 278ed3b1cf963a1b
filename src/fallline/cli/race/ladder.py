"""``fallline race --ladder``: the entries and the rules of a race on several rungs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fallline.cli.exit_codes import BadInput
from fallline.cli.race.options import Design, Entered

if TYPE_CHECKING:
    from fallline.race.contestants import Contestant
    from fallline.race.plan import Entry, Rules

STUDIES = 3
"""The studies of a ladder, unless another number is asked for: a fixed design, as every rung needs everybody."""


def on_ladder(
    entered: Entered, design: Design, given: Sequence[Entry], rules: Rules, contestants: Sequence[Contestant]
) -> tuple[list[Entry], Rules, str]:
    """An entry for every rung, the rules, and the name of the results file."""
    from fallline.race.ladder.rungs import BadLadder, entries, parse
    from fallline.race.plan import BUDGET, STEPS_CLOCK
    from fallline.workloads.loading import STEPS_AXIS

    assert entered.ladder is not None
    if len(given) > 1:
        raise BadInput(f"--ladder {entered.ladder}: is for one workload, got {len(given)}; climb them one by one")
    if entered.target is not None:
        raise BadInput(
            f"--target {entered.target:g}: on a ladder the reference sets the target of every rung; leave it out"
        )
    if design.seconds is not None:
        raise BadInput(f"--seconds {design.seconds:g}: the rungs of a ladder have budgets of their own; leave it out")
    if len(contestants) < 2:
        raise BadInput(f"--ladder {entered.ladder}: compares with a reference; enter at least two contestants")
    try:
        ladder = parse(entered.ladder)
        made = entries(given[0], ladder)
    except BadLadder as error:
        raise BadInput(f"--ladder: {error}") from None
    # A step costs the same on every rung of a ladder of steps: measured anew on each, it would only add noise.
    by_steps = ladder.axis == STEPS_AXIS and rules.ruleset != BUDGET
    rules = dataclasses.replace(
        rules, studies=design.studies or STUDIES, clock=STEPS_CLOCK if by_steps else rules.clock
    )
    return made, rules, f"{given[0].name}-{ladder.axis}"
