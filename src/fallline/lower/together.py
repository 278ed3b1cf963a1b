"""Passes one by one, so that programs which sum over all parameters can wait for each other.

The parameters of an optimizer may be stepped by several lowerings and specialisations at once; what a rule
reduces over "all" of them is known only when each has finished the pass.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from fallline.rules.graph import RuleError, Space
from fallline.rules.program import Program

Late = dict[str, list[float]]
"""Scalar states that follow from reductions: name → a value per item."""

Passes = Generator[list[Tensor], list[Tensor], Late]
"""A run that gives its part of the reductions over all parameters after every pass but the last, and is sent
what they are for all."""


def alone(passes: Passes) -> Late:
    """Runs a program that has all parameters itself."""
    try:
        part = next(passes)
        while True:
            part = passes.send(part)
    except StopIteration as end:
        return end.value


def together(programs: Sequence[Program], runs: Sequence[Passes]) -> list[Late]:
    """Runs programs of one rule, each as far as it gets before it needs what the others have."""
    batches = [_reductions_over_all(program) for program in programs]
    if any(other != batches[0] for other in batches):
        raise RuleError(
            f"{programs[0].name} sums over all parameters in some of its forms and not in others, or in another "
            "order; compute these sums before any `if` on a static argument"
        )
    finished: dict[int, Late] = {}
    parts = [_advance(run, finished, i, None) for i, run in enumerate(runs)]
    for kinds in batches[0]:
        columns = [torch.stack([part[i] for part in parts]) for i in range(len(kinds))]
        joined = [x.sum() if kind == "sum" else x.max() for x, kind in zip(columns, kinds, strict=True)]
        parts = [_advance(run, finished, i, joined) for i, run in enumerate(runs)]
    return [finished[i] for i in range(len(runs))]


def _advance(run: Passes, finished: dict[int, Late], number: int, joined: list[Tensor] | None) -> list[Tensor]:
    """Goes on to the next pass that reduces over all parameters, or to the end."""
    try:
        part = next(run) if joined is None else run.send(joined)
        while not part:
            part = run.send([])
        return part
    except StopIteration as end:
        finished[number] = end.value
        return []


def _reductions_over_all(program: Program) -> list[list[str]]:
    """For each pass that reduces over all parameters, how: "sum" or "max"."""
    kinds = [[node.attr[0] for node in nodes if node.space == Space.ALL] for nodes in program.reductions]
    return [here for here in kinds if here]
