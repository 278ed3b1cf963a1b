"""The processes that step an optimizer together, and what they tell each other.

Every call here is made by all of them, in the same order.  One that has ended, or does not come, is an error with a
sentence as soon as the backend notices: at once if its connections close, otherwise after the time-out of the group.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


class Ranks:
    """The processes of a mesh, or of one group.  Over several axes of a mesh, collectives run axis by axis, so that no
    further group is needed."""

    def __init__(self, groups: Sequence[dist.ProcessGroup | None], device: str):
        self.groups = list(groups)
        self.device = torch.device(device, torch.cuda.current_device()) if device == "cuda" else torch.device(device)
        self.at = [dist.get_rank(group) for group in self.groups]
        """This process's position along every axis."""
        self.sizes = [dist.get_world_size(group) for group in self.groups]

    @classmethod
    def of_mesh(cls, mesh: DeviceMesh) -> Ranks:
        return cls([mesh.get_group(axis) for axis in range(mesh.ndim)], mesh.device_type)

    @classmethod
    def apart(cls, group: dist.ProcessGroup) -> Ranks:
        """The processes of a group, in a group of their own: what they tell each other cannot be taken for what others
        (DistributedDataParallel) send in the same group."""
        members = dist.get_process_group_ranks(group)
        own = dist.new_group(members, timeout=_timeout_of(group), use_local_synchronization=True)
        return cls([own], "cuda" if dist.get_backend(own) == "nccl" else "cpu")

    @property
    def size(self) -> int:
        return int(torch.Size(self.sizes).numel())

    @property
    def is_first(self) -> bool:
        return not any(self.at)

    def sum(self, values: Tensor) -> None:
        """Adds over all processes, in place."""
        self._reduce(values, dist.ReduceOp.SUM)

    def max(self, values: Tensor) -> None:
        """The largest value over all processes, in place."""
        self._reduce(values, dist.ReduceOp.MAX)

    def _reduce(self, values: Tensor, op: dist.ReduceOp.RedOpType) -> None:
        with self._waiting("with a part of a sum"):
            for group in self.groups:
                dist.all_reduce(values, op, group=group)

    def gathered(self, values: Tensor) -> Tensor:
        """The values of all processes, one row for each; they have the same shape in all."""
        found = values.unsqueeze(0)
        with self._waiting("with a few numbers"):
            for group, size in zip(self.groups, self.sizes, strict=True):
                parts = [torch.empty_like(found) for _ in range(size)]
                dist.all_gather(parts, found.contiguous(), group=group)
                found = torch.cat(parts)
        return found

    def texts(self, text: str) -> list[str]:
        """The texts of all processes."""
        data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).to(self.device)
        lengths = self.gathered(torch.tensor([data.numel()], device=self.device))[:, 0].tolist()
        padded = torch.zeros(max(lengths), dtype=torch.uint8, device=self.device)
        padded[: data.numel()] = data
        rows = self.gathered(padded).cpu()
        return [bytes(row[:n].tolist()).decode() for row, n in zip(rows, lengths, strict=True)]

    def sum_along(self, axis: int, values: Tensor) -> None:
        """Adds over the processes along one axis, in place."""
        with self._waiting("with a part of a state"):
            dist.all_reduce(values, dist.ReduceOp.SUM, group=self.groups[axis])

    def broadcast(self, axis: int, values: Tensor, at: int) -> None:
        """Sends the values of the process at this position along an axis to the others there."""
        group = self.groups[axis]
        source = dist.get_global_rank(group, at) if group is not None else at
        with self._waiting("with the state of a matrix"):
            dist.broadcast(values, source, group=group)

    def begin_exchange(
        self, axis: int, sent: Tensor, sent_sizes: list[int], received_sizes: list[int]
    ) -> tuple[Tensor, Callable[[], None]]:
        """An exchange that goes on beside other work: what is received, once the function has returned."""
        received = torch.empty(sum(received_sizes), dtype=torch.uint8, device=self.device)
        with self._waiting("with parts of matrices"):
            work = dist.all_to_all_single(
                received, sent, received_sizes, sent_sizes, group=self.groups[axis], async_op=True
            )

        def wait() -> None:
            with self._waiting("with parts of matrices"):
                work.wait()

        return received, wait

    @contextlib.contextmanager
    def _waiting(self, what: str) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            said = str(error).strip().splitlines()
            raise RuntimeError(
                f"process {dist.get_rank()} waited in vain for {self.size - 1} other"
                f"{'s' if self.size > 2 else ''} {what}: one has ended, hangs or makes another step; "
                f"restart all of them from the last checkpoint ({said[0] if said else type(error).__name__})"
            ) from error


def _timeout_of(group: dist.ProcessGroup) -> timedelta | None:
    """How long the group waits for a process; None, which is torch's default, if this torch does not tell."""
    try:
        return group._get_backend(group._device_types[0]).options._timeout
    except (AttributeError, IndexError, RuntimeError):
        return None
