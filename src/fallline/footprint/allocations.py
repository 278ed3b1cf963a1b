"""The allocations of one training iteration: which memory lives from when to when, and for what.

An iteration has the same allocations in the same order for every batch size; only their sizes change. They are affine
in the batch, and quadratic at most in the sequence, so that few traces give the peak of any other size exactly.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Kind(enum.Enum):
    """The purpose of a piece of memory."""

    PARAMETERS = "parameters"
    BUFFERS = "module buffers"
    GRADIENTS = "gradients"
    ACTIVATIONS = "activations"
    TEMPORARY = "temporaries of the backward pass"
    INPUTS = "inputs"


KINDS = tuple(Kind)


class NotAlike(Exception):
    """Raised if two traces do not have the same allocations in the same order."""


@dataclasses.dataclass(frozen=True)
class Allocations:
    """Events in order: block ``block[i]`` is taken if ``taken[i]``, otherwise it is given back."""

    block: Integers
    taken: NDArray[np.bool_]
    size: Integers
    """The bytes of each block."""
    kind: Integers
    """The purpose of each block, an index into ``KINDS``."""
    became_gradient: Integers
    """The event before which a block became the gradient of a parameter; -1 for all other blocks."""
    step_at: int
    """The event before which the optimizer steps."""

    def held(self, until: int | None = None) -> Integers:
        """The bytes in use after each event."""
        changes = np.where(self.taken, 1, -1) * self.size[self.block]
        return np.cumsum(changes[:until])

    def peak_of_gradients_pass(self) -> tuple[int, int]:
        """The event at which the forward and backward pass need most, and the bytes in use then."""
        held = self.held(self.step_at)
        at = int(held.argmax())
        return at, int(held[at])

    def at(self, event: int) -> Mapping[Kind, int]:
        """The bytes in use after an event, by purpose."""
        alive: dict[int, int] = {}
        signs = np.where(self.taken[: event + 1], 1, -1)
        for number, kind in enumerate(KINDS):
            mine = self.kind[self.block[: event + 1]] == number
            alive[number] = int((signs * self.size[self.block[: event + 1]] * mine).sum())
            if kind is Kind.GRADIENTS:
                alive[number] = max(0, alive[number])
        return {kind: alive[number] for number, kind in enumerate(KINDS)}

    def before_step(self) -> Mapping[Kind, int]:
        """The bytes in use when the optimizer steps, by purpose."""
        return self.at(self.step_at - 1)

    def of_kind(self, kind: Kind) -> int:
        """All bytes of one purpose that are in use when the optimizer steps."""
        return self.before_step()[kind]

    def with_gradients_held(self) -> Allocations:
        """The same iteration as a later one of several whose gradients are added up.

        Gradients are there from the start, and each new one lives only until it has been added.
        """
        gradients = [int(one) for one in np.flatnonzero(self.kind == KINDS.index(Kind.GRADIENTS))]
        held = {one: len(self.size) + at for at, one in enumerate(gradients)}
        added: dict[int, list[int]] = {}
        for one in gradients:
            added.setdefault(int(self.became_gradient[one]), []).append(one)
        events = [(copy, True) for copy in held.values()]
        step_at = -1
        for at, (one, is_taken) in enumerate(zip(self.block.tolist(), self.taken.tolist(), strict=True)):
            events += [(new, False) for new in added.get(at, ())]
            if at == self.step_at:
                step_at = len(events)
            events.append((held.get(one, one) if not is_taken else one, is_taken))
        events += [(new, False) for new in added.get(len(self.block), ())]
        temporary = self.kind.copy()
        temporary[gradients] = KINDS.index(Kind.TEMPORARY)
        return Allocations(
            np.array([one for one, _ in events], np.int64),
            np.array([is_taken for _, is_taken in events], np.bool_),
            np.concatenate([self.size, self.size[gradients]]),
            np.concatenate([temporary, self.kind[gradients]]),
            np.full(len(self.size) + len(gradients), -1, np.int64),
            len(events) if step_at < 0 else step_at,
        )


def through(traces: Mapping[int, Allocations], at: int) -> Allocations:
    """The allocations at another size of one axis, by the polynomial through the traces at some sizes.

    Two traces make it affine, three quadratic.
    """
    sizes = sorted(traces)
    first = traces[sizes[0]]
    for other in (traces[size] for size in sizes[1:]):
        if not _alike(first, other):
            raise NotAlike
    found = np.zeros(len(first.size))
    for size in sizes:
        others = [other for other in sizes if other != size]
        found += traces[size].size * np.prod([(at - other) / (size - other) for other in others])
    return dataclasses.replace(first, size=np.rint(found).astype(np.int64))


def _alike(first: Allocations, other: Allocations) -> bool:
    return np.array_equal(first.block, other.block) and np.array_equal(first.taken, other.taken)


def recorded(
    events: Sequence[tuple[int, bool]], sizes: Sequence[int], kinds: Sequence[Kind], became: Sequence[int], step_at: int
) -> Allocations:
    """From plain lists, as a tracker keeps them."""
    return Allocations(
        np.array([block for block, _ in events], np.int64),
        np.array([taken for _, taken in events], np.bool_),
        np.array(sizes, np.int64),
        np.array([KINDS.index(kind) for kind in kinds], np.int64),
        np.array(became, np.int64),
        step_at,
    )
