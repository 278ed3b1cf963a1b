"""Times to target, the fastest trial of a study, and the rules of v0.5, on numbers done by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from fallline.score import profiles
from fallline.score.algoperf import HIGHER_IS_BETTER, LOWER_IS_BETTER, TARGETS, Target
from fallline.score.logs import read
from fallline.score.times import StudyTimes, from_logs, index_reached, study_time
from tests.score import reach, write_log

INF = math.inf


def test_every_metric_of_the_targets_has_one_direction() -> None:
    assert {target.metric for target in TARGETS.values()} <= LOWER_IS_BETTER | HIGHER_IS_BETTER
    assert not LOWER_IS_BETTER & HIGHER_IS_BETTER


@pytest.mark.parametrize("metric", ["loss", "wer", "error_rate"])
def test_lower_is_better_where_it_is(metric: str) -> None:
    assert [Target(metric, 0.5).reached(v) for v in (0.4, 0.5, 0.6, math.nan)] == [True, True, False, False]


@pytest.mark.parametrize("metric", ["ssim", "mean_average_precision", "bleu", "accuracy"])
def test_higher_is_better_where_it_is(metric: str) -> None:
    assert [Target(metric, 0.5).reached(v) for v in (0.4, 0.5, 0.6, math.nan)] == [False, True, True, False]


def test_first_evaluation_at_the_target_counts_and_nan_does_not(tmp_path: Path) -> None:
    write_log(tmp_path, "a", 0, "ogbg", 1, seconds=[1.0, 2.0, 3.0, 4.0], values=["nan", "", 0.3, 0.9])
    (trial,) = read(tmp_path).trials
    assert index_reached(trial, TARGETS["ogbg"]) == 2
    assert study_time([trial], TARGETS["ogbg"]) == 3.0


def test_fastest_trial_is_the_smallest_time_and_in_compat_the_fewest_evaluations(tmp_path: Path) -> None:
    write_log(tmp_path, "a", 0, "wmt", 1, seconds=[5.0, 10.0], values=[0.0, 31.0])
    write_log(tmp_path, "a", 0, "wmt", 2, seconds=[2.0, 4.0, 6.0], values=[0.0, 0.0, 31.0])
    trials = read(tmp_path).trials
    assert study_time(trials, TARGETS["wmt"]) == 6.0
    assert study_time(trials, TARGETS["wmt"], compat=True) == 10.0


def test_median_over_studies_includes_misses(tmp_path: Path) -> None:
    for study, at in enumerate([10.0, None, 30.0, 20.0, None]):
        reach(tmp_path, "a", study, "wmt", 1, at)
    for study, at in enumerate([10.0, None, 30.0, None, None]):
        reach(tmp_path, "b", study, "wmt", 1, at)
    table = from_logs(read(tmp_path).trials)
    assert table.contestants == ("a", "b")
    assert table.workloads == ("wmt",)
    assert table.medians()[:, 0].tolist() == [30.0, INF]


def test_variants_that_were_not_drawn_do_not_count(tmp_path: Path) -> None:
    reach(tmp_path, "a", 0, "ogbg", 1, 10.0)
    reach(tmp_path, "a", 0, "ogbg_gelu", 1, None)
    reach(tmp_path, "a", 0, "ogbg_model_size", 1, 10.0)
    trials = read(tmp_path).trials
    assert from_logs(trials).variants == {"ogbg_model_size": "ogbg"}
    assert from_logs(trials, held_out=False).variants == {}


class TestRules:
    workloads, variants = ("x", "y"), {"x_v": "x"}

    def apply(self, *rows: list[float]) -> list[list[float]]:
        return profiles.apply_rules(np.array(rows), self.workloads, self.variants).tolist()

    def test_missing_variant_fails_its_workload_alone(self) -> None:
        assert self.apply([10, 10, INF], [20, 20, 30]) == [[INF, 10], [20, 20]]

    def test_more_than_four_times_the_fastest_is_a_miss_on_variants_too(self) -> None:
        assert self.apply([10, 10, 10], [30, 40, 41], [10, 41, 40]) == [[10, 10], [INF, 40], [10, INF]]

    def test_variant_of_a_missed_workload_defines_no_fastest(self) -> None:
        # The first would make 5 seconds the fastest variant, and 30 a miss for the second.
        assert self.apply([INF, 10, 5], [20, 20, 30]) == [[INF, 10], [20, 20]]


def test_missing_cells_are_misses() -> None:
    table = StudyTimes(("a", "b"), ("x",), {}, {("a", "x"): {0: 5.0}})
    assert table.medians().tolist() == [[5.0], [INF]]
