"""An optimizer takes little from its surroundings: no default device, and memory for as long and where it is."""

import gc
import weakref

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

import fallline

from .trajectories import LOWERINGS, assert_same, parameters, run, set_gradients, values


@pytest.mark.parametrize("name", ["AdamW", "NAdam", "Prodigy", "Adafactor", "AdamW8bit"])
def test_default_device_of_torch_does_not_move_counters(name):
    ours, twins = parameters((70, 65), (5,)), parameters((70, 65), (5,))
    make = getattr(fallline, name)
    run(make(twins, clip_norm=0.5), 4)
    opt = make(ours, clip_norm=0.5)
    for index in range(4):
        set_gradients(ours, index)
        with torch.device("meta"):
            opt.step()
            if index == 1:
                saved, opt = opt.state_dict(), make(ours, clip_norm=0.5)
                opt.load_state_dict(saved)
    assert_same(values(ours), values(twins))


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native"])
def test_inference_mode_leaves_no_trace_in_states(lowering):
    ours, twins = parameters((70, 65), (5,)), parameters((70, 65), (5,))

    def make(params):
        return fallline.AdamW(params, clip_norm=0.5, state_dtype="int8", **LOWERINGS[lowering])

    run(make(twins), 5)
    opt = make(ours)
    for index in range(5):
        set_gradients(ours, index)
        with torch.inference_mode(index % 2 == 0):
            opt.step()
            if index == 2:
                saved, opt = opt.state_dict(), make(ours)
                opt.load_state_dict(saved)
    assert not any(value.is_inference() for entry in opt.state.values() for value in entry.values())
    assert_same(values(ours), values(twins))


@pytest.mark.parametrize("loaded", [False, True])
def test_memory_is_free_as_soon_as_nobody_uses_the_optimizer(loaded):
    run(fallline.AdamW(parameters((3,))), 1)  # torch's first imports keep frames until the collector comes
    gc.collect()
    gc.disable()
    try:
        opt = fallline.AdamW(params := parameters((3,)))
        run(opt, 2)
        if loaded:
            opt.load_state_dict(opt.state_dict())
            run(opt, 1)
        state = weakref.ref(opt.state[params[0]]["exp_avg"])
        del opt
        assert state() is None
    finally:
        gc.enable()


def test_parameters_without_a_shape_are_stepped_once_they_have_one():
    torch.manual_seed(0)
    ours = torch.nn.LazyLinear(3)
    opt = fallline.AdamW(ours.parameters(), lr=0.1, state_dtype="int8")
    opt.step()
    assert "2 parameters have had no gradient yet" in opt.explain()
    ours(torch.ones(2, 5)).sum().backward()
    theirs = torch.nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    theirs(torch.ones(2, 5)).sum().backward()
    torch.optim.AdamW(theirs.parameters(), lr=0.1).step()
    opt.step()
    torch.testing.assert_close(ours.weight, theirs.weight)
    assert "2 tensors, 18 elements" in opt.explain()


def _share(state):
    for value in state.values():
        value.share_memory_()


def _replace(state):
    for value in state.values():
        value.data = value.data.clone()


@pytest.mark.parametrize("name", ["AdamW", "AdamW8bit", "Adafactor", "NAdam"])
@pytest.mark.parametrize("move", [_share, _replace])
def test_states_that_were_given_other_memory_are_found_there(name, move):
    ours, twins = parameters((70, 65), (5,), (64, 64)), parameters((70, 65), (5,), (64, 64))
    make = getattr(fallline, name)
    run(make(twins, lr=0.1), 5)
    opt = make(ours, lr=0.1)
    run(opt, 3)
    for state in opt.state.values():
        move(state)
    run(opt, range(3, 5))
    assert_same(values(ours), values(twins))
    assert all(state["step"] == 5 for state in opt.state.values())


@pytest.mark.parametrize(
    ("name", "state"), [("AdamW", "exp_avg"), ("AdamW8bit", "exp_avg:scale"), ("Adafactor", "row_var")]
)
def test_memory_that_one_state_has_left_is_not_free_while_kernels_write_to_it(name, state):
    """Only the first and the last parameter's states are looked at in every step."""
    params = parameters((70, 70), (70, 70), (70, 70))
    opt = getattr(fallline, name)(params)
    run(opt, 1)
    moved = opt.state[params[1]][state]
    memory = StorageWeakRef(moved.untyped_storage())
    moved.data = torch.zeros_like(moved)
    assert not memory.expired()
    opt.state.clear()
    assert memory.expired()
