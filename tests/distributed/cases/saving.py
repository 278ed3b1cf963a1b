"""Checkpoints of pieces, written through torch.distributed.checkpoint; ``loading`` reads them, in as many processes as
it likes.  A training goes on from them as if it had never stopped."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

import fallline
from tests.distributed.cases.models import give_gradients, make, sharded_net

STEPS, MORE = 3, 2
TRAINED: dict[str, tuple[str, dict[str, Any], bool]] = {
    "adamw": ("adamw", {}, False),
    "adamw int8 flat": ("adamw", {"state_dtype": "int8"}, True),
    "lion int4": ("lion", {"state_dtype": "int4"}, False),
    "adafactor flat": ("adafactor", {}, True),
    "prodigy": ("prodigy", {}, False),
    "schedule free flat": ("schedule_free_adamw", {}, True),
    "muon int8": ("muon8bit", {}, False),
    "shampoo flat": ("shampoo", {}, True),
    "soap": ("soap", {}, False),
}
"""Name of a checkpoint → optimizer, options, whether its dictionary is flattened."""


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(65, 70), nn.Tanh(), nn.Linear(70, 61), nn.LayerNorm(61), nn.Linear(61, 1))


def steps(params: list[Tensor], optimizer: Any, first: int, count: int) -> None:
    for number in range(first, first + count):
        give_gradients(params, number)
        optimizer.step()
    optimizer.zero_grad()


def trained(name: str, options: dict[str, Any]) -> tuple[nn.Module, Any]:
    model = sharded_net(net)
    optimizer = make(name, list(model.parameters()), **options)
    steps(list(model.parameters()), optimizer, 0, STEPS)
    return model, optimizer


def save(name: str, options: dict[str, Any], flat: bool, path: str) -> None:
    model, optimizer = trained(name, options)
    with_flat = StateDictOptions(flatten_optimizer_state_dict=flat)
    of_model, of_optimizer = get_state_dict(model, optimizer, options=with_flat)
    dcp.save({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=path)


def save_in_a_file_of_each_process() -> None:
    """A checkpoint of another number of processes is refused."""
    _, optimizer = trained("adamw", {})
    rank = torch.distributed.get_rank()
    torch.save(optimizer.state_dict(), f"own-{rank}.pt")
    fresh = make("adamw", list(sharded_net(net).parameters()))
    fresh.load_state_dict(torch.load(f"own-{rank}.pt", weights_only=True))
    entries = zip(optimizer.state.values(), fresh.state.values(), strict=True)
    assert all(torch.equal(a["exp_avg"].to_local(), b["exp_avg"].to_local()) for a, b in entries)


def a_checkpoint_of_one_process_is_cut() -> None:
    """A plain dictionary of whole tensors loads into pieces, which then are those of the whole."""
    for name, options in (("adamw", {}), ("adamw", {"state_dtype": "int8"}), ("muon", {}), ("adafactor", {})):
        alone, together = net(), sharded_net(net)
        whole = make(name, list(alone.parameters()), **options)
        steps(list(alone.parameters()), whole, 0, STEPS)
        pieces = make(name, list(together.parameters()), **options)
        pieces.load_state_dict(whole.state_dict())
        again = pieces.state_dict()
        for number, entry in whole.state_dict()["state"].items():
            for key, value in entry.items():
                found = again["state"][number][key]
                found = found.full_tensor() if hasattr(found, "full_tensor") else found
                assert torch.equal(found.reshape(-1), value.reshape(-1)), (name, number, key)


def states_exported_for_torch_are_dtensors() -> None:
    for options in ({}, {"state_dtype": "int8"}):
        model, optimizer = trained("adamw", options)
        theirs = torch.optim.AdamW(list(model.parameters()))
        theirs.load_state_dict(fallline.export_for_torch(optimizer))
        give_gradients(list(model.parameters()), STEPS)
        theirs.step()


CASES: dict[str, Callable[[], None]] = {
    **{name: functools.partial(save, *how, str(Path("checkpoints") / name)) for name, how in TRAINED.items()},
    **{
        case.__name__: case
        for case in (
            save_in_a_file_of_each_process,
            a_checkpoint_of_one_process_is_cut,
            states_exported_for_torch_are_dtensors,
        )
    },
}
