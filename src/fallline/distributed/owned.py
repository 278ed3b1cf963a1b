"""Runs a chain of matrix functions over parameters in pieces: each whole at its owner, who sends the result back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fallline.lower.chain import prepare
from fallline.lower.coupled import alone
from fallline.lower.executor import Deferred, Executor, Lowering, Passes, StepScalars
from fallline.lower.item import Item, follow
from fallline.lower.transfer import Owner, Transfer
from fallline.rules.program import Program


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
        self.positions = list(self.wholes)
        """The positions of the owned items, in the order of the executor that steps them."""
        self.inner = prepare(lowering, program, list(self.wholes.values()))

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
        deferred = yield from self.step(wholes, scalars)
        results = [
            Transfer(("result", self.items[i].number), self.owners[i], self.here(i), self.whole(i), to_owner=False)
            for i in active
        ]
        numbers = {
            (name, i): torch.tensor([deferred[name][i]], dtype=torch.float64) for name in deferred for i in active
        }
        for (name, i), value in numbers.items():
            owner = dataclasses.replace(self.owners[i], copied=True)
            results.append(Transfer((name, self.items[i].number), owner, value, value, to_owner=False))
        if results:
            yield results
        for (name, i), value in numbers.items():
            deferred[name][i] = float(value)
        self.tell_autograd()
        return deferred

    def step(self, grads: Mapping[int, Tensor], scalars: StepScalars) -> Passes:
        """Steps what this process owns; returns the scalar states by the positions of all items."""
        for i in grads:
            item = self.wholes[i]
            if item.low_precision_copy is not None:
                follow(item.param.data, item.low_precision_copy.data)
        own = [k for k, i in enumerate(self.positions) if i in grads]
        self.inner.bind({k: grads[self.positions[k]] for k in own})
        found = {}
        if own:
            found = yield from self.inner.passes(self.own_scalars(scalars))
        deferred: Deferred = {name: [0.0] * len(self.items) for name in self.program.deferred_writes}
        for name, values in found.items():
            for k in own:
                deferred[name][self.positions[k]] = values[k]
        return deferred

    def own_scalars(self, scalars: StepScalars) -> StepScalars:
        return StepScalars(
            scalars.sets,
            [scalars.set_of[i] for i in self.positions],
            scalars.grad_factor,
            None if scalars.keys is None else [scalars.keys[i] for i in self.positions],
        )

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
        return self.inner.launches

    def has_moved(self, items: Sequence[int]) -> bool:
        wanted = set(items)
        return self.inner.has_moved([k for k, i in enumerate(self.positions) if i in wanted])

    def release(self) -> None:
        super().release()
        self.inner.release()
