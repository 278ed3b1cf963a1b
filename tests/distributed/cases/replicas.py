"""DistributedDataParallel: the work on matrices split over processes that have everything."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import fallline
from fallline.optim.registry import find
from tests.distributed.cases.models import give_gradients, largest_difference


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Embedding(11, 16), nn.Linear(16, 40), nn.Tanh(), nn.Linear(40, 72), nn.Linear(72, 64), nn.Linear(64, 11)
    )


def pair(name: str, **options: Any) -> tuple[list[Tensor], Any, list[Tensor], Any]:
    alone, inner = net(), net()
    model = DistributedDataParallel(inner)
    made = fallline.create(name, alone, **options), fallline.create(name, model, **options)
    return list(alone.parameters()), made[0], list(inner.parameters()), made[1]


def owned(optimizer: Any) -> int:
    """How many matrices this process steps."""
    return sum(owner.is_here for owner in optimizer._pieces.owners.values())


def assert_same_everywhere(value: Tensor) -> None:
    found = [torch.empty_like(value) for _ in range(dist.get_world_size())]
    dist.all_gather(found, value.detach())
    assert all(torch.equal(one, found[0]) for one in found)


def steps(made: tuple[list[Tensor], Any, list[Tensor], Any], first: int, count: int) -> None:
    for number in range(first, first + count):
        for params, optimizer in (made[:2], made[2:]):
            give_gradients(params, number)
            optimizer.step()


def split_work_is_that_of_one_process() -> None:
    for name, options in (
        ("muon", {}),
        ("muon", {"state_dtype": "int8", "clip_norm": 0.5}),
        ("shampoo", {}),
        ("soap", {}),
        ("adamw", {}),
    ):
        made = pair(name, **options)
        steps(made, 0, 20)
        assert largest_difference(made[2], made[0]) < 1e-6, name
        assert_same_everywhere(made[2][2])
        if name == "muon":
            assert 0 < owned(made[3]) < len(made[3]._pieces.owners), "the work is split"


def every_matrix_optimizer_splits_in_every_format() -> None:
    for name in fallline.list_optimizers():
        if not find(name).rule.calls_matrix_functions:
            continue
        for state_dtype in ("float32", "int8"):
            if state_dtype in fallline.info(name).formats:
                made = pair(name, state_dtype=state_dtype)
                steps(made, 0, 20)
                assert largest_difference(made[2], made[0]) < 1e-6, (name, state_dtype)


def checkpoints_have_the_states_of_all_owners() -> None:
    for name in ("muon", "soap"):
        made = pair(name)
        steps(made, 0, 3)
        saved = made[3].state_dict()
        for number, entry in made[1].state_dict()["state"].items():
            for key, value in entry.items():
                assert torch.equal(saved["state"][number][key], value), (name, number, key)
        again = fallline.create(name, DistributedDataParallel(net()))
        again.load_state_dict(saved)
        params = [p for group in again.param_groups for p in group["params"]]
        with torch.no_grad():
            for p, q in zip(params, (p for g in made[3].param_groups for p in g["params"]), strict=True):
                p.copy_(q)
        steps(made, 3, 2)
        ordered = list(made[2])
        by_old = dict(zip((id(q) for g in made[3].param_groups for q in g["params"]), params, strict=True))
        mine = [by_old[id(q)] for q in ordered]
        for number in range(3, 5):
            give_gradients(mine, number)
            again.step()
        assert largest_difference(mine, made[0]) < 1e-6, name


def splitting_can_be_turned_off() -> None:
    made = fallline.create("muon", DistributedDataParallel(net()), split=False)
    assert made._team is None and not made._pieces.owners


def training_through_ddp_steps_all_processes_alike() -> None:
    model = DistributedDataParallel(net())
    optimizer = fallline.create("muon", model)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        tokens = torch.randint(0, 11, (8,), generator=generator)
        nn.functional.cross_entropy(model(tokens), tokens.roll(1)).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert_same_everywhere(torch.cat([p.detach().reshape(-1) for p in model.parameters()]))


def a_copy_of_a_split_optimizer_is_refused() -> None:
    made = pair("muon")
    steps(made, 0, 1)
    again = copy.deepcopy(made[3])
    for group in again.param_groups:
        give_gradients(group["params"], 1)
    if owned(made[3]) < len(made[3]._pieces.owners):
        with pytest.raises(ValueError, match="is in another process, which steps this matrix"):
            again.step()


def splitting_late_is_refused() -> None:
    optimizer = fallline.Shampoo([nn.Parameter(torch.ones(4, 3))])
    give_gradients(optimizer.param_groups[0]["params"], 0)
    optimizer.step()
    with pytest.raises(RuntimeError, match="before the first step"):
        optimizer.split_over(dist.group.WORLD)


CASES: dict[str, Callable[[], None]] = {
    case.__name__: case
    for case in (
        split_work_is_that_of_one_process,
        every_matrix_optimizer_splits_in_every_format,
        checkpoints_have_the_states_of_all_owners,
        splitting_can_be_turned_off,
        training_through_ddp_steps_all_processes_alike,
        a_copy_of_a_split_optimizer_is_refused,
        splitting_late_is_refused,
    )
}
