"""The result of a look in a few sentences: which one to take, what that may cost, and who is slower."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from fallline.race.clock.pace import STEPS
from fallline.race.verdict.looks import STUDIES_ARE_UP, TIME_IS_UP
from fallline.race.verdict.race_look import METRIC, SCORE, TIME, RaceLook
from fallline.score.decision import NOBODY, Look, Standing
from fallline.score.leaderboard import listed

BEST = {TIME: "the fastest", METRIC: "the best", SCORE: "the best"}
WORSE = {TIME: "slower", METRIC: "worse", SCORE: "worse"}
BETTER = {TIME: "faster", METRIC: "better", SCORE: "better"}

RELIABLE = "Such verdicts are wrong in at most 2 of 100 races."


def answer(
    looks: Sequence[RaceLook], ended_by: str, contestants: Sequence[str], unfit: Mapping[str, str] | None = None
) -> list[str]:
    """Lines: which one to take and what that may cost, who is slower and by how much, the other clock.

    ``unfit`` says of contestants why they could not be taken, however fast they are.
    """
    if not looks:
        return ["Time was up before everybody had run three studies: no choice yet."]
    last = looks[-1]
    if ended_by == NOBODY or last.look.choice is None:
        return ["Nobody reached the target: no choice."]
    if len(contestants) == 1:
        return [f"{last.look.choice} raced alone: there is nothing to compare."]
    found = unfit or {}
    left_out = [f"Left out: {listed([f'{name} ({why})' for name, why in found.items()])}."] if found else []
    parts = [
        " ".join(part for part in (choice_of(last, left=set(found)), _ending(last, ended_by)) if part),
        " ".join(part for part in (_slower(looks, set(found)), _behind(last), _either(last)) if part),
        *left_out,
        _other_clock(last),
        RELIABLE if last.look.bound is not None else "",
    ]
    return [part for part in parts if part]


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


def answer_to_question(last: RaceLook) -> list[str]:
    """The same of a question that was asked afterwards: a look with some of the contestants."""
    if last.look.choice is None:
        return ["None of these reached the target: no choice."]
    short = ""
    if last.look.decided is None and last.look.bound is not None:
        wanted = size(last.look.within, last.look).replace(".0 %", " %")
        more = last.look.more_studies
        studies = "study" if more == 1 else "studies"
        needed = "no number of studies would do" if more is None else f"about {more} more {studies} of each would do"
        short = f"That is not within {wanted}; {needed}."
    parts = [f"{choice_of(last)} {short}".strip(), " ".join(filter(None, (_slower([last], ()), _behind(last))))]
    return [part for part in [*parts, _either(last)] if part]


def answer_against(last: RaceLook) -> list[str]:
    """Whether others are better than one of them, and what staying with it may cost."""
    look, worse, better_word = last.look, WORSE[last.quantity], BETTER[last.quantity]
    by = f" in {last.clock}" if last.quantity == TIME else ""
    reference = str(look.choice)
    others = [s for s in look.standings if s.contestant != reference]
    better = [s for s in others if s.high is not None and s.high < 0.0]
    slower = [s for s in others if s.low is not None and s.low > 0.0 and s not in better]
    open_ = [s for s in others if s not in better and s not in slower]
    lines = []
    if better:
        told = [f"{s.contestant} by {_between(s, look)}" for s in better]
        lines.append(f"{better_word.capitalize()} than {reference}{by}: {listed(told)}.")
    else:
        lines.append(f"Nobody asked about is known to be {better_word} than {reference}{by}.")
    if slower:
        lines.append(f"{worse.capitalize()}: {listed([f'{s.contestant} by {_between(s, look)}' for s in slower])}.")
    if open_:
        lines.append(f"Not known: {listed([_open(s, look) for s in open_])}.")
    if look.bound is None:
        lines.append(f"Nothing bounds what staying with {reference} may cost.")
    elif not better:
        cost = f"at most {size(look.bound, look)} {worse} than {BEST[last.quantity]} of these"
        lines.append(f"Stay with {reference}, and it is {cost}.")
    else:
        lines.append(f"Staying with {reference} may cost up to {size(look.bound, look)}.")
    return lines


def choice_of(last: RaceLook, left: Collection[str] = ()) -> str:
    """The first sentence: which one to take, and its cost."""
    look = last.look
    by = f" in {last.clock}" if last.quantity == TIME else ""
    worse = WORSE[last.quantity]
    among = f"of these {sum(s.contestant not in left for s in look.standings)} it is {BEST[last.quantity]}{by}"
    if len(look.racing) == 1 or look.bound == 0.0:
        return f"Take {look.choice}: {among}."
    if look.bound is None:
        return f"{look.choice} leads, but nothing is known yet of what that may cost."
    return f"Take {look.choice}: {among}, or at most {size(look.bound, look)} {worse} than {BEST[last.quantity]}."


def _ending(last: RaceLook, ended_by: str) -> str:
    """Why it ended before the bound was small enough; empty if it is."""
    if ended_by not in (TIME_IS_UP, STUDIES_ARE_UP) or last.look.decided is not None:
        return ""
    wanted = size(last.look.within, last.look).replace(".0 %", " %")
    if ended_by == TIME_IS_UP:
        return f"Time was up before that was {wanted}."
    return f"{last.look.studies} studies do not make that {wanted}."


def _slower(looks: Sequence[RaceLook], unfit: Collection[str]) -> str:
    """Those that left: how far they are behind, or that they did not get anywhere."""
    last = looks[-1]
    out = [s for s in last.look.standings if not s.racing and s.contestant not in unfit]
    broken = [s for s in out if s.crashed == s.studies]
    missed = [s for s in out if s.reached == 0 and s not in broken]
    slower = [s for s in out if s not in broken and s not in missed]
    parts, worse = [], WORSE[last.quantity].capitalize()
    found = [when_it_left(looks, standing.contestant) for standing in slower]
    known = [standing for standing in found if standing.low is None or standing.low > 0.0]
    if known:
        parts.append(f"{worse} than it: {listed([_how_far(standing, last.look) for standing in known])}.")
    # Found to be slower than who led then, which the choice of now may be as well.
    others = [_interval(standing, last) for standing in found if standing not in known]
    if others:
        parts.append(f"{worse} than an earlier leader, and out: {listed(others)}.")
    if missed:
        parts.append(f"Without a target in any study: {listed([s.contestant for s in missed])}.")
    if broken:
        parts.append(f"Could not be trained: {listed([s.contestant for s in broken])}.")
    return " ".join(parts)


def when_it_left(looks: Sequence[RaceLook], contestant: str) -> Standing:
    """Its standing at the look that it left at, if the choice is still the same; later looks are stricter."""
    last = looks[-1].look
    found = last.standing(contestant)
    then = next((look.look for look in looks if look.look.number == found.out_at), last)
    return then.standing(contestant) if then.choice == last.choice else found


def _how_far(standing: Standing, look: Look) -> str:
    if standing.gap is None or standing.gap <= 0.0:
        return standing.contestant
    some = standing.reached < standing.studies
    by = f"{standing.contestant} by {'at least ' if some else ''}{size(standing.gap, look)}"
    if standing.low is None or standing.high is None or standing.low <= 0.0 or some:
        return by
    return f"{by} ({span(standing.low, standing.high, look)})"


def span(low: float, high: float, look: Look) -> str:
    first, second = size(low, look), size(high, look)
    return f"{first.removesuffix(' %')} to {second}"


def _behind(last: RaceLook) -> str:
    look = last.look
    others = [s for s in look.standings if s.racing and s.contestant != look.choice and s.gap is not None]
    return f"{listed([_interval(s, last) for s in others])}." if others else ""


def _interval(standing: Standing, last: RaceLook) -> str:
    """A miss counts as the budget here, which is the least that its time can be."""
    look, missed = last.look, standing.studies - standing.reached
    if standing.gap is None:
        return f"{standing.contestant} at an unknown distance"
    side = "behind" if standing.gap >= 0.0 else "ahead"
    ends, found = "", interval_of(standing, look)
    if found is not None:
        ends = f" ({_side(found[0], look)} to {_side(found[1], look)})"
    name, limit = standing.contestant, ""
    if missed and last.quantity == TIME:
        name = f"{name}, which missed the target in {missed} of {standing.studies} studies,"
        limit = "at least " if standing.gap >= 0.0 else "at most "
    return f"{name} is {limit}{size(abs(standing.gap), look)} {side}{ends}"


def _side(gap: float, look: Look) -> str:
    return f"{size(abs(gap), look)} {'behind' if gap >= 0.0 else 'ahead'}"


def interval_of(standing: Standing, look: Look) -> tuple[float, float] | None:
    """How far behind the choice it may be: nobody in contention is ahead of it by more than the bound."""
    if standing.low is None or standing.high is None:
        return None
    least = -math.inf if look.bound is None or not standing.racing else -look.bound
    return max(standing.low, least), standing.high


def _either(last: RaceLook) -> str:
    pairs = [pair for pair in last.look.either if last.look.choice in pair]
    if not pairs:
        return ""
    others = [name for pair in pairs for name in pair if name != last.look.choice]
    less = size(last.look.within, last.look).replace(".0 %", " %")
    return f"{listed([str(last.look.choice), *others])} differ by less than {less}: take either."


def _other_clock(last: RaceLook) -> str:
    """The bound in seconds where step times are too uncertain to decide by; nothing where seconds decided."""
    if last.quantity != TIME or last.other is None or last.other_clock is None or last.clock == last.other_clock:
        return ""
    if last.clock != STEPS or last.clock_error is None:
        return ""
    known = f"step times are known to ± {100 * last.clock_error:.1f} % on this busy machine"
    if last.other.bound is None:
        return f"In {last.other_clock} nothing bounds it: {known}."
    return f"In {last.other_clock} it may be up to {size(last.other.bound, last.other)} slower: {known}."


def _between(standing: Standing, look: Look) -> str:
    assert standing.gap is not None and standing.low is not None and standing.high is not None
    ends = sorted((abs(standing.low), abs(standing.high)))
    return f"{size(abs(standing.gap), look)} ({span(ends[0], ends[1], look)})"


def _open(standing: Standing, look: Look) -> str:
    if standing.gap is None or standing.low is None or standing.high is None:
        return standing.contestant
    ahead, behind = size(max(0.0, -standing.low), look), size(max(0.0, standing.high), look)
    side = "ahead" if standing.gap < 0 else "behind"
    return f"{standing.contestant}, {size(abs(standing.gap), look)} {side} ({ahead} ahead to {behind} behind)"
