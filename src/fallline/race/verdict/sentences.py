"""The answer of a race in rounds, in a few sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fallline.race.verdict.looks import STUDIES_ARE_UP, TIME_IS_UP
from fallline.race.verdict.race_look import METRIC, SCORE, TIME, RaceLook
from fallline.score.decision import NOBODY, Look, Standing
from fallline.score.leaderboard import listed

BEST = {TIME: "the fastest", METRIC: "the best", SCORE: "the best"}
WORSE = {TIME: "slower", METRIC: "worse", SCORE: "worse"}


def answer(looks: Sequence[RaceLook], ended_by: str, contestants: Sequence[str]) -> str:
    """Which one to take, what that may cost, and who is slower."""
    if not looks:
        return "Time was up before everybody had run three studies: no choice yet; more --minutes go on."
    last = looks[-1]
    if ended_by == NOBODY or last.look.choice is None:
        return "Nobody reached the target: no choice."
    if len(contestants) == 1:
        return f"{last.look.choice} raced alone: there is nothing to compare."
    parts = [_choice(last, ended_by), _slower(last), _behind(last)]
    if ended_by in (TIME_IS_UP, STUDIES_ARE_UP):
        parts.insert(0, "Time is up." if ended_by == TIME_IS_UP else f"{last.look.studies} studies do not decide it.")
    return " ".join(part for part in parts if part)


def look_line(last: RaceLook) -> str:
    """One line for whoever watches the race."""
    look = last.look
    head = f"After {look.studies} studies each"
    if look.choice is None:
        return f"{head}: nobody has reached the target"
    left = [standing.contestant for standing in look.standings if standing.out_at == look.number]
    leave = f"; {WORSE[last.quantity]}, and out: {', '.join(left)}" if left else ""
    if look.bound is None:
        return f"{head}: {look.choice} leads{leave}"
    most = f", at most {size(look.bound, look)} {WORSE[last.quantity]} than {BEST[last.quantity]}"
    return f"{head}: {look.choice} leads{most if len(look.racing) > 1 else ''}{leave}"


def size(gap: float, look: Look) -> str:
    """A distance as it is read: percent of a time, or points of a score.

    A logarithm of a ratio is turned into percent: ln 1.05 is 5 %.
    """
    if not look.relative:
        return f"{gap:.2f}"
    percent = 100 * math.expm1(gap)
    return f"{percent:.0f} %" if abs(percent) >= 9.95 else f"{percent:.1f} %"


def _choice(last: RaceLook, ended_by: str) -> str:
    look = last.look
    by = f" in {last.clock}" if last.quantity == TIME else ""
    worse = WORSE[last.quantity]
    among = f"of these {len(look.standings)} it is {BEST[last.quantity]}{by}"
    if len(look.racing) == 1:
        return f"Take {look.choice}: {among}."
    if look.bound is None:
        return f"{look.choice} leads, but nothing is known yet of what that may cost."
    cost = f"at most {size(look.bound, look)} {worse} than {BEST[last.quantity]}"
    if ended_by in (TIME_IS_UP, STUDIES_ARE_UP):
        return f"{look.choice} leads{by}, and is {cost}."
    return f"Take {look.choice}: {among}, or {cost}."


def _slower(last: RaceLook) -> str:
    out = [standing.contestant for standing in last.look.standings if not standing.racing]
    return f"{WORSE[last.quantity].capitalize()} than it: {listed(out)}." if out else ""


def _behind(last: RaceLook) -> str:
    others = [s for s in last.look.standings if s.racing and s.contestant != last.look.choice and s.gap is not None]
    return f"{listed([_interval(s, last.look) for s in others])}." if others else ""


def _interval(standing: Standing, look: Look) -> str:
    assert standing.gap is not None
    ends = ""
    if standing.low is not None and standing.high is not None:
        low = f"{size(-standing.low, look)} ahead" if standing.low < 0 else f"{size(standing.low, look)} behind"
        ends = f" ({low} to {size(standing.high, look)} behind)"
    return f"{standing.contestant} is {size(standing.gap, look)} behind{ends}"
