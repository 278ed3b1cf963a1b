"""DeepOBS's quadratic: its published start and finals."""

from __future__ import annotations

import numpy
import pytest
import torch

from benchmarks.deepobs import final_test_loss, p_value
from fallline.workloads import load
from fallline.workloads.quadratic_deep import PUBLISHED, PUBLISHED_INITIAL, problem, random_rotation


def test_the_first_test_loss_is_the_published_one() -> None:
    workload = load("quadratic_deep")
    assert workload.validate(workload.new_model(0)) == pytest.approx(PUBLISHED_INITIAL, abs=5e-4)


def test_the_rotation_is_one() -> None:
    rotation = random_rotation(numpy.random.RandomState(0))
    assert numpy.allclose(rotation @ rotation.T, numpy.eye(100), atol=1e-12)


def test_the_hessian_has_ten_large_eigenvalues() -> None:
    eigenvalues = torch.linalg.eigvalsh(problem()[0].double())
    assert (eigenvalues > 29.9).sum() == 10 and eigenvalues[89] < 1.01 and eigenvalues[0] > -1e-4


@pytest.mark.parametrize("method", PUBLISHED)
def test_one_seed_ends_within_the_published_spread(method: str) -> None:
    """`python -m fallline.workloads.deepobs` does ten seeds and a t-test."""
    _, _, mean, std = PUBLISHED[method]
    assert final_test_loss(method, seed=42) == pytest.approx(mean, abs=5 * std)


def test_the_t_test_can_tell() -> None:
    pytest.importorskip("scipy")
    finals = [87.0 + 0.02 * k for k in range(10)]
    assert p_value(finals, 87.09, 0.06) > 0.5
    assert p_value(finals, 88.0, 0.06) < 1e-6
