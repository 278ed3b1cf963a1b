"""Further entry points of a rule: ``train``, ``eval``, ``update_hessian``, ``restart_opt``."""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING

from fallline.optim.clipping import gradient_factor
from fallline.optim.plan import Bucket, Plan
from fallline.rules.program import Program

if TYPE_CHECKING:
    from fallline.optim.optimizer import RuleOptimizer


def run_entry(optimizer: RuleOptimizer, name: str) -> None:
    """Runs it over every parameter that has states; one that uses gradients, over those that have one."""
    plan, sparse = optimizer._bound_plan(whole=True)
    try:
        ran = _run(optimizer, name, plan, has_sparse=bool(sparse))
    finally:
        plan.release()
    reminder = optimizer.description.reminder
    if reminder is not None and reminder.entry == name:
        if not ran:
            called = f"{type(optimizer).__name__}.{name}()"
            raise RuntimeError(f"{called} found no gradient; call it after backward() and before zero_grad()")
        optimizer._until_reminded = 0


def _run(optimizer: RuleOptimizer, name: str, plan: Plan, has_sparse: bool) -> bool:
    """Whether there was a parameter to run it on."""
    programs = _programs(plan, name)
    uses_gradient = any(program.uses_gradient for program in programs.values())
    if uses_gradient and has_sparse:
        raise TypeError(f"{name}() does not take sparse gradients")
    if not uses_gradient and (newcomers := {param for param in plan.completed if not plan.states.get(param)}):
        plan = plan.without(newcomers)
        programs = _programs(plan, name)
    companions = [bucket.companion(program) for bucket, program in programs.items()]
    stepped = [(bucket, bucket.executor.present) for bucket in companions if bucket.executor.present]
    numbers = plan.scalars.read(optimizer.param_groups, stepped)
    factor = gradient_factor(optimizer, plan.buckets, ()) if uses_gradient else 1.0
    if factor is None:
        return True
    optimizer._run(plan, stepped, numbers, factor)
    optimizer._keep(plan)
    plan.scalars.write()
    return bool(stepped)


def _programs(plan: Plan, name: str) -> dict[Bucket, Program]:
    """The programs of the buckets whose rule has the entry."""
    traces = {b: dataclasses.replace(b.program.trace, entry=name, cautious=False) for b in plan.buckets}
    return {bucket: bucket.rule.program(trace) for bucket, trace in traces.items() if name in bucket.rule.entries}


def remind(optimizer: RuleOptimizer) -> None:
    """Warns once if an entry point without which the optimizer is another one is not called."""
    optimizer._until_reminded -= 1
    reminder = optimizer.description.reminder
    if optimizer._until_reminded == 0 and reminder is not None:
        name = type(optimizer).__name__
        message = f"{name} has made {reminder.steps} steps without a call of {reminder.entry}(): {reminder.says}"
        warnings.warn(message, stacklevel=5)
