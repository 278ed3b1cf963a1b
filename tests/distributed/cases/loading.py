"""Trainings that go on from the checkpoints of ``saving``, in another number of processes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from tests.distributed.cases.models import largest_difference, make, sharded_net
from tests.distributed.cases.saving import MORE, STEPS, TRAINED, net, steps


def go_on(name: str, options: dict[str, Any], flat: bool, path: str) -> None:
    model = sharded_net(net)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    optimizer = make(name, list(model.parameters()), **options)
    numbers = [{k: v for k, v in g.items() if isinstance(v, (int, float))} for g in optimizer.param_groups]
    with_flat = StateDictOptions(flatten_optimizer_state_dict=flat)
    # torch makes states by a step of rate 0 over gradients of zeros, in which nothing else may move.
    of_model, of_optimizer = get_state_dict(model, optimizer, options=with_flat)
    assert numbers == [{k: v for k, v in g.items() if isinstance(v, (int, float))} for g in optimizer.param_groups]
    assert all(float(entry["step"]) == 0.0 for entry in optimizer.state.values())
    dcp.load({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=of_model, optim_state_dict=of_optimizer, options=with_flat)
    assert {float(entry["step"]) for entry in optimizer.state.values()} == {float(STEPS)}
    steps(list(model.parameters()), optimizer, STEPS, MORE)
    alone = net()
    whole = make(name, list(alone.parameters()), **options)
    steps(list(alone.parameters()), whole, 0, STEPS + MORE)
    difference = largest_difference(list(model.parameters()), list(alone.parameters()))
    assert difference < 1e-6, difference


def a_file_of_another_number_of_processes_is_refused() -> None:
    optimizer = make("adamw", list(sharded_net(net).parameters()))
    here, wrote = torch.distributed.get_world_size(), len(list(Path().glob("own-*.pt")))
    if wrote >= here:  # as many can load it, and torch does not read what more processes have written
        return
    saved = torch.load(f"own-{min(torch.distributed.get_rank(), wrote - 1)}.pt", weights_only=True)
    with pytest.raises(
        ValueError, match=rf"cut for {wrote} processes, the parameter for {here}.*torch.distributed.checkpoint"
    ):
        optimizer.load_state_dict(saved)


CASES: dict[str, Callable[[], None]] = {
    **{name: functools.partial(go_on, *how, str(Path("checkpoints") / name)) for name, how in TRAINED.items()},
    a_file_of_another_number_of_processes_is_refused.__name__: a_file_of_another_number_of_processes_is_refused,
}
