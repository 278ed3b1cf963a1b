"""DTensors as pieces: the tensor that is here, its place in the whole, and states that are DTensors again.

This is the only module that knows how torch cuts a DTensor.  ``torch.distributed.tensor`` is imported when the first
DTensor is met, because the import takes longer than that of fallline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from fallline.lower.item import Place
from fallline.lower.transfer import Owner

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor


def is_distributed(tensor: Any) -> bool:
    """Whether this is a DTensor: its own memory pointer is null, the data lies in its local shard."""
    return type(tensor).__name__ == "DTensor" or hasattr(tensor, "_local_tensor")


def local_of(tensor: Tensor) -> Tensor:
    """The part of a tensor that is in this process."""
    if not is_distributed(tensor):
        return tensor
    with torch.no_grad():  # otherwise it carries a gradient function, and a step in place raises later
        return cast("DTensor", tensor).to_local()


def mesh_of(tensor: Tensor) -> DeviceMesh:
    return cast("DTensor", tensor).device_mesh


def placements_of(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(cast("DTensor", tensor).placements)


def check_placements(tensor: Tensor, name: str) -> None:
    """Raises if the pieces of a parameter cannot be stepped: each must be cut along one axis, or be whole."""
    placements = placements_of(tensor)
    cuts = [placement for placement in placements if not placement.is_replicate()]
    if not cuts or (len(cuts) == 1 and type(cuts[0]).__name__ == "Shard"):
        _check_local_shape(tensor, name)
        return
    if any(placement.is_partial() for placement in cuts):
        raise ValueError(f"{name} is a DTensor of pending sums, {placements}; redistribute it before it is optimized")
    raise ValueError(
        f"{name} is a DTensor with the placements {placements}: a parameter may be cut along one axis by one axis of "
        "the mesh, and be replicated over the others; use Shard for one of them"
    )


def _check_local_shape(tensor: Tensor, name: str) -> None:
    place, local = place_of(tensor), local_of(tensor)
    if place is None:
        return
    mesh_axis, axis = sharded_axis(tensor) or (0, 0)
    mesh = mesh_of(tensor)
    _, length = ranges(tensor.shape[axis], mesh.size(mesh_axis))[mesh.get_local_rank(mesh_axis)]
    if local.shape[axis] != length:
        raise ValueError(
            f"{name} is not cut as torch cuts: its part here has {local.shape[axis]} of {tensor.shape[axis]} along "
            f"axis {axis}, and should have {length}; make it with distribute_tensor or fully_shard"
        )


def sharded_axis(tensor: Tensor) -> tuple[int, int] | None:
    """(axis of the mesh, axis of the tensor) along which a DTensor is cut; None if every process has all of it."""
    for mesh_axis, placement in enumerate(placements_of(tensor)):
        if placement.is_shard():
            return mesh_axis, placement.dim % tensor.ndim
    return None


def place_of(tensor: Tensor) -> Place | None:
    """Where the local part lies in the whole; None if it is the whole."""
    found = sharded_axis(tensor)
    if found is None:
        return None
    mesh_axis, axis = found
    start, _ = ranges(tensor.shape[axis], mesh_of(tensor).size(mesh_axis))[mesh_of(tensor).get_local_rank(mesh_axis)]
    return Place((*tensor.shape, 2) if tensor.is_complex() else tuple(tensor.shape), start, axis)


def ranges(length: int, count: int) -> tuple[tuple[int, int], ...]:
    """(start, length) of the parts into which torch cuts an axis, as ``torch.chunk`` does; the last may be empty."""
    size = -(-length // count) if length else 0
    starts = [min(i * size, length) for i in range(count)]
    return tuple((start, min(size, length - start)) for start in starts)


def owner_of(tensor: Tensor, rank: int) -> Owner | None:
    """The process of this number, among those that have pieces of the tensor, as its owner; None if it is not cut."""
    found = sharded_axis(tensor)
    if found is None:
        return None
    mesh_axis, axis = found
    mesh = mesh_of(tensor)
    parts = ranges(tensor.shape[axis], mesh.size(mesh_axis))
    return Owner(rank, mesh.get_local_rank(mesh_axis) == rank, mesh_axis, axis, parts, copied=False)


def is_counted(tensor: Tensor) -> bool:
    """Whether, of equal copies in several processes, this is the one that sums over all processes count."""
    where = mesh_of(tensor).get_coordinate()
    placements = placements_of(tensor)
    return where is not None and all(at == 0 for at, p in zip(where, placements, strict=True) if p.is_replicate())


def like(param: Tensor, local: Tensor, shape: tuple[int, ...], cut: bool) -> Tensor:
    """A local tensor as a DTensor of this shape, placed as the parameter; replicated where it is not ``cut``."""
    from torch.distributed.tensor import DTensor

    stride = torch.empty(shape, device="meta").stride()
    with torch.no_grad():
        return DTensor.from_local(
            local,
            mesh_of(param),
            _placements_like(param, cut),
            run_check=False,
            shape=torch.Size(shape),
            stride=stride,
        )


def flat_like(param: Tensor, whole: Tensor) -> Tensor:
    """A whole tensor as a flat DTensor that is cut over the processes among which the parameter is."""
    from torch.distributed.tensor import DTensor, Replicate, Shard

    found = sharded_axis(param)
    assert found is not None
    mesh = mesh_of(param)
    start, length = ranges(whole.numel(), mesh.size(found[0]))[mesh.get_local_rank(found[0])]
    placements = [Shard(0) if axis == found[0] else Replicate() for axis in range(mesh.ndim)]
    local = whole.reshape(-1)[start : start + length].clone()
    with torch.no_grad():
        return DTensor.from_local(
            local, mesh, placements, run_check=False, shape=torch.Size([whole.numel()]), stride=(1,)
        )


def full_of(tensor: Tensor) -> Tensor:
    """All of a tensor, in every process."""
    with torch.no_grad():
        return cast("DTensor", tensor).full_tensor() if is_distributed(tensor) else tensor


def placed_like(tensor: Tensor, param: Tensor, cut: bool) -> Tensor:
    """A DTensor cut as the parameter is, or replicated."""
    with torch.no_grad():
        return cast("DTensor", tensor).redistribute(mesh_of(param), _placements_like(param, cut))


def on_mesh_of(param: Tensor, tensor: Tensor) -> bool:
    """Whether a DTensor lies on as many processes as the parameter."""
    return bool(mesh_of(tensor).mesh.shape == mesh_of(param).mesh.shape)


def _placements_like(param: Tensor, cut: bool) -> list[Any]:
    from torch.distributed.tensor import Replicate

    return [placement if cut else Replicate() for placement in placements_of(param)]
