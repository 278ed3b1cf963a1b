"""Every trend is one sentence, with a reason where nothing can be known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.race.ladder.document import figure, table
from fallline.race.ladder.sentence import Answer, answer, percent, sentence, unknown_sentence
from fallline.race.ladder.summary import TIME, Climb, beyond
from fallline.race.ladder.trend import Advantages, Guess, Trend

RUNGS = (0.5, 1.0, 2.0)


def ratio(percents: float) -> float:
    """The advantage of so many percent."""
    return math.copysign(math.log1p(abs(percents) / 100), percents)


def guess(mean: float, low: float, high: float) -> Guess:
    return Guess(ratio(mean), ratio(low), ratio(high), 0.5)


def climb(
    means: tuple[float, ...], ahead: Guess, *, moves: bool = True, noise: float | None = None, **changes: object
) -> tuple[Climb, Trend]:
    rungs = tuple(guess(mean, mean - 3, mean + 3) for mean in means)
    change = Guess(0.1, 0.05, 0.2, 1.0) if moves else Guess(0.0, -0.1, 0.1, 0.5)
    trend = Trend("adan", rungs, change, (ahead,))
    known = Advantages(
        ("adan",), RUNGS, np.array([[ratio(m) for m in means]]), None if noise is None else noise**2 * np.eye(3)
    )
    values: dict[str, object] = {
        "axis": "steps",
        "rungs": RUNGS,
        "workloads": ("chars×0.5", "chars×1", "chars×2"),
        "reference": "adamw",
        "measure": TIME,
        "clock": "steps",
        "known": known,
        "trends": (trend,),
        "ahead": (4.0,),
        "unknown": {},
        "missed": {},
        "clock_share": 0.0,
        **changes,
    }
    return Climb(**values), trend  # type: ignore[arg-type]


def test_a_lead_that_halves() -> None:
    text = sentence(*climb((28, 14, 7), guess(3, -6, 12)))
    assert text == (
        "adan's lead over adamw shrinks from 28 % at 0.5× the steps to 7 % at 2× the steps, about a half with every "
        "doubling; at 4× the steps expect 3 % ahead, between 6 % behind and 12 % ahead, so who is ahead there cannot "
        "be known: advantages change too irregularly from rung to rung; a race on that rung itself would say."
    )


def test_a_distance_that_grows_and_stays_behind() -> None:
    assert sentence(*climb((-10, -12, -15), guess(-17, -25, -9))) == (
        "adan's distance behind adamw grows from 10 % at 0.5× the steps to 15 % at 2× the steps; at 4× the steps "
        "expect 17 % behind, between 9 % and 25 % behind."
    )


def test_a_contestant_that_overtakes() -> None:
    assert sentence(*climb((-8, 0, 9), guess(12, 2, 22))).startswith(
        "adan is 8 % behind adamw at 0.5× the steps and 9 % ahead at 2× the steps; at 4× the steps expect 12 % ahead,"
    )


def test_no_trend_and_even() -> None:
    text = sentence(*climb((1, 0, 0), guess(0, -4, 4), moves=False))
    assert text.startswith(
        "adan is even with adamw at 2× the steps (3 % behind to 3 % ahead), and no trend can be seen;"
    )
    assert text.endswith("at 4× the steps they are even, between 4 % behind and 4 % ahead.")


def test_noise_is_named_where_it_is_the_reason() -> None:
    text = sentence(*climb((9, 7, 8), guess(7, -6, 19), moves=False, noise=0.1))
    assert text.endswith("cannot be known: the studies scatter too much; more of them would say more.")
    busy = sentence(*climb((9, 7, 8), guess(7, -6, 19), moves=False, noise=0.1, clock_share=0.9))
    assert "cannot be known: step times are known too badly; `fallline results calibrate`" in busy


def test_sizes_and_metrics_have_their_own_words() -> None:
    ahead = Guess(0.031, 0.01, 0.05, 1.0)
    found, trend = climb((2, 3, 3), ahead, axis="width", measure="cross-entropy")
    assert "at width 2" in sentence(found, trend)
    assert sentence(found, trend).endswith(
        "at width 4 expect 0.031 cross-entropy ahead, between 0.01 and 0.05 cross-entropy ahead."
    )


def test_a_contestant_without_results_is_told_with_the_reason() -> None:
    found, _ = climb((1, 1, 1), guess(1, 0.5, 2), unknown={"sgd": "it has no result in most studies of chars×2"})
    assert unknown_sentence(found, "sgd") == (
        "Whether sgd carries over cannot be known: it has no result in most studies of chars×2."
    )
    assert table(found).texts[-1] == ["sgd", "–", "–", "–", "–", "cannot know"]


@pytest.mark.parametrize(
    ("ahead", "said"),
    [
        (guess(9, 2, 20), Answer.AHEAD),
        (guess(-9, -20, -1), Answer.BEHIND),
        (guess(1, -4, 4), Answer.EVEN),
        (guess(1, -6, 4), Answer.UNKNOWN),
    ],
)
def test_answers(ahead: Guess, said: Answer) -> None:
    found, trend = climb((1, 1, 1), ahead)
    assert answer(trend.ahead[0], found) is said


def test_percent_says_how_much_longer_the_slower_one_takes() -> None:
    assert percent(math.log(1.25)) == pytest.approx(25) and percent(-math.log(1.25)) == pytest.approx(-25)


def test_how_far_ahead() -> None:
    assert beyond([0.5, 1, 2]) == (4.0,) and beyond([1, 2]) == pytest.approx((2.8284,), abs=1e-3)


def test_the_figure_extends_every_line_from_its_last_rung() -> None:
    found, _ = climb((28, 14, 7), guess(3, -6, 12))
    solid, dashed = figure(found).series
    assert (solid.extends, dashed.extends) == (False, True)
    assert solid.x[-1] == dashed.x[0] == 1.0 and dashed.x[-1] == 2.0
    assert solid.y[-1] == dashed.y[0] == pytest.approx(7) and dashed.low is not None
    assert dashed.low[-1] == pytest.approx(-6) and list((figure(found).x.ticks or {}).values()) == [
        "0.5×",
        "1×",
        "2×",
        "4×",
    ]
