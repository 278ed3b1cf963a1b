"""SOAP and Muon against other packages, on shapes of which one gradient gives regular factors."""

from __future__ import annotations

import pytest
import torch

import fallline
from tests.authors.packages import class_of
from tests.authors.trajectories import apart

pytestmark = pytest.mark.usefixtures("one_thread")

REGULAR = [(5, 5), (2, 3, 4), (9, 2, 5), (6,)]


@pytest.mark.parametrize("options", [{}, {"shampoo_beta": 0.8, "weight_decay": 0.0}, {"correct_bias": False}])
def test_pytorch_optimizers_soap_is_ours(options):
    theirs = class_of("pytorch_optimizer", "SOAP")
    common = dict(lr=0.01, precondition_frequency=3, **options)
    # Theirs takes decompositions in float32.
    assert apart(lambda p: theirs(p, **common), lambda p: fallline.SOAP(p, **common), shapes=REGULAR) <= 1e-5


def test_torchs_muon_is_ours_within_the_rounding_of_bfloat16():
    options = dict(lr=0.02, weight_decay=0.1)
    found = apart(
        lambda p: torch.optim.Muon(p, **options),
        lambda p: fallline.Muon(p, **options),
        shapes=[(40, 60), (60, 40), (50, 50)],
        dtype=torch.float32,
    )
    assert found <= 2e-2
