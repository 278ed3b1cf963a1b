"""Several optimizers, each with a piece of every parameter, that step together in threads, as processes would."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fallline.lower.coupled import Joiner
from fallline.lower.executor import Partial
from fallline.lower.item import Place
from fallline.lower.transfer import Transfer


class Meeting:
    """Where ranks wait for each other."""

    def __init__(self, ranks: int):
        self.barrier = threading.Barrier(ranks, timeout=1800)  # ends a hang; others' work may take minutes
        self.given: list[Sequence[Partial]] = [()] * ranks
        self.joined: dict[Any, Tensor] = {}


class RankJoiner(Joiner):
    def __init__(self, meeting: Meeting, rank: int):
        self.meeting, self.rank = meeting, rank

    def join(self, partials: Sequence[Partial], transfers: Sequence[Transfer]) -> None:
        assert not transfers, "matrices are tested with real processes"
        meeting = self.meeting
        meeting.given[self.rank] = partials
        meeting.barrier.wait()
        if self.rank == 0:
            meeting.joined = {}
            for partial in (p for given in meeting.given for p in given):
                known = meeting.joined.get(partial.key)
                if known is None:
                    meeting.joined[partial.key] = partial.values.clone()
                else:
                    meeting.joined[partial.key] = (
                        known + partial.values if partial.kind == "sum" else known.maximum(partial.values)
                    )
        meeting.barrier.wait()
        for partial in partials:
            partial.values.copy_(meeting.joined[partial.key])
        meeting.barrier.wait()


def cut(length: int, pieces: int) -> list[int]:
    """Uneven lengths of pieces; of three, the one in the middle is empty."""
    first = (length * 2 + 2) // 5
    return [first, length - first] if pieces == 2 else [first, 0, length - first]


class Ranks:
    """The same optimizer on every rank; ``whole`` are the parameters that they have pieces of."""

    def __init__(self, make: Callable[[list[Tensor]], Any], whole: Sequence[Tensor], pieces: int):
        meeting = Meeting(pieces)
        self.lengths = [cut(p.shape[0], pieces) for p in whole]
        self.params: list[list[Tensor]] = [[] for _ in range(pieces)]
        self.optimizers = []
        for rank in range(pieces):
            places = {}
            for p, lengths in zip(whole, self.lengths, strict=True):
                start = sum(lengths[:rank])
                piece = torch.nn.Parameter(p.detach()[start : start + lengths[rank]].clone())
                self.params[rank].append(piece)
                places[piece] = Place(tuple(p.shape), start)
            optimizer = make(self.params[rank])
            optimizer.shard(places, RankJoiner(meeting, rank))
            self.optimizers.append(optimizer)

    def each(self, work: Callable[[int], None]) -> None:
        """Calls work(rank) on a thread for each; the first error of any is raised."""
        errors: list[BaseException] = []

        def guarded(rank: int) -> None:
            try:
                work(rank)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=guarded, args=(rank,)) for rank in range(len(self.optimizers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def give(self, grads: Sequence[Tensor]) -> None:
        for i, grad in enumerate(grads):
            for rank, piece in enumerate(grad.split(self.lengths[i])):
                self.params[rank][i].grad = piece.clone()

    def step(self, grads: Sequence[Tensor], method: str = "step") -> None:
        self.give(grads)
        self.each(lambda rank: getattr(self.optimizers[rank], method)())

    def gathered(self, i: int) -> Tensor:
        return torch.cat([params[i].detach() for params in self.params])
