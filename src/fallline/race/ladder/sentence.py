"""A trend in one sentence: how an advantage changes along the ladder, and what can be said of the next rung."""

from __future__ import annotations

import enum
import math

from fallline.race.ladder.summary import TIME, Climb
from fallline.race.ladder.trend import Guess, Trend, noise_share
from fallline.workloads.loading import STEPS_AXIS

EVEN = math.log(1.05)
"""Times whose ratio is surely below this factor are called even."""
NOISY = 0.5
"""Where noise explains this share of the changes from rung to rung, more studies are the remedy."""
HALVES = (0.4, 0.6)


class Answer(enum.Enum):
    """What is known of a contestant beyond the last rung."""

    AHEAD = "ahead"
    BEHIND = "behind"
    EVEN = "even"
    UNKNOWN = "cannot know"


def answer(guess: Guess, climb: Climb) -> Answer:
    if guess.low > 0:
        return Answer.AHEAD
    if guess.high < 0:
        return Answer.BEHIND
    if climb.measure == TIME and guess.low > -EVEN and guess.high < EVEN:
        return Answer.EVEN
    return Answer.UNKNOWN


def sentence(climb: Climb, trend: Trend) -> str:
    """All of it, up to the farthest rung."""
    parts = [_along(climb, trend)]
    if trend.ahead:
        guess, rung = trend.ahead[-1], climb.ahead[-1]
        said = answer(guess, climb)
        even = said == Answer.EVEN or _is_even(climb, guess.mean)
        expected = "they are even" if even else f"expect {side(climb, guess.mean)}"
        parts.append(f"{place(climb, rung)} {expected}, {between(climb, guess)}")
        if said == Answer.UNKNOWN:
            parts[-1] += f", so who is ahead there cannot be known: {_reason(climb)}"
    return "; ".join(parts) + "."


def unknown_sentence(climb: Climb, name: str) -> str:
    return f"Whether {name} carries over cannot be known: {climb.unknown[name]}."


def _along(climb: Climb, trend: Trend) -> str:
    """From the first rung on which it was measured to the last."""
    (smallest, guess), *_, (largest, _) = climb.measured(trend)
    name, first, last = trend.contestant, guess.mean, trend.last.mean
    start, end = place(climb, smallest), place(climb, largest)
    if trend.change.low <= 0 <= trend.change.high:
        seen = f"{_beside(climb, last)} {end} ({_interval(climb, trend.last)})"
        return f"{name} is {seen}, and no trend can be seen"
    if _is_even(climb, first) or _is_even(climb, last) or (first > 0) != (last > 0):
        return f"{name} is {_beside(climb, first)} {start} and {side(climb, last)} {end}"
    what = "lead over" if last > 0 else "distance behind"
    ratio = (last / first) ** (1 / math.log2(largest / smallest))
    moves = "shrinks" if abs(last) < abs(first) else "grows"
    halves = ", about a half with every doubling" if HALVES[0] <= ratio <= HALVES[1] else ""
    return (
        f"{name}'s {what} {climb.reference} {moves} from {amount(climb, first)} {start} to "
        f"{amount(climb, last)} {end}{halves}"
    )


def _reason(climb: Climb) -> str:
    if noise_share(climb.known) >= NOISY:
        if climb.clock_share >= NOISY:
            return "step times are known too badly; `fallline results calibrate` measures them on a quieter machine"
        return "the studies scatter too much; more of them would say more"
    return "advantages change too irregularly from rung to rung; a race on that rung itself would say"


def place(climb: Climb, rung: float) -> str:
    """``at 4× the steps``; ``at width 2``."""
    return f"at {rung:.4g}× the steps" if climb.axis == STEPS_AXIS else f"at {climb.axis} {rung:.4g}"


def amount(climb: Climb, advantage: float) -> str:
    """Without its sign."""
    if climb.measure == TIME:
        return f"{abs(percent(advantage)):.0f} %"
    return f"{abs(advantage):.2g} {climb.measure}"


def percent(advantage: float) -> float:
    """How much longer the slower one takes, in percent; below 0 where the reference is faster."""
    return math.copysign(100 * math.expm1(abs(advantage)), advantage)


def side(climb: Climb, advantage: float) -> str:
    if _is_even(climb, advantage):
        return "even"
    return f"{amount(climb, advantage)} {'ahead' if advantage > 0 else 'behind'}"


def _beside(climb: Climb, advantage: float) -> str:
    """``7 % ahead of adamw``."""
    if _is_even(climb, advantage):
        return f"even with {climb.reference}"
    return f"{side(climb, advantage)} {'of ' if advantage > 0 else ''}{climb.reference}"


def _is_even(climb: Climb, advantage: float) -> bool:
    return amount(climb, advantage).startswith("0 ")


def between(climb: Climb, guess: Guess) -> str:
    return f"between {_interval(climb, guess, ' and ')}"


def _interval(climb: Climb, guess: Guess, joined: str = " to ") -> str:
    low, high = guess.low, guess.high
    if (low > 0) == (high > 0):
        near, far = sorted((low, high), key=abs)
        least = amount(climb, near).removesuffix(f" {climb.measure}")
        return f"{least}{joined}{side(climb, far)}"
    return f"{side(climb, low)}{joined}{side(climb, high)}"
