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
    """Runs programs of one rule in step with each other."""
    kinds = _reductions_over_all(programs)
    parts = [next(run) for run in runs]
    for k, here in enumerate(kinds):
        joined = [
            torch.stack([part[i] for part in parts]).sum() if kind == "sum" else torch.stack([p[i] for p in parts]).max()
            for i, kind in enumerate(here)
        ]
        if k + 1 < len(kinds):
            parts = [run.send(joined) for run in runs]
    return [_finish(run, joined) for run in runs]


def _finish(run: Passes, joined: list[Tensor]) -> Late:
    try:
        run.send(joined)
    except StopIteration as end:
        return end.value
    raise AssertionError("a run has more passes than its program")


def _reductions_over_all(programs: Sequence[Program]) -> list[list[str]]:
    """Per pass, "sum" or "max" for each reduction over all parameters; the same in all programs."""
    found = [
        [[n.attr[0] for n in nodes if n.space == Space.ALL] for nodes in program.reductions] for program in programs
    ]
    if any(other != found[0] for other in found):
        raise RuleError(
            f"{programs[0].name} sums over all parameters in some of its forms and not in others, or in another "
            "order; compute these sums before any `if` on a static argument"
        )
    return found[0]
