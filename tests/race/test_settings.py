"""Settings that won, what other rates cost, and what going on would buy."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from fallline.race.contestants import Contestant
from fallline.race.results import Row
from fallline.race.verdict.going_on import command_with, going_on, seconds_per_study, why_not
from fallline.race.verdict.looks import TIME_IS_UP, take
from fallline.race.verdict.race_look import RaceLook
from fallline.race.verdict.sentences import answer
from fallline.race.verdict.settings import rate_costs, settings_of
from fallline.score.decision import WITHIN
from tests.race.test_looks import material, scatter

TUNED = Contestant("a", "adamw", {"weight_decay": 0.1}, {"lr": {"min": 1e-4, "max": 1e-1}})


def row(study: int, number: int, lr: float, reached: float | None, steps: int = 100, **point: Any) -> Row:
    made = {"lr": lr, "weight_decay": 0.1, **point}
    whole = None if reached is None else int(reached)
    return Row(
        100 * study + number, "race", "w", "a", study, number, 0, made, 100, "reached" if reached else "over budget",
        whole or steps, whole, None, 1.0, 0.0, 1, None,
    )  # fmt: skip


def steps_of(trial: Row) -> float:
    return math.inf if trial.steps_to_target is None else float(trial.steps_to_target)


def test_the_setting_that_won_most_studies_is_told_with_how_often() -> None:
    rows = [row(0, 1, 0.01, 50), row(0, 2, 0.02, 60), row(1, 1, 0.01, 55), row(1, 2, 0.02, None)]
    rows += [row(2, 1, 0.01, 70), row(2, 2, 0.03, 40)]
    found = settings_of([TUNED], rows, steps_of, tuned=True, timed=True)["a"]
    assert found.point["lr"] == 0.01 and (found.won, found.studies) == (2, 3) and found.rates == (0.01, 0.03)
    assert found.code is not None and "lr=0.01" in found.code and found.steps == 100
    assert found.sentence is not None
    assert found.sentence.startswith(
        "Settings: the fastest trial of 2 of 3 studies; fastest trials had an lr from 0.01"
    )


def test_nothing_is_said_of_winning_where_there_is_one_setting() -> None:
    found = settings_of([TUNED], [row(0, 1, 0.01, 50), row(1, 1, 0.01, 40)], steps_of, tuned=True, timed=True)["a"]
    assert not found.tuned and found.sentence is None and found.rate_costs == ()


def test_other_rates_cost_what_their_trials_took_at_least_where_they_missed() -> None:
    rows = [row(0, 1, 0.01, 40), row(1, 1, 0.011, 40), row(0, 2, 0.02, 60), row(1, 2, 0.021, 60)]
    rows += [row(0, 3, 0.005, None), row(1, 3, 0.005, None), row(2, 3, 0.005, 90)]
    twice, half = rate_costs(rows, steps_of, {"lr": 0.01})
    assert (twice.factor, twice.trials, twice.at_least) == (2.0, 2, False) and math.exp(twice.gap) == pytest.approx(1.5)
    assert (half.factor, half.trials, half.at_least) == (0.5, 3, True) and math.exp(half.gap) == pytest.approx(2.5)
    assert rate_costs(rows[:3], steps_of, {"lr": 0.01}) == (), "one trial says nothing"


def test_the_command_that_goes_on_keeps_the_rest() -> None:
    given = ["race", "my net.py", "-o", "a,b", "--minutes=3", "--until", "leader", "--anew", "-j", "1"]
    assert command_with(given, {"--minutes": "8"}) == "fallline race 'my net.py' -o a,b -j 1 --minutes 8"
    assert command_with([], {"--minutes": "8"}) == "fallline race … --minutes 8"


def test_more_time_is_counted_by_what_studies_took_after_the_first_round() -> None:
    times = {"a": scatter(400, sigma=0.1), "b": scatter(401, sigma=0.1)}
    made = material(times)
    first = take(made, dict.fromkeys(times, 3), (), seconds_used=60.0)
    second = take(made, dict.fromkeys(times, 4), [first], seconds_used=80.0)
    looks = [first, second]
    assert seconds_per_study(looks) == pytest.approx(10.0) and seconds_per_study([first]) == pytest.approx(10.0)
    goal = second.look
    assert goal.more_studies
    found = going_on(looks, goal, 80.0, ["race", "--minutes", "1"], fixed=False, limited=True)
    assert found is not None and found.minutes == pytest.approx(goal.more_studies * 2 * 10 / 60)
    wanted = math.ceil(80 / 60 + 1.1 * found.minutes)
    assert found.sentence.endswith(f"more would make that 5 %: `fallline race --minutes {wanted}` goes on.")
    fixed = going_on(looks, goal, 0.0, ["race", "--studies", "4"], fixed=True, limited=False)
    assert fixed is not None and fixed.command == f"fallline race --studies {4 + goal.more_studies}"


def test_who_missed_the_target_says_so_and_why_more_time_would_not_help() -> None:
    times = {"steady": scatter(400, 5, 0.02), "lucky": [200.0, 200.0, 210.0, math.inf, math.inf]}
    look = take(material(times), dict.fromkeys(times, 5), (), seconds_used=60.0)
    standing = dataclasses.replace(look.look.standing("lucky"), gap=-0.1, low=-0.4, high=0.2, out_at=None)
    steady = dataclasses.replace(look.look.standing("steady"), gap=0.0, low=0.0, high=0.0, out_at=None)
    changes = {"choice": "steady", "standings": (steady, standing), "bound": 0.4, "decided": None, "more_studies": None}
    last = dataclasses.replace(look, look=dataclasses.replace(look.look, **changes))
    said = " ".join(answer([last], TIME_IS_UP, list(times)))
    assert "lucky, which missed the target in 2 of 5 studies, is at most 11 % ahead" in said
    reason = why_not([last], TIME_IS_UP)
    assert reason is not None and "lucky is ahead where it reaches the target, and missed it in 2 of 5" in reason
    assert why_not([last], WITHIN) is None and why_not([], TIME_IS_UP) is None
    alike = dataclasses.replace(standing, reached=5)
    scattered = dataclasses.replace(last, look=dataclasses.replace(last.look, standings=(steady, alike)))
    assert "no number of studies" in (why_not([scattered], TIME_IS_UP) or "")
    short = dataclasses.replace(last, look=dataclasses.replace(last.look, more_studies=3))
    assert why_not([short], TIME_IS_UP) is None, "a command is proposed instead"


def test_who_left_behind_another_leader_is_not_called_slower_than_the_choice() -> None:
    times = {"a": scatter(400, 4), "b": scatter(410, 4), "out": scatter(500, 4)}
    first = take(material(times), dict.fromkeys(times, 3), (), seconds_used=60.0)
    second = take(material(times), dict.fromkeys(times, 4), [first], seconds_used=80.0)

    def with_gap(low: float) -> RaceLook:
        kept = [dataclasses.replace(second.look.standing(n), gap=0.0, low=0.0, high=0.0, out_at=None) for n in "ab"]
        gone = dataclasses.replace(second.look.standing("out"), gap=0.2, low=low, high=0.4, out_at=1)
        return dataclasses.replace(
            second, look=dataclasses.replace(second.look, choice="b", standings=(*kept[::-1], gone))
        )

    before = dataclasses.replace(first, look=dataclasses.replace(first.look, choice="a"))
    unsure = " ".join(answer([before, with_gap(-0.1)], TIME_IS_UP, list(times)))
    assert "Slower than it" not in unsure
    assert "Slower than an earlier leader, and out: out is 22 % behind (11 % ahead to 49 % behind)." in unsure
    sure = " ".join(answer([before, with_gap(0.1)], TIME_IS_UP, list(times)))
    assert "Slower than it: out by 22 % (11 to 49 %)." in sure
