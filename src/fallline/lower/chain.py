"""Runs a program that calls matrix functions: each of its parts by one lowering, with the calls in between.

Parameters are taken in batches of equal shape.  The scratch memory of a batch is one tensor, so that a matrix function
gets all of its matrices at once, and all batches use the same memory, one after another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from fallline.lower.coupled import alone
from fallline.lower.executor import Deferred, Executor, Lowering, Partial, Passes, StepScalars
from fallline.lower.item import Item, Operand
from fallline.lower.matrix_calls import FUNCTIONS, Matrices
from fallline.lower.transfer import Transfer
from fallline.rules.blocks import Squares
from fallline.rules.chain import Chain
from fallline.rules.graph import Call
from fallline.rules.program import Program

BATCH_ELEMENTS = 2**20
"""The most elements of a batch, unless one parameter has more: small matrices gain from being many, large ones do
not.  The scratch memory of a batch stays in a shared cache, and the square matrices of one parameter are not copied."""

TOLERATED_FAILURES = 3
"""How often in a row the inverse root of a matrix may fail before the step does, as in Distributed Shampoo."""


def prepare(lowering: Lowering, program: Program, items: Sequence[Item]) -> Executor:
    """An executor of a program, by this lowering."""
    if isinstance(program, Chain):
        return ChainExecutor(lowering, program, items)
    return lowering.prepare(program, items)


def missing(lowering: Lowering, program: Program) -> str | None:
    """Why this installation cannot run the program by this lowering; None if it can."""
    return next((reason for part in program.parts if (reason := lowering.missing(part)) is not None), None)


class ChainExecutor(Executor):
    """The parts of a chain over batches of items, one batch after another."""

    def __init__(self, lowering: Lowering, chain: Chain, items: Sequence[Item]):
        super().__init__(chain, items)
        if any(item.place is not None for item in self.items):
            raise ValueError(f"{chain.name} steps whole matrices, and its parameters are pieces; gather them first")
        kinds = [(tuple(item.shape), item.dtype, item.param.data.device) for item in self.items]
        positions = _batches(kinds, [item.numel for item in self.items])
        self.memory = _scratch(chain, self.items, positions)
        self.batches = [Batch(lowering, chain, self.items, where, self.memory) for where in positions]

    def run(self, scalars: StepScalars) -> Deferred:
        with torch.no_grad():
            return alone(self.passes(scalars))

    def passes(self, scalars: StepScalars) -> Passes:
        deferred: Deferred = {name: [0.0] * len(self.items) for name in self.program.deferred_writes}
        for batch in self.batches:
            yield from batch.passes(self.grads, scalars, deferred)
        return deferred

    @property
    def launches(self) -> int:
        return sum(executor.launches for batch in self.batches for executor in batch.executors)

    def has_moved(self, items: Sequence[int]) -> bool:
        wanted = set(items)
        return any(batch.has_moved(wanted) for batch in self.batches)

    def release(self) -> None:
        super().release()
        for batch in self.batches:
            for executor in batch.executors:
                executor.release()


class Batch:
    """Items of one shape, with an executor for each part of the chain."""

    def __init__(
        self, lowering: Lowering, chain: Chain, items: Sequence[Item], positions: Sequence[int], memory: Memory
    ):
        self.chain, self.positions = chain, positions
        first = items[positions[0]]
        self.shape = tuple(first.shape)
        shape = (len(positions), *self.shape)
        self.scratch = {
            name: memory[name, first.dtype, first.param.data.device][: torch.Size(shape).numel()].view(shape)
            for name in chain.scratch
        }
        self.items = [
            dataclasses.replace(
                items[i], states={**items[i].states, **{name: Operand(t[k]) for name, t in self.scratch.items()}}
            )
            for k, i in enumerate(positions)
        ]
        self.executors = [lowering.prepare(link.program, self.items) for link in chain.links]
        self.failures: dict[tuple[str, int, int], int] = {}
        """How often in a row a matrix could not be computed, by its state, parameter and number."""

    def passes(
        self, grads: Mapping[int, Tensor], scalars: StepScalars, deferred: Deferred
    ) -> Iterator[Sequence[Partial | Transfer]]:
        present = {k: grads[i] for k, i in enumerate(self.positions) if i in grads}
        if not present:
            return
        for link, executor in zip(self.chain.links, self.executors, strict=True):
            executor.bind(present)
            found = yield from executor.passes(self.scalars(scalars, link.host_values))
            for name, late in found.items():
                for k in present:
                    deferred[name][self.positions[k]] = late[k]
            for call, numbers in zip(link.calls, link.numbers, strict=True):
                for members, values in self.by_numbers(scalars, numbers, list(present)):
                    if values.pop("when", 1.0):
                        self.call(call, members, values)

    def scalars(self, scalars: StepScalars, picked: Sequence[int]) -> StepScalars:
        """The numbers of one part."""
        return StepScalars(
            [tuple(numbers[j] for j in picked) for numbers in scalars.sets],
            [scalars.set_of[i] for i in self.positions],
            scalars.grad_factor,
            None if scalars.keys is None else [scalars.keys[i] for i in self.positions],
        )

    def by_numbers(
        self, scalars: StepScalars, numbers: Mapping[str, int], present: Sequence[int]
    ) -> Iterator[tuple[list[int], dict[str, float]]]:
        """Members for which a call has the same numbers: all of them, unless they have made different steps."""
        found: dict[tuple[float, ...], list[int]] = {}
        for k in present:
            own = scalars.sets[scalars.set_of[self.positions[k]]]
            found.setdefault(tuple(own[at] for at in numbers.values()), []).append(k)
        for values, members in found.items():
            yield members, dict(zip(numbers, values, strict=True))

    def call(self, call: Call, members: Sequence[int], numbers: Mapping[str, float]) -> None:
        """Runs a matrix function on all members at once, and puts what it changes where it was."""
        complete = len(members) == len(self.items)
        full = {
            name: self.scratch[where] if complete else self.scratch[where][members]
            for name, (where, _) in call.values.items()
        }
        squares = {name: self.matrices(state, members) for name, state in call.states.items()}
        changed = FUNCTIONS[call.function](**full, **squares, **numbers, **call.settings)
        for name, value in changed.items():
            if name in full:
                target = self.scratch[call.values[name][0]]
                if complete and value is not target:
                    target.copy_(value)
                elif not complete:
                    target[members] = value
                continue
            state = call.states[name]
            for k, one in zip(members, value.flat, strict=True):
                if one.data_ptr() != self.items[k].small[state].data_ptr():
                    self.items[k].small[state].copy_(one)
            if value.outcomes is not None:
                self.count_failures(state, members, value.outcomes)

    def matrices(self, state: str, members: Sequence[int]) -> Matrices:
        """A state of square matrices of these members: a copy of all together, or that of one as it is."""
        layout = self.chain.states[state].shape
        assert isinstance(layout, Squares)
        own = [self.items[k].small[state] for k in members]
        flat = own[0].unsqueeze(0) if len(own) == 1 else torch.stack(own)
        return Matrices(flat, layout, self.shape, [self.items[k].number for k in members])

    def count_failures(self, state: str, members: Sequence[int], outcomes: Tensor) -> None:
        """Raises where a matrix has failed too often in a row: its factors hold NaN, or cannot be damped."""
        for k, own in zip(members, outcomes.tolist(), strict=True):
            for number, outcome in enumerate(own):
                if outcome > 0:
                    self.failures.pop((state, k, number), None)
                elif outcome < 0:
                    self.failures[state, k, number] = 1 + self.failures.get((state, k, number), 0)
        worst = [k for (_, k, _), count in self.failures.items() if count > TOLERATED_FAILURES]
        if worst:
            item = self.items[min(worst)]
            raise RuntimeError(
                f"{self.chain.name.partition('.')[0]}: a matrix of parameter {item.number}, of shape {self.shape}, has "
                f"had no inverse root in {TOLERATED_FAILURES + 1} refreshes in a row, nor in float64: its gradients "
                "were not finite, or their squares were not (entries above 1e19), or its factors have no damping; skip "
                "such steps with skip_nonfinite=True, or raise epsilon"
            )

    def has_moved(self, items: set[int]) -> bool:
        own = [k for k, i in enumerate(self.positions) if i in items]
        return any(executor.has_moved(own) for executor in self.executors)


Memory = dict[tuple[str, torch.dtype, torch.device], Tensor]
"""Scratch memory by call, dtype and device."""


def _batches(kinds: Sequence[tuple], sizes: Sequence[int]) -> list[list[int]]:
    """Positions of equal kind, in batches of a limited size, in the order of their first members."""
    found: dict[tuple, list[list[int]]] = {}
    for i, (kind, size) in enumerate(zip(kinds, sizes, strict=True)):
        batches = found.setdefault(kind, [[]])
        if batches[-1] and (len(batches[-1]) + 1) * size > BATCH_ELEMENTS:
            batches.append([])
        batches[-1].append(i)
    return [batch for batches in found.values() for batch in batches]


def _scratch(chain: Chain, items: Sequence[Item], batches: Sequence[Sequence[int]]) -> Memory:
    sizes: dict[tuple[torch.dtype, torch.device], int] = {}
    for batch in batches:
        first = items[batch[0]]
        key = first.dtype, first.param.data.device
        sizes[key] = max(sizes.get(key, 0), len(batch) * first.numel)
    return {
        (name, *key): torch.empty(size, dtype=key[0], device=key[1])
        for name in chain.scratch
        for key, size in sizes.items()
    }
