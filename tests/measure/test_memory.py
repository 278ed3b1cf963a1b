"""Bytes that are alive in tensors, and those of the process."""

import platform

import pytest
import torch

import fallline
from fallline.measure.memory import LiveBytes, resident, trim_malloc
from fallline.optim import fingerprint


def test_sparse_tensors_are_no_trouble():
    with LiveBytes() as live:
        sparse = torch.ones(4).to_sparse()
        dense = sparse.to_dense() + 1
    assert live.now >= 4 * 4
    del sparse, dense
    assert live.now == 0


def test_a_first_step_is_followed_though_it_tries_what_torch_can_tell_apart():
    params = [torch.nn.Parameter(torch.zeros(100))]
    params[0].grad = torch.ones(100)
    fingerprint._torch_guards.cache_clear()
    with LiveBytes() as live:
        fallline.Adan(params, lr=0.1).step()
    assert live.peak >= 4 * 400


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's own")
def test_what_was_freed_goes_back_to_the_system():
    # Smaller than what the C library maps by itself, and with something alive behind them.
    several = [torch.zeros(16_000) for _ in range(4000)]
    alive, held = torch.zeros(16_000), resident()
    del several
    trim_malloc()
    assert resident() < held - 200_000_000
    assert not alive.any()
