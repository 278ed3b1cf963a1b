"""Parameters, cut and whole, with gradients that are the same in all processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import fallline

SHAPES = [(70, 61), (13,), (9, 4, 5), (6, 3), (1, 7), (64, 65)]
"""Two of more than 4,096 elements, cut in the middle of a block; (1, 7) is empty in all processes but the first."""


def whole_params(shapes: Sequence[tuple[int, ...]] = SHAPES, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in shapes]


def mesh_of_all() -> DeviceMesh:
    return init_device_mesh("cpu", (dist.get_world_size(),))


def cut(params: Iterable[Tensor], mesh: DeviceMesh | None = None, placements: Sequence[Any] = (Shard(0),)) -> list:
    """The same parameters as DTensors."""
    mesh = mesh or mesh_of_all()
    return [nn.Parameter(distribute_tensor(p.detach().clone(), mesh, placements, src_data_rank=None)) for p in params]


def give_gradients(params: Sequence[Tensor], number: int, scale: float = 0.3) -> None:
    """Gradients that depend on the number of the step only."""
    generator = torch.Generator().manual_seed(number)
    for p in params:
        grad = (torch.randn(p.shape, generator=generator) * scale).to(p.dtype)
        p.grad = (
            distribute_tensor(grad, p.device_mesh, p.placements, src_data_rank=None) if isinstance(p, DTensor) else grad
        )


def full(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.detach()


def largest_difference(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Relative to the largest element of each."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        a, b = full(a).detach().float(), full(b).detach().float()
        assert a.shape == b.shape
        if b.numel():
            worst = max(worst, float((a - b).abs().max() / b.abs().max().clamp_min(1e-30)))
    return worst


def make(name: str, params: list[Tensor], **options: Any) -> Any:
    if fallline.info(name).name in ("muon", "muon8bit", "normuon") and any(p.ndim < 2 for p in params):
        groups = [{"params": [p for p in params if p.ndim >= 2]}]
        groups.append({"params": [p for p in params if p.ndim < 2], "rule": "adamw", "lr": 3e-4})
        return fallline.create(name, groups, **options)
    return fallline.create(name, params, **options)


def sharded_net(make_net: Callable[[], nn.Module]) -> nn.Module:
    """A network whose layers are sharded one by one, as fully_shard is used."""
    net = make_net()
    for layer in net.children():
        if any(True for _ in layer.parameters()):
            fully_shard(layer)
    fully_shard(net)
    return net
