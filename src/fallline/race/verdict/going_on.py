"""The gain from more time, with the command that goes on."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Sequence

from fallline.race.plan import Rules
from fallline.race.results import Results
from fallline.race.verdict.looks import STUDIES_ARE_UP, TIME_IS_UP, take
from fallline.race.verdict.material import material_of
from fallline.race.verdict.race_look import TIME, RaceLook
from fallline.race.verdict.sentences import size
from fallline.score.decision import FIRST_LOOK, WITHIN, Look

MOST_MINUTES = 60 * 24 * 7
"""A race that would take longer is not proposed."""


@dataclasses.dataclass(frozen=True)
class GoingOn:
    """A race that goes on until its bound is as small as this."""

    within: float
    studies: int
    """More of each of those in contention."""
    minutes: float | None
    """More, as fast as so far; None in a fixed design."""
    command: str
    sentence: str


def further(results: Results, rules: Rules, looks: Sequence[RaceLook]) -> GoingOn | None:
    """The bound that more studies would reach: the one that was asked for, or half of it where that is reached."""
    if not looks and results.ended_by == TIME_IS_UP:
        return _to_the_first_look(results)
    if not looks or looks[-1].look.choice is None or looks[-1].look.studies < FIRST_LOOK:
        return None
    last = looks[-1]
    goal = last.look
    reason = results.ended_by if rules.in_rounds else goal.decided or STUDIES_ARE_UP
    if reason == WITHIN:
        half = dataclasses.replace(material_of(results), rules=dataclasses.replace(rules, within=rules.within / 2))
        studies = {standing.contestant: standing.studies for standing in goal.standings}
        goal = take(half, studies, looks[:-1]).look
    elif reason not in (TIME_IS_UP, STUDIES_ARE_UP):
        return None
    return going_on(
        looks,
        goal,
        results.seconds_used,
        results.last_command(),
        fixed=not rules.in_rounds,
        limited=rules.minutes is not None,
    )


def _to_the_first_look(results: Results) -> GoingOn:
    """Twice the time: nobody knows how long what has not been begun will take."""
    minutes = math.ceil(results.seconds_used / 30)
    text = command_with(results.last_command(), {"--minutes": str(minutes)})
    sentence = f"More time goes on where it was: `{text}`."
    return GoingOn(results.rules().within, FIRST_LOOK, minutes - results.seconds_used / 60, text, sentence)


def going_on(
    looks: Sequence[RaceLook], goal: Look, seconds_used: float, command: Sequence[str], *, fixed: bool, limited: bool
) -> GoingOn | None:
    """``goal`` is the last look with the bound that is wanted; ``limited``: the race has a time limit.

    None where no number of studies would do, or nothing is left to decide.
    """
    more = goal.more_studies
    if not more or len(goal.racing) < 2:
        return None
    wanted = size(goal.within, goal).replace(".0 %", " %")
    share = wanted.replace(" ", "") if goal.relative else f"{goal.within:g}"
    if fixed:
        total = goal.studies + more
        text = command_with(command, {"--studies": str(total)})
        studies = "study" if more == 1 else "studies"
        sentence = f"About {more} more {studies} of each would make that {wanted}: `{text}` goes on."
        return GoingOn(goal.within, more, None, text, sentence)
    minutes = more * len(goal.racing) * seconds_per_study(looks) / 60
    if not 0.0 < minutes <= MOST_MINUTES:
        return None
    options = {} if goal.within == looks[-1].look.within else {"--within": share}
    if limited or not options:
        options["--minutes"] = f"{math.ceil(seconds_used / 60 + 1.1 * minutes)}"
    text = command_with(command, options)
    sentence = f"About {_minutes(minutes)} more would make that {wanted}: `{text}` goes on."
    return GoingOn(goal.within, more, minutes, text, sentence)


def why_not(looks: Sequence[RaceLook], ended_by: str) -> str | None:
    """Why nothing is proposed to a race that ended before its bound was small enough; None if there is no reason to."""
    if not looks or ended_by not in (TIME_IS_UP, STUDIES_ARE_UP):
        return None
    last, look = looks[-1], looks[-1].look
    if look.choice is None or look.decided is not None or look.more_studies is not None:
        return None
    wanted = size(look.within, look).replace(".0 %", " %")
    for standing in look.standings if last.quantity == TIME else ():
        missed = standing.studies - standing.reached
        if standing.racing and missed and (standing.gap or 0.0) < 0.0:
            return (
                f"More time would hardly make that {wanted}: {standing.contestant} is ahead where it reaches the "
                f"target, and missed it in {missed} of {standing.studies} studies. A race to an easier --target, with "
                "--anew, would decide between them."
            )
    return f"If they go on to differ and scatter like this, no number of studies would make that {wanted}."


def seconds_per_study(looks: Sequence[RaceLook]) -> float:
    """The time of one contestant's study, as many side by side as there were: from the second round on, as the first
    one measures steps.

    From the first where there is no other.
    """
    runs = [sum(standing.studies for standing in look.look.standings) for look in looks]
    if len(looks) > 1 and runs[-1] > runs[0]:
        return (looks[-1].seconds_used - looks[0].seconds_used) / (runs[-1] - runs[0])
    return looks[-1].seconds_used / max(1, runs[-1])


def command_with(command: Sequence[str], options: dict[str, str]) -> str:
    """The command that was given, with other values of some options; of an unknown one its beginning.

    >>> command_with(["race", "my net.py", "--minutes", "3", "--anew"], {"--minutes": "8"})
    "fallline race 'my net.py' --minutes 8"
    """
    given = " ".join(f"{name} {value}" for name, value in options.items())
    if not command or command[0] != "race":
        return f"fallline race … {given}"
    kept: list[str] = []
    skipped = False
    for word in command:
        name = word.partition("=")[0]
        if skipped or word == "--anew":
            skipped = False
        elif name in options or name == "--until":
            skipped = "=" not in word
        else:
            kept.append(word)
    return f"{shlex.join(['fallline', *kept])} {given}"


def _minutes(minutes: float) -> str:
    if minutes >= 90:
        return f"{minutes / 60:.1f} hours"
    whole = max(1, math.ceil(minutes))
    return "a minute" if whole == 1 else f"{whole} minutes"
