"""Scores over several workloads as evidence."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.score.decision import Scores, take_look
from fallline.score.decision.evidence import WEIGHT
from fallline.score.decision.several import scores_of
from fallline.score.times import StudyTimes

GENERATOR = np.random.default_rng(2)


def table(**times: dict[str, list[float]]) -> StudyTimes:
    cells = {(name, w): dict(enumerate(row)) for name, rows in times.items() for w, row in rows.items()}
    return StudyTimes(tuple(times), tuple(dict.fromkeys(w for _, w in cells)), {}, cells)


def scattered(scale: float, studies: int = 5) -> list[float]:
    return (scale * np.exp(GENERATOR.normal(0.0, 0.05, studies))).tolist()


def test_scores_are_means_over_workloads_of_studies() -> None:
    scores = scores_of(table(a={"v": [1.0, 1.0], "w": [2.0, 4.0]}, b={"v": [2.5, 4.0], "w": [2.0, math.inf]}))
    # The smallest medians are 1 on v and 3 on w.
    assert scores.values["a"]["v"].tolist() == [1.0, 1.0]
    assert scores.values["b"]["v"].tolist() == pytest.approx([0.5, 0.0])
    assert scores.values["b"]["w"].tolist() == pytest.approx([(4 - 2 / 3) / 3, 0.0])
    assert scores.best(["a", "b"]) == "a" and scores.count("b").reached == 1


def test_a_difference_is_the_arithmetic_it_says() -> None:
    scores = scores_of(
        table(a={"v": scattered(1.0), "w": scattered(1.0)}, b={"v": scattered(1.5), "w": scattered(1.2)})
    )
    found = scores.difference("b", "a")
    assert found is not None
    variance, spread, gap = 0.0, 0.0, 0.0
    for w in ("v", "w"):
        cells = [scores.values[name][w] for name in "ab"]
        pooled = sum(cell.var(ddof=1) * 4 for cell in cells) / 8
        gap += (cells[0].mean() - cells[1].mean()) / 2
        for cell in cells:
            part = (WEIGHT * pooled + cell.var(ddof=1) * 4) / (WEIGHT + 4) / 5 / 2**2
            variance += part
            spread += part**2 / min(WEIGHT + 4, 8)
    assert found.gap == pytest.approx(gap)
    assert found.error() == pytest.approx(math.sqrt(variance))
    assert found.freedom == pytest.approx(variance**2 / spread)


def test_a_cell_that_was_always_missed_is_not_known_exactly() -> None:
    scores = scores_of(table(a={"v": scattered(1.0)}, b={"v": scattered(1.1)}, never={"v": [math.inf] * 5}))
    found = scores.difference("never", "a")
    assert found is not None and found.error() > 0.0
    assert take_look(scores).standings[-1].contestant == "never"


def test_a_workload_on_which_nobody_varies_has_the_noise_of_the_others() -> None:
    values = {
        "a": {"v": np.ones(3), "w": np.array([0.9, 1.0, 0.8])},
        "b": {"v": np.zeros(3), "w": np.array([0.5, 0.6, 0.7])},
    }
    both, alone = Scores(values).difference("b", "a"), Scores({n: {"w": c["w"]} for n, c in values.items()})
    assert both is not None
    other = alone.difference("b", "a")
    assert other is not None and both.error() == pytest.approx(other.error() / math.sqrt(2), rel=0.2)


def test_one_clearly_worse_leaves_and_the_bound_is_in_points() -> None:
    look = take_look(
        scores_of(
            table(
                a={"v": scattered(1.0), "w": scattered(1.0)},
                b={"v": scattered(1.02), "w": scattered(0.98)},
                slow={"v": scattered(3.0), "w": scattered(2.5)},
            )
        )
    )
    assert look.out == {"slow": 1} and not look.relative and look.within == 0.05
    assert look.bound is not None and 0.0 < look.bound < 0.2


def test_errors_of_step_times_are_errors_of_scores() -> None:
    times = table(a={"v": [1.0, 1.1, 1.2]}, b={"v": [2.0, 2.2, 2.4]})
    exact = scores_of(times).difference("b", "a")
    loose = scores_of(StudyTimes(times.contestants, times.workloads, {}, times.cells, pace_errors={("b", "v"): 0.03}))
    found = loose.difference("b", "a")
    assert exact is not None and found is not None and exact.fixed == 0.0
    assert math.sqrt(found.fixed) == pytest.approx(0.03 * (2.2 / 1.1) / 3, rel=1e-6)


def test_nobody_scored_is_no_choice() -> None:
    look = take_look(scores_of(table(a={"v": [math.inf] * 3}, b={"v": [math.inf] * 3})))
    assert look.choice is None and look.bound is None
