"""AlgoPerf's logs as a race: when it was known which of two is better."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.score.algoperf import TARGETS
from fallline.score.decision.several import scores_of
from fallline.score.known_pairs import Known, Replay, Stage, pairs_apart, replay
from fallline.score.logs import Trial
from fallline.score.separation import compare_all
from fallline.score.times import StudyTimes, from_logs


def trial(submission: str, study: int, number: int, hours: float, reached_at: float | None) -> Trial:
    """Two evaluations: at the target's time, and at the end."""
    target = TARGETS["fastmri"].value
    seconds = np.array([reached_at or hours * 1800.0, hours * 3600.0])
    metric = np.array([target if reached_at else 0.0, target if reached_at else 0.0])
    return Trial(submission, study, "fastmri", number, seconds, np.array([1.0, 2.0]), metric, hours, hours)


def test_hours_of_trials_that_end_in_time_stop_at_the_study_and_at_four_times_the_fastest() -> None:
    trials = [
        trial("quick", 0, 1, 2.0, 3600.0),
        trial("quick", 0, 2, 2.0, None),
        trial("quick", 1, 1, 2.0, 3600.0),
        trial("never", 0, 1, 9.0, None),
        trial("never", 1, 1, 3.0, None),
    ]
    (stage,) = replay(trials, from_logs(trials, held_out=False)).stages
    assert stage.hours == pytest.approx(2 + 2 + 2 + 9 + 3)
    # One hour each of the three quick ones; four hours, and the three that there were, of the others.
    assert stage.lockstep_hours == pytest.approx(3 * 1.0 + 4.0 + 3.0)
    assert stage.share == 1.0 and stage.lockstep_share == pytest.approx(10 / 18)


def test_what_was_called_the_other_way_round_is_told() -> None:
    def stage(*known: Known) -> Stage:
        return Stage(2, 1.0, 1.0, 0.5, 0.5, known, (), ())

    right, wrong = Known("a", "b"), Known("b", "a")
    assert Replay((stage(right),), (right,)).reversed == ()
    found = Replay((stage(wrong), stage(right)), (right,))
    assert found.reversed == (wrong,) and "1 were reversed" in found.sentence
    never = Replay((stage(),), (right,))
    assert never.all_known_at() is None and never.sentence.startswith("Not all of the 1 pairs")
    assert Replay((), ()).sentence.startswith("All studies together separate no two")


def table(generator: np.random.Generator, gaps: list[float], studies: int, workloads: int = 1) -> StudyTimes:
    names = tuple("abcdefgh"[: len(gaps)])
    cells = {
        (name, f"w{w}"): dict(enumerate(np.exp(gap + generator.normal(0.0, 0.07, studies)).tolist()))
        for name, gap in zip(names, gaps, strict=True)
        for w in range(workloads)
    }
    return StudyTimes(names, tuple(f"w{w}" for w in range(workloads)), {}, cells)


@pytest.mark.parametrize(("studies", "workloads"), [(7, 1), (10, 1), (5, 4)])
def test_the_common_noise_and_the_exchange_test_agree_where_both_can_speak(studies: int, workloads: int) -> None:
    """From seven studies on: neither calls a pair the other way round, and they mostly say the same."""
    generator = np.random.default_rng([studies, workloads])
    same, both, either = 0, 0, 0
    for _ in range(60):
        gaps = generator.normal(0.0, 0.15, 4).tolist()
        times = table(generator, gaps, studies, workloads)
        noise = {pair for pair, p in pairs_apart(scores_of(times)).items() if p <= 0.02}
        exchanged = set()
        for pair in compare_all(times):
            if pair.separated:
                exchanged.add(Known(pair.better, pair.second if pair.better == pair.first else pair.first))
        assert not {Known(pair.worse, pair.better) for pair in exchanged} & noise
        both += len(noise & exchanged)
        either += len(noise | exchanged)
        same += 6 - len(noise ^ exchanged)
    assert both > 30, "this compares nothing"
    assert same >= 0.85 * 6 * 60 and both >= 0.7 * either


def test_twins_are_rarely_called_different_by_either() -> None:
    generator = np.random.default_rng(11)
    noise = exchanged = 0
    for _ in range(200):
        times = table(generator, [0.0] * 3, 7)
        noise += any(p <= 0.02 for p in pairs_apart(scores_of(times)).values())
        exchanged += any(pair.separated for pair in compare_all(times))
    assert noise <= 10 and exchanged <= 10, "2 % of 200 are 4; three standard errors more are 10"


def test_without_noise_a_difference_is_known_and_equals_are_not_apart() -> None:
    cells = {("a", "w"): {0: 1.0, 1: 1.0}, ("b", "w"): {0: 2.0, 1: 2.0}, ("c", "w"): {0: 2.0, 1: 2.0}}
    found = pairs_apart(scores_of(StudyTimes(("a", "b", "c"), ("w",), {}, cells)))
    assert found[Known("a", "b")] == 0.0 and found[Known("b", "c")] == 1.0
    assert all(not math.isnan(p) for p in found.values())
