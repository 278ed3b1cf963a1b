"""Muon against its author's package, muon-optimizer."""

from __future__ import annotations

import pytest
import torch

import fallline
from tests.authors.packages import class_of
from tests.authors.trajectories import apart

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPES = [(40, 60), (60, 40), (50, 50), (30, 90)]
OPTIONS = dict(lr=0.02, weight_decay=0.1, momentum=0.9)


def distance(dtype):
    theirs = class_of("muon", "SingleDeviceMuon")
    return apart(
        lambda p: theirs(p, **OPTIONS),
        lambda p: fallline.Muon(p, variant="jordan", **OPTIONS),
        shapes=SHAPES,
        dtype=dtype,
    )


def test_jordans_muon_is_ours_within_the_rounding_of_bfloat16():
    assert distance(torch.float32) <= 2e-2


def test_jordans_muon_without_its_cast_to_bfloat16_is_ours(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    assert distance(torch.float64) <= 1e-10
