"""What is modelled is what is measured, and the two published figures differ as they must."""

from __future__ import annotations

import mmap

import pytest
import torch

from fallline.measure.memory import peak_resident, reset_peak_resident, resident
from fallline.memory.live import LiveBytes, held_by_states
from fallline.step.gpt2 import Gpt2
from fallline.step.published.memory import measured, peaks

SMALL = Gpt2(4, 2, 64, 300, 256)


def test_live_bytes_follow_what_is_held() -> None:
    with LiveBytes() as live:
        a = torch.ones(1000)
        b = a.view(10, 100)  # no memory of its own
        assert live.now == 4000
        c = (b + 1) * 2
        assert (live.now, live.peak) == (8000, 12000)
        del c
        assert live.now == 4000
    assert b.shape == (10, 100)


def test_process_figures() -> None:
    now = resident()
    assert now is not None and now > 10_000_000
    if reset_peak_resident():
        # Pages straight from the system: an allocator could hand out some that the process holds already.
        with mmap.mmap(-1, 100_000_000) as held:
            for page in range(0, len(held), mmap.PAGESIZE):
                held[page] = 1
        peak = peak_resident()
        assert peak is not None and peak - now > 80_000_000


def test_model_equals_measurement() -> None:
    for optimizer, implementation in (("adam", "torch-loop"), ("adan", "foreach"), ("adan", "fused")):
        model = peaks(SMALL, optimizer, implementation)
        real = peaks(SMALL, optimizer, implementation, device="cpu")
        assert abs(model.true - real.true) <= 0.01 * real.true
        assert abs(model.seed_like - real.seed_like) <= 0.01 * real.seed_like
        assert abs(model.states - real.states) <= 0.01 * real.states + 1000


def test_true_peak_has_the_states_and_the_published_way_has_not() -> None:
    adam, adan = peaks(SMALL, "adam", "torch-loop"), peaks(SMALL, "adan", "fused")
    parameters = SMALL.parameters
    assert abs((adan.true - adam.true) - 8 * parameters) < 0.02 * 8 * parameters
    assert adan.seed_like - adam.seed_like < 0.1 * 8 * parameters
    assert adam.true - adam.seed_like > 7 * parameters


def test_measured_in_a_process_of_its_own() -> None:
    found = measured(SMALL, "adam", "torch-loop", threads=1)
    assert found.resident is not None and found.resident > found.true
    assert abs(found.true - peaks(SMALL, "adam", "torch-loop").true) <= 0.01 * found.true


@pytest.mark.parametrize("optimizer", ["adafactor", "sgd", "nadam"])
def test_modelled_states_are_those_of_the_shapes_and_options(optimizer: str) -> None:
    """Some exist for vectors only, or follow from a number: SGD has no momentum unless it is asked for."""
    model, real = peaks(SMALL, optimizer, "fused"), peaks(SMALL, optimizer, "fused", device="cpu")
    # What is left are counters and single numbers, at most 12 bytes per parameter tensor.
    assert 0 <= real.states - model.states <= 12 * len(SMALL.shapes())
    assert (model.states == 0) == (optimizer == "sgd")


def test_state_bytes_count_shared_memory_once() -> None:
    params = [torch.nn.Parameter(torch.ones(100)) for _ in range(2)]
    optimizer = torch.optim.Adam(params)
    for param in params:
        param.grad = torch.ones(100)
    optimizer.step()
    alone = held_by_states(optimizer)
    optimizer.state[params[0]]["exp_avg"] = optimizer.state[params[1]]["exp_avg"]
    assert alone - held_by_states(optimizer) == 400
