"""Advantages are differences of means; noise is what is left when contestants and studies are taken out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fallline.race.ladder.noise import PRIOR_DEGREES, advantages

RUNGS = (0.5, 1.0, 2.0)


def drawn(
    seed: int, noise: float, common: float, studies: int = 3, contestants: int = 5
) -> dict[str, list[list[float]]]:
    """Luck of a study that all share, luck of a contestant in a study that its rungs share, and luck of its own."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, 1.0, (1, 3, studies))
    own = math.sqrt(common) * rng.normal(0, noise, (contestants, 1, studies))
    rest = math.sqrt(1 - common) * rng.normal(0, noise, (contestants, 3, studies))
    return dict(zip("abcde", (shared + own + rest).tolist(), strict=False))


def test_luck_that_all_share_is_no_noise_of_an_advantage() -> None:
    shared = [0.3, -0.2, 0.1]
    studies = {name: [[level + luck for luck in shared] for level in (1.0, 2.0, 3.0)] for name in "abc"}
    studies["b"] = [[value - 0.1 for value in rung] for rung in studies["b"]]
    found = advantages(studies, "a", RUNGS)
    assert found.contestants == ("b", "c")
    assert found.values[0] == pytest.approx([0.1] * 3) and found.values[1] == pytest.approx([0.0] * 3, abs=1e-12)
    assert found.noise is not None and found.noise == pytest.approx(np.zeros((3, 3)), abs=1e-12)


@pytest.mark.parametrize("common", [0.0, 0.6])
def test_its_size_and_what_rungs_have_in_common_are_found(common: float) -> None:
    found = [advantages(drawn(seed, 0.05, common), "a", RUNGS).noise for seed in range(200)]
    mean = np.mean([noise for noise in found if noise is not None], axis=0) * 3 / 0.05**2
    assert np.diag(mean) == pytest.approx(np.ones(3), abs=0.1)
    # Chance correlations below 0 count as none, so that unrelated rungs look a little related.
    assert mean[0, 1] == pytest.approx(common, abs=0.12)


def test_degrees_of_freedom_are_those_of_the_residuals() -> None:
    assert advantages(drawn(0, 0.1, 0.0), "a", RUNGS).degrees == 4 * 2


def test_one_study_says_nothing_of_noise() -> None:
    alone = advantages(drawn(0, 0.1, 0.0, studies=1), "a", RUNGS)
    assert alone.noise is None


def test_a_grid_of_evaluations_and_step_times_leave_their_errors() -> None:
    same = {name: [[1.0, 1.0]] * 3 for name in "abc"}
    found = advantages(same, "a", RUNGS, least=[0.02, 0.01, 0.01], added=[0.0, 0.0, 0.5])
    assert found.noise is not None and np.diag(found.noise) == pytest.approx([0.01, 0.005, 0.505])


def test_a_rung_without_results_has_no_advantage_and_gives_no_noise() -> None:
    studies = drawn(3, 0.05, 0.0)
    studies["c"][1] = []
    found = advantages(studies, "a", RUNGS)
    assert math.isnan(found.values[1, 1]) and np.isfinite(found.values[[0, 2, 3]]).all()
    assert found.degrees == 3 * 2
    assert advantages(drawn(3, 0.05, 0.0), "a", RUNGS, unsteady={"d", "e"}).degrees == 2 * 2


def test_variances_of_single_rungs_are_drawn_towards_their_mean() -> None:
    studies = drawn(1, 0.05, 0.0)
    quiet = {name: [rows[0], rows[1], [float(np.mean(rows[2]))] * 3] for name, rows in studies.items()}
    noise = advantages(quiet, "a", RUNGS).noise
    assert noise is not None and 0 < noise[2, 2] < noise[0, 0]
    assert noise[2, 2] * (8 + PRIOR_DEGREES) / PRIOR_DEGREES < np.diag(noise).sum()
