"""Runs a chain of matrix functions over parameters in pieces: each whole at its owner, who sends the result back."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping, Sequence

import torch
from torch import Tensor

from fallline.distributed import owners as sharing
from fallline.lower.chain import prepare
from fallline.lower.coupled import alone
from fallline.lower.executor import Deferred, Executor, Lowering, Partial, Passes, StepScalars
from fallline.lower.item import Item, follow
from fallline.lower.transfer import Owner, Transfer
from fallline.rules.program import Program

StepPart = Generator[Sequence[Partial | Transfer], None, None]


class OwnedExecutor(Executor):
    """``items`` are the pieces that are here; ``wholes`` the items of those that this process owns, by position.

    A step sends parameters and gradients to their owners, steps them there as one process would, and sends the new
    parameters back: two exchanges, whatever the rule and however many matrices.
    """

    def __init__(
        self,
        lowering: Lowering,
        program: Program,
        items: Sequence[Item],
        owners: Sequence[Owner],
        wholes: Mapping[int, Item],
    ):
        super().__init__(program, items)
        self.owners, self.wholes = list(owners), dict(wholes)
        self.round_of = [0] * len(self.items)
        """The round in which each matrix is stepped.  Pieces have one: all have arrived before it."""
        if owners[0].copied:
            self.round_of = sharing.rounds([item.shape for item in self.items], [owner.rank for owner in owners])
        count = sharing.ROUNDS if owners[0].copied else 1
        self.parts = [[i for i in self.wholes if self.round_of[i] == k] for k in range(count)]
        """For each round, the positions of the owned items, in the order of the executor that steps them."""
        self.inner = [prepare(lowering, program, [self.wholes[i] for i in part]) for part in self.parts]

    def run(self, scalars: StepScalars) -> Deferred:
        with torch.no_grad():
            return alone(self.passes(scalars))

    def passes(self, scalars: StepScalars) -> Passes:
        active = list(self.present)
        grads = dict(self.grads)
        wholes: dict[int, Tensor] = {}
        gathered: list[Transfer] = []
        for i in active:
            if self.owners[i].copied:
                if i in self.wholes:
                    wholes[i] = grads[i]
                continue
            if i in self.wholes:
                wholes[i] = torch.empty(self.wholes[i].shape, dtype=grads[i].dtype, device=grads[i].device)
            gathered.append(Transfer(("parameter", self.items[i].number), self.owners[i], self.here(i), self.whole(i)))
            gathered.append(Transfer(("gradient", self.items[i].number), self.owners[i], grads[i], wholes.get(i)))
        if gathered:
            yield gathered
        deferred: Deferred = {name: [0.0] * len(self.items) for name in self.program.deferred_writes}
        numbers: dict[tuple[str, int], Tensor] = {}
        last = len(self.parts) - 1
        for k in range(len(self.parts)):
            yield from self.step(k, wholes, scalars, deferred)
            results = []
            for i in (i for i in active if self.round_of[i] == k):
                key, owner = self.items[i].number, self.owners[i]
                results.append(Transfer(("result", key), owner, self.here(i), self.whole(i), False, early=k < last))
                for name in deferred:
                    value = numbers[name, i] = torch.tensor([deferred[name][i]], dtype=torch.float64)
                    owner = dataclasses.replace(owner, copied=True)
                    results.append(Transfer((name, key), owner, value, value, False, early=k < last))
            if active:
                yield results
        for (name, i), value in numbers.items():
            deferred[name][i] = float(value)
        self.tell_autograd()
        return deferred

    def step(self, k: int, grads: Mapping[int, Tensor], scalars: StepScalars, deferred: Deferred) -> StepPart:
        """Steps what this process owns of a round; scalar states go to the positions of all items."""
        part, inner = self.parts[k], self.inner[k]
        own = [at for at, i in enumerate(part) if i in grads]
        for i in (part[at] for at in own):
            item = self.wholes[i]
            if item.low_precision_copy is not None:
                follow(item.param.data, item.low_precision_copy.data)
        inner.bind({at: grads[part[at]] for at in own})
        if own:
            found = yield from inner.passes(_picked(scalars, part))
            for name, values in found.items():
                for at in own:
                    deferred[name][part[at]] = values[at]

    def here(self, i: int) -> Tensor:
        """The part of a parameter that is in this process."""
        item = self.items[i]
        return (item.low_precision_copy or item.param).data

    def whole(self, i: int) -> Tensor | None:
        """The whole parameter, at its owner."""
        item = self.wholes.get(i)
        return None if item is None else (item.low_precision_copy or item.param).data

    @property
    def launches(self) -> int:
        return sum(inner.launches for inner in self.inner)

    def has_moved(self, items: Sequence[int]) -> bool:
        wanted = set(items)
        return any(
            inner.has_moved([at for at, i in enumerate(part) if i in wanted])
            for inner, part in zip(self.inner, self.parts, strict=True)
        )

    def release(self) -> None:
        super().release()
        for inner in self.inner:
            inner.release()


def _picked(scalars: StepScalars, part: Sequence[int]) -> StepScalars:
    """The numbers of a few items."""
    return StepScalars(
        scalars.sets,
        [scalars.set_of[i] for i in part],
        scalars.grad_factor,
        None if scalars.keys is None else [scalars.keys[i] for i in part],
    )
