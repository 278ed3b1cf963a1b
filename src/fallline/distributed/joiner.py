"""Joins the reductions of a step with those of other processes: a flat buffer of sums, and one of maxima, per pass."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence

import torch

from fallline.distributed.exchange import begin_exchange, exchange
from fallline.distributed.ranks import Ranks
from fallline.lower.coupled import Joiner
from fallline.lower.executor import Partial
from fallline.lower.transfer import Transfer


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where each reduction lies in the buffer of its kind; the same in all processes, whichever of them have a part."""

    slices: dict[tuple[str, str], slice]
    sizes: dict[str, int]


class GroupJoiner(Joiner):
    """Joins over all ranks.

    A process may have no part of a reduction that others have (a block of codes that two others share).  The first time
    at each stop of a step, the processes tell each other which reductions they have; afterwards they know.
    """

    def __init__(self, ranks: Ranks):
        self.ranks = ranks
        self._layouts: dict[tuple[object, int], Layout] = {}
        self._run: object = None
        self._stop = 0

    def begin(self, run: object) -> None:
        self._run, self._stop = run, 0

    def join(self, partials: Sequence[Partial], transfers: Sequence[Transfer]) -> None:
        exchange(self.ranks, transfers)
        site = (self._run, self._stop)
        self._stop += 1
        layout = self._layouts.get(site)
        if layout is None:
            layout = self._layouts[site] = self._agreed(partials)
        for kind, size in layout.sizes.items():
            self._join_kind(kind, size, layout, [partial for partial in partials if partial.kind == kind])

    def _join_kind(self, kind: str, size: int, layout: Layout, partials: Sequence[Partial]) -> None:
        start = 0.0 if kind == "sum" else -math.inf
        buffer = torch.full((size,), start, dtype=torch.float64, device=self.ranks.device)
        places = [self._place(layout, partial) for partial in partials]
        for partial, place in zip(partials, places, strict=True):
            buffer[place] = partial.values.reshape(-1).to(buffer)
        (self.ranks.sum if kind == "sum" else self.ranks.max)(buffer)
        for partial, place in zip(partials, places, strict=True):
            partial.values.copy_(buffer[place].view(partial.values.shape))

    def _place(self, layout: Layout, partial: Partial) -> slice:
        place = layout.slices.get((partial.kind, repr(partial.key)))
        if place is None or place.stop - place.start != partial.values.numel():
            raise RuntimeError(f"the reduction {partial.key} was not announced to the other processes")
        return place

    def _agreed(self, partials: Sequence[Partial]) -> Layout:
        own = [(partial.kind, repr(partial.key), partial.values.numel()) for partial in partials]
        everyone = {tuple(entry) for text in self.ranks.texts(json.dumps(own)) for entry in json.loads(text)}
        slices: dict[tuple[str, str], slice] = {}
        sizes: dict[str, int] = {}
        for kind, key, numel in sorted(everyone):
            at = sizes.get(kind, 0)
            slices[kind, key] = slice(at, at + numel)
            sizes[kind] = at + numel
        return Layout(slices, sizes)


class CopiesJoiner(Joiner):
    """For parameters and gradients that all ranks have whole: there is nothing to reduce, only owners to hear from."""

    def __init__(self, ranks: Ranks):
        self.ranks = ranks
        self._under_way: list[Callable[[], None]] = []

    def begin(self, run: object) -> None:
        self._under_way.clear()

    def join(self, partials: Sequence[Partial], transfers: Sequence[Transfer]) -> None:
        self._under_way += begin_exchange(self.ranks, transfers)
        if not any(transfer.early for transfer in transfers):
            for finish in self._under_way:
                finish()
            self._under_way.clear()
