"""Runs executors that wait for each other, because each has a part of the elements that a reduction combines.

Several lowerings and specialisations may step the parameters of an optimizer at once, and each parameter may be a piece
of a larger one whose rest is in other processes.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Hashable, Iterable, Sequence

from torch import Tensor

from fallline.lower.executor import Deferred, Partial, Passes
from fallline.lower.transfer import Transfer
from fallline.rules.node import RuleError
from fallline.rules.program import Program
from fallline.rules.space import Space


class Joiner(abc.ABC):
    """Joins reductions with those of other processes, each of which calls it equally often and with the same keys."""

    def begin(self, run: Hashable) -> None:  # noqa: B027, one that keeps no layout need not know
        """A run begins whose stops follow each other as in every run of this name."""

    @abc.abstractmethod
    def join(self, partials: Sequence[Partial], transfers: Sequence[Transfer]) -> None:
        """Replaces the values of each reduction, in place, by those over all processes, and moves what is to move."""


def alone(passes: Passes) -> Deferred:
    """Runs an executor that has all elements itself."""
    try:
        while True:
            next(passes)
    except StopIteration as end:
        return end.value


def run_coupled(runs: Sequence[Passes], joiner: Joiner | None = None) -> list[Deferred]:
    """Runs all executors, each until it needs the results of the others.

    Reductions over the pieces of a parameter are joined as soon as every run has arrived at one, except for runs that
    wait for a reduction over all parameters.  Reductions over all parameters are joined when every run has arrived at
    one.  The order therefore depends on the programs alone, and processes with the same programs agree on it.
    """
    finished: dict[int, Deferred] = {}
    waiting = {i: partials for i, run in enumerate(runs) if (partials := _advance(run, finished, i)) is not None}
    while waiting:
        arrived = [i for i, partials in waiting.items() if not any(p.over_all for p in partials)] or list(waiting)
        _join([partial for i in arrived for partial in waiting[i]], joiner)
        for i in arrived:
            partials = _advance(runs[i], finished, i)
            if partials is None:
                del waiting[i]
            else:
                waiting[i] = partials
    return [finished[i] for i in range(len(runs))]


def _advance(run: Passes, finished: dict[int, Deferred], number: int) -> Sequence[Partial | Transfer] | None:
    """Continues to the next reduction of which other executors may have a part; None at the end."""
    try:
        return next(run)
    except StopIteration as end:
        finished[number] = end.value
        return None


def _join(requests: Sequence[Partial | Transfer], joiner: Joiner | None) -> None:
    shared: dict[Hashable, list[Partial]] = {}
    for partial in requests:
        if isinstance(partial, Transfer):
            continue
        if not partial.counted:
            partial.values.fill_(0.0 if partial.kind == "sum" else -math.inf)
        shared.setdefault(partial.key, []).append(partial)
    for first, *others in shared.values():
        for other in others:
            _add(first.values, other.values, first.kind)
    if joiner is not None:
        joiner.join(
            [first for first, *_ in shared.values()],
            [request for request in requests if isinstance(request, Transfer)],
        )
    for first, *others in shared.values():
        for other in others:
            other.values.copy_(first.values)


def _add(into: Tensor, values: Tensor, kind: str) -> None:
    values = values.to(into.device, into.dtype)
    into.copy_(into + values if kind == "sum" else into.maximum(values))


def check_coupled(programs: Iterable[Program]) -> None:
    """Raises if programs of one rule reduce over all parameters in different orders; they would wait for ever."""
    batches = {tuple(_reductions_over_all(program)): program.name for program in programs}
    if len(batches) > 1:
        raise RuleError(
            f"{next(iter(batches.values()))} sums over all parameters in some of its forms and not in others, or in "
            "another order; compute these sums before any `if` on a static argument"
        )


def _reductions_over_all(program: Program) -> list[tuple[str, ...]]:
    """The kinds ("sum" or "max") of the reductions over all parameters, for each pass that has some."""
    kinds = [tuple(node.attr[0] for node in nodes if node.space == Space.ALL) for nodes in program.reductions]
    return [here for here in kinds if here]
