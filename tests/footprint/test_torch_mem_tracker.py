"""Pins what is used of torch's private memory tracker: a release that changes it fails here, and in one file."""

from __future__ import annotations

import inspect

import torch
from torch import nn
from torch.distributed._tools import mem_tracker, mod_tracker

from fallline.footprint.allocations import Kind
from fallline.footprint.torch_mem_tracker import _KINDS, IterationTracker
from fallline.memory.live import LiveBytes


def test_the_names_that_the_adapter_overrides_are_there() -> None:
    theirs = mem_tracker.MemTracker
    for name in (
        "_update_snap", "_update_peak_stats", "get_tracker_snapshot", "_pre_fw_hook", "_post_fw_hook", "_pre_bw_hook",
        "_post_bw_hook", "_track_module_params_and_buffers", "track_external", "__torch_dispatch__", "__enter__",
    ):  # fmt: skip
        assert hasattr(theirs, name), name
    parameters = inspect.signature(theirs._update_snap).parameters
    assert list(parameters) == ["self", "u_type", "winfo", "old_mem_consumed", "old_reftype"]
    assert {"ADD", "DEL", "REF", "SIZE"} <= set(mem_tracker._UpdateType.__members__)
    assert set(_KINDS) == set(mem_tracker._MemRefType), "each of torch's purposes has one of ours"
    assert hasattr(mod_tracker.ModTracker, "is_bw") and hasattr(mod_tracker.ModTracker, "get_known_fqn")
    source = inspect.getsource(theirs.__torch_dispatch__)
    assert "self._in_ac" in source and "self._in_opt" in source


def test_it_sees_the_bytes_that_an_independent_counter_sees() -> None:
    """On real tensors, so that both follow the same iteration."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 80), nn.GELU(), nn.Linear(80, 80), nn.GELU(), nn.Linear(80, 4))
    inputs = torch.ones(16, 40)
    tracker = IterationTracker(model, inputs)
    with LiveBytes([*model.parameters(), inputs]) as live, tracker:
        model(inputs).square().mean().backward()
        tracker.mark_step()
    found = tracker.allocations()
    assert found.peak_of_gradients_pass()[1] == live.peak
    assert found.before_step()[Kind.PARAMETERS] == sum(4 * p.numel() for p in model.parameters())
    assert found.before_step()[Kind.GRADIENTS] == found.before_step()[Kind.PARAMETERS]
    assert found.before_step()[Kind.INPUTS] == 4 * inputs.numel()


def test_operations_are_counted() -> None:
    model, inputs = nn.Linear(40, 80), torch.ones(16, 40)
    tracker = IterationTracker(model, inputs)
    with tracker:
        model(inputs).sum().backward()
    assert tracker.flops == 2 * (2 * 16 * 40 * 80), "the product, and the gradient of the weights"
