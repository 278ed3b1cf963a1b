"""Moves pieces of matrices to their owners, or results back: all of a step together, in one exchange of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from fallline.distributed.ranks import Ranks
from fallline.lower.transfer import Transfer

ALIGNED = 16
"""Parts begin at multiples of this many bytes, so that one buffer may hold tensors of several dtypes."""


def exchange(ranks: Ranks, transfers: Sequence[Transfer]) -> None:
    """Fills what transfers are to fill.  All processes have the same ones, in whatever order."""
    for finish in begin_exchange(ranks, transfers):
        finish()


def begin_exchange(ranks: Ranks, transfers: Sequence[Transfer]) -> list[Callable[[], None]]:
    """Begins to send; the functions wait for what comes, and fill what is to be filled."""
    ways = sorted({(transfer.owner.mesh_axis, not transfer.to_owner) for transfer in transfers})
    chosen = {way: [t for t in transfers if (t.owner.mesh_axis, not t.to_owner) == way] for way in ways}
    return [
        _begin(ranks, axis, sorted(some, key=lambda transfer: repr(transfer.key))) for (axis, _), some in chosen.items()
    ]


def _begin(ranks: Ranks, axis: int, transfers: Sequence[Transfer]) -> Callable[[], None]:
    others = range(ranks.sizes[axis])
    sent = [[_bytes_of(part) for part in _sent(transfers, other, ranks.at[axis])] for other in others]
    targets = [list(_received(transfers, other, ranks.at[axis])) for other in others]
    buffer = torch.cat([part for parts in sent for part in parts] or [torch.empty(0, dtype=torch.uint8)])
    received, wait = ranks.begin_exchange(
        axis,
        buffer.to(ranks.device),
        [sum(part.numel() for part in parts) for parts in sent],
        [sum(_size(target) for target in parts) for parts in targets],
    )

    def finish() -> None:
        wait()
        at = 0
        for target in (target for parts in targets for target in parts):
            count = target.numel() * target.element_size()
            target.copy_(received[at : at + count].view(target.dtype).view(target.shape))
            at += _size(target)

    return finish


def _sent(transfers: Sequence[Transfer], other: int, here: int) -> Iterator[Tensor]:
    """The parts that this process sends to another."""
    for transfer in transfers:
        if transfer.to_owner and transfer.owner.rank == other:
            yield transfer.here
        elif not transfer.to_owner and transfer.owner.rank == here and not _stays(transfer, other):
            yield _part(transfer, other)


def _received(transfers: Sequence[Transfer], other: int, here: int) -> Iterator[Tensor]:
    """Where this process puts what it receives from another."""
    for transfer in transfers:
        if transfer.to_owner and transfer.owner.rank == here:
            yield _part(transfer, other)
        elif not transfer.to_owner and transfer.owner.rank == other and not _stays(transfer, here):
            yield transfer.here


def _stays(transfer: Transfer, receiver: int) -> bool:
    """Whether the owner of a copied tensor has stepped it where it is."""
    return transfer.owner.copied and transfer.owner.rank == receiver


def _part(transfer: Transfer, other: int) -> Tensor:
    assert transfer.whole is not None
    if transfer.owner.copied:
        return transfer.whole
    return transfer.whole.narrow(transfer.owner.axis, *transfer.owner.ranges[other])


def _size(tensor: Tensor) -> int:
    count = tensor.numel() * tensor.element_size()
    return -(-count // ALIGNED) * ALIGNED


def _bytes_of(tensor: Tensor) -> Tensor:
    flat = tensor.detach().reshape(-1).contiguous().view(torch.uint8)
    return torch.nn.functional.pad(flat, (0, _size(tensor) - flat.numel()))
