"""Tensors are recognised by everything that decides how a kernel reads them, with or without torch's own guards."""

import weakref

import pytest
import torch
from torch.nn import Parameter

from fallline.lower import fingerprint
from fallline.lower.fingerprint import Fingerprint

OTHERS = {
    "none": None,
    "shape": torch.zeros(3, 2),
    "axes": torch.zeros(1, 2, 3),
    "strides": torch.zeros(3, 2).t(),
    "integers": torch.zeros(2, 3, dtype=torch.int32),
    "halves": torch.zeros(2, 3, dtype=torch.bfloat16),
    "device": torch.zeros(2, 3, device="meta"),
    "sparse": torch.zeros(2, 3).to_sparse(),
    "negated": torch._neg_view(torch.zeros(2, 3)),
    "class": Parameter(torch.zeros(2, 3)),
}


@pytest.fixture(params=["torch's guards", "without them"], autouse=True)
def way(request, monkeypatch):
    if request.param == "without them":  # as in a torch that has none
        monkeypatch.setattr(fingerprint, "_torch_guards", lambda: None)
    else:
        assert fingerprint._torch_guards() is not None


def test_tensors_that_differ_in_values_and_memory_match():
    known = Fingerprint([torch.zeros(2, 3), torch.zeros(())])
    assert known.matches([torch.ones(2, 3), torch.ones(())])


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_read_in_another_way_does_not_match(other):
    assert not Fingerprint([torch.zeros(2, 3)]).matches([OTHERS[other]])


def test_tensors_are_not_kept():
    known = torch.zeros(2, 3)
    alive, mark = weakref.ref(known), Fingerprint([known])
    del known
    assert alive() is None
    assert mark.matches([torch.zeros(2, 3)])
