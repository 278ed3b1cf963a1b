"""Processes that do not make the same optimizer are told in what they differ, at the first step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Shard

import fallline
from tests.distributed.cases.models import cut, give_gradients, mesh_of_all, whole_params


def _refused(make: Callable[[int], Any], match: str) -> None:
    """``make`` returns an optimizer whose parameters have gradients."""
    optimizer = make(dist.get_rank())
    with pytest.raises(ValueError, match=match):
        optimizer.step()


def _with_gradients(kind: Any, **options: Any) -> Any:
    params = cut(whole_params())
    give_gradients(params, 0)
    return kind(params, **options)


def another_rate() -> None:
    def make(rank: int) -> Any:
        return _with_gradients(fallline.AdamW, lr=0.1 if rank == 1 else 0.2)

    _refused(make, "lr of group 0 is 0.2 in process 0 and 0.1 in process 1; make the same optimizer")


def another_optimizer() -> None:
    def make(rank: int) -> Any:
        return _with_gradients(fallline.Lion if rank == 1 else fallline.AdamW)

    _refused(make, "the optimizer is AdamW in process 0 and Lion in process 1")


def another_format() -> None:
    def make(rank: int) -> Any:
        return _with_gradients(fallline.AdamW, state_dtype="int8" if rank == 1 else "float32")

    _refused(make, "state_dtype of group 0 is float32 in process 0 and int8 in process 1")


def another_number_of_parameters() -> None:
    def make(rank: int) -> Any:
        params = cut(whole_params())
        give_gradients(params, 0)
        return fallline.AdamW(params[: 2 if rank == 1 else 3])

    _refused(make, "the number of parameters of group 0 is 3 in process 0 and 2 in process 1")


def another_shape() -> None:
    def make(rank: int) -> Any:
        rows = 8 * dist.get_world_size() if rank == 1 else 4 * dist.get_world_size()
        local = torch.ones(rows // dist.get_world_size(), 3)
        whole = torch.Size([rows, 3])
        param = nn.Parameter(DTensor.from_local(local, mesh_of_all(), [Shard(0)], shape=whole, stride=(3, 1)))
        param.grad = DTensor.from_local(local, param.device_mesh, [Shard(0)], shape=whole, stride=(3, 1))
        return fallline.AdamW([param])

    _refused(make, "the shape of parameter 0 of group 0 is ")


def a_checkpoint_in_one_process_only() -> None:
    def make(rank: int) -> Any:
        opt = _with_gradients(fallline.AdamW)
        opt.step()
        saved = opt.state_dict()
        opt.load_state_dict(saved)
        if rank == 1:
            for p in opt.param_groups[0]["params"]:
                opt.state[p]["step"].fill_(7.0)
        return opt

    _refused(make, "the number of steps of parameter 0 of group 0 is 1.0 in process 0 and 7.0 in process 1")


CASES: dict[str, Callable[[], None]] = {
    case.__name__: case
    for case in (
        another_rate,
        another_optimizer,
        another_format,
        another_number_of_parameters,
        another_shape,
        a_checkpoint_in_one_process_only,
    )
}
