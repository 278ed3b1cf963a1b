"""``RuleOptimizer``: the torch optimizer that runs any rule."""

from __future__ import annotations

import dataclasses
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from fallline.lower.batch import StepNumbers
from fallline.lower.together import Late, together
from fallline.optim import checkpoint, gradients, modes
from fallline.optim.explain import explain
from fallline.optim.group_reader import GroupReader
from fallline.optim.layout import refuse_repeated
from fallline.optim.options import (
    GROUP_OPTIONS,
    OPTIMIZER_OPTIONS,
    check_alike,
    check_group_keys,
    check_optimizer_options,
    state_dtype_name,
)
from fallline.optim.plan import Bucket, Plan, ScalarWrite
from fallline.optim.planning import is_current, make_plan
from fallline.optim.scalars import GroupClasses, Rows
from fallline.optim.states import STEP, Watched, WatchedStates, follow
from fallline.optimizers.describe import Description
from fallline.rules.program import Program

_profiler_enabled = torch._C._autograd._profiler_enabled


class RuleOptimizer(torch.optim.Optimizer):
    """Base of every optimizer here; the class of each one only adds its description.

    Behaves as ``torch.optim.Optimizer``: parameter groups, schedulers, closures, hooks, checkpoints.
    """

    description: ClassVar[Description]
    # GradScaler then hands over grad_scale and found_inf instead of unscaling in a pass of its own.
    _step_supports_amp_scaling = True

    def __init__(self, params: Iterable[Any], *args: Any, **kwargs: Any):
        names = [*self.description.defaults]
        options = {**GROUP_OPTIONS, **OPTIMIZER_OPTIONS}
        values: dict[str, Any] = {**options, **self.description.defaults}
        positional = [n for n in names if n not in options]
        if len(args) > len(positional):
            raise TypeError(
                f"{type(self).__name__} takes at most {len(positional)} positional hyperparameters, got {len(args)}; "
                "pass options by name"
            )
        given = dict(zip(positional, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"{type(self).__name__} got {name} twice")
            if name not in values:
                known = ", ".join((*positional, *options))
                raise TypeError(f"{type(self).__name__} has no argument {name!r}; it has {known}")
            given[name] = value
        values.update(self.description.settings(given))
        values["state_dtype"] = state_dtype_name(values["state_dtype"])
        own = {name: values.pop(name) for name in OPTIMIZER_OPTIONS}
        check_optimizer_options(own)
        self.clip_norm: float | None = own["clip_norm"]
        self.skip_nonfinite: bool = own["skip_nonfinite"]
        self.grad_norm: Tensor | None = None
        self._plan: Plan | None = None
        self._read_description()
        defaults = {**values, **self.description.torch_group}
        self._reader.check(defaults)
        super().__init__(params, defaults)
        self._adopt_states()

    def _read_description(self) -> None:
        """What follows from the class alone, and so is neither copied nor saved."""
        self._reader = GroupReader(self.description, type(self).__name__)
        self._classes = GroupClasses(self.description)
        reminder = self.description.reminder
        self._until_reminded = reminder.steps if reminder else 0

    # ------------------------------------------------------------------ groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        check_group_keys(param_group, {*self.defaults, *self._group_states()}, type(self).__name__)
        if "state_dtype" in param_group:
            param_group["state_dtype"] = state_dtype_name(param_group["state_dtype"])
        self._reader.check({**self.defaults, **param_group})
        refuse_repeated(param_group)
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            for index, param in enumerate(group["params"]):
                if not is_lazy(param):  # which has no shape before the first forward pass: looked at when it steps
                    self._reader.check_member(group, len(self.param_groups) - 1, index)
            self._reader.check_formats(group)
            self._classes.shared_lr(self.param_groups)
            check_alike(self.param_groups, self.description)
        except Exception:
            self.param_groups.pop()
            raise
        for name, state in self.description.rule.states.items():
            if state.shape == "optimizer" and len(self.param_groups) > 1:
                group[name] = self.param_groups[0][name]
            elif state.shape in ("group", "optimizer"):
                # What belongs to the whole optimizer starts from its own arguments, not from those of a group.
                start = group if state.shape == "group" else self.defaults
                group.setdefault(name, float(self._reader.initial(state, start)))
        if self.description.rule.counts == "group":
            group.setdefault(STEP, 0)
        if self.description.has_modes:
            group[modes.FLAG] = self.param_groups[0].get(modes.FLAG, True)
        self._plan = None

    def _group_states(self) -> list[str]:
        """What this optimizer keeps in a group beside its options."""
        rule = self.description.rule
        names = [name for name, state in rule.states.items() if state.shape in ("group", "optimizer")]
        names += [STEP] if rule.counts == "group" else []
        return names + ([modes.FLAG] if self.description.has_modes else [])

    # ------------------------------------------------------------------ plan

    def _invalidation(self) -> Callable[[], None]:
        """Drops the plan.  The states hold this, so it holds the optimizer weakly: without a cycle the memory of an
        optimizer is free as soon as nobody uses it."""
        itself = weakref.ref(self)

        def invalidate() -> None:
            if (optimizer := itself()) is not None:
                optimizer._plan = None

        return invalidate

    def _adopt_states(self) -> None:
        """Watches the states that torch's base class, a checkpoint or a copy has set."""
        invalidate = self._invalidation()
        watched = WatchedStates(invalidate)
        for param, entry in self.state.items():
            dict.__setitem__(watched, param, Watched(entry, invalidate) if entry else entry)
        self.state = watched
        self._plan = None

    def _current_plan(self) -> Plan:
        """The last step's plan if it still holds."""
        plan = self._plan
        if plan is not None and is_current(plan, self._reader, self.param_groups, self.state):
            return plan
        return self._new_plan()

    # States outlive the mode in which they are made: a tensor of inference mode could not be stepped outside of it.
    @torch.inference_mode(False)
    @torch.no_grad()
    def _new_plan(self) -> Plan:
        if not isinstance(self.state, WatchedStates):
            self._adopt_states()
        return make_plan(self._reader, self.param_groups, self.state, self._invalidation())

    def _keep(self, plan: Plan) -> None:
        """After a step: its states are the optimizer's, and the next step may use the plan again.  One that was refused
        leaves neither."""
        if plan is not self._plan:
            plan.commit()
            self._plan = plan

    # ------------------------------------------------------------------ step

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step.  ``closure`` reevaluates the model and returns the loss, as in torch."""
        if torch.compiler.is_dynamo_compiling() or _frame_callback() is not None:
            return _untraced_step(self, closure)
        # Around a subclass's own step() torch has put its wrapper, which runs the hooks.
        if (_profiler_enabled() or _has_hooks(self)) and type(self).step is RuleOptimizer.step:
            return _hooked_step(self, closure) if closure is not None else _hooked_step(self)
        return self._step(closure)

    # torch would wrap step() to run hooks and to open a profiler range, which costs more than the step of a small
    # model; here that happens only when there is a hook or a profiler.
    step.hooked = True  # type: ignore[attr-defined]
    # Kernels on raw pointers cannot be traced: the flag asks torch.compile for a graph break here, and
    # _untraced_step keeps it away from every function below.
    step._torchdynamo_disable = True  # type: ignore[attr-defined]

    def _step(self, closure: Callable[[], Any] | None) -> Any:
        if self.description.has_modes:
            modes.refuse_step(self)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        found_inf = getattr(self, "found_inf", None)
        if found_inf is not None and float(found_inf) != 0.0:
            gradients.note_overflow(self)
            return loss
        plan, sparse = self._bound_plan()
        try:
            rows = Rows(self._classes, self.param_groups, plan.flat, plan.counters.common())
            factor = gradients.factor(self, plan.buckets, [g for _, _, g in sparse])
            if factor is not None:
                self._run(plan, rows, factor, sparse)
                if self._until_reminded:
                    self._remind()
        finally:
            plan.release()
        return loss

    def _bound_plan(self) -> tuple[Plan, list[gradients.Sparse]]:
        """The plan, with this step's gradients."""
        plan = self._current_plan()
        try:
            return plan, gradients.bind(plan, self.description, self.param_groups)
        except gradients.Outdated:
            plan = self._new_plan()
            return plan, gradients.bind(plan, self.description, self.param_groups)

    def _run(self, plan: Plan, rows: Rows, factor: float, sparse: Sequence[gradients.Sparse]) -> None:
        numbered = _numbered(plan.buckets, rows, factor)
        rest = [(bucket, i, grad, _numbers(rows, bucket, [i], factor)) for bucket, i, grad in sparse]
        # Whatever is wrong with the step has been refused by now: from here on things change.
        self._follow_parameters(plan)
        present = self._launch_all(numbered, rows)
        for bucket, i, grad, numbers in rest:
            gradients.run_sparse(bucket, i, grad, numbers)
            present.append(bucket.numbers[i])
        self._keep(plan)
        self._advance(plan, present, rows.writes)

    def _follow_parameters(self, plan: Plan) -> None:
        """Master weights take over what somebody has written to a parameter since the last step."""
        if [param._version for param, _ in plan.masters] != plan.versions:
            for param, master in plan.masters:
                follow(master, param)

    def _launch_all(self, numbered: Sequence[Numbered], rows: Rows) -> list[int]:
        """Runs what takes part in this step; returns the numbers of these parameters."""
        if len(numbered) > 1 and _are_coupled(numbered):
            with torch.no_grad():
                lates = together([b.program for b, _, _ in numbered], [b.passes(numbers) for b, _, numbers in numbered])
        else:
            lates = [self._launch(bucket, numbers) for bucket, _, numbers in numbered]
        present: list[int] = []
        for (bucket, active, _), late in zip(numbered, lates, strict=True):
            for name, values in late.items():
                for i in active:
                    rows.note(bucket, i, name, values[i])
            present.extend(bucket.numbers if bucket.complete else [bucket.numbers[i] for i in active])
        return present

    def run_entry(self, name: str) -> None:
        """Runs a further entry point of the rule (``train``, ``update_hessian``) over every parameter that has
        states; one that uses gradients, over those that have one."""
        plan, sparse = self._bound_plan()
        try:
            ran = self._run_entry(name, plan, has_sparse=bool(sparse))
        finally:
            plan.release()
        if self.description.reminder is not None and self.description.reminder.entry == name:
            if not ran:
                raise RuntimeError(
                    f"{type(self).__name__}.{name}() found no gradient; call it after backward() and before zero_grad()"
                )
            self._until_reminded = 0

    def _run_entry(self, name: str, plan: Plan, has_sparse: bool) -> bool:
        """Whether there was a parameter to run it on."""

        def programs_of(plan: Plan) -> list[Program]:
            traces = [dataclasses.replace(bucket.program.trace, entry=name, cautious=False) for bucket in plan.buckets]
            return [self.description.rule.program(trace) for trace in traces]

        programs = programs_of(plan)
        factor: float | None = 1.0
        if any(program.uses_gradient for program in programs):
            if has_sparse:
                raise TypeError(f"{name}() does not take sparse gradients")
            factor = gradients.factor(self, plan.buckets, ())
        elif newcomers := {param for param in plan.completed if not plan.states.get(param)}:
            plan = plan.without(newcomers)
            programs = programs_of(plan)
        if factor is None:
            return True
        rows = Rows(self._classes, self.param_groups, plan.flat, plan.counters.common())
        buckets = [bucket.companion(program) for bucket, program in zip(plan.buckets, programs, strict=True)]
        numbered = _numbered(buckets, rows, factor)
        self._follow_parameters(plan)
        present = set(self._launch_all(numbered, rows))
        self._keep(plan)
        if any(program.param in program.writes for program in programs):
            changed = [m.param for bucket in plan.buckets for m in bucket.members if m.number in present]
            torch.autograd.graph.increment_version(changed)
        plan.write_scalars(rows.writes)
        return bool(present)

    def _remind(self) -> None:
        """Warns once if an entry point without which the optimizer is another one is not called."""
        self._until_reminded -= 1
        reminder = self.description.reminder
        if self._until_reminded == 0 and reminder is not None:
            name = type(self).__name__
            message = f"{name} has made {reminder.steps} steps without a call of {reminder.entry}(): {reminder.says}"
            warnings.warn(message, stacklevel=4)

    def _launch(self, bucket: Bucket, numbers: StepNumbers) -> Late:
        if _profiler_enabled():
            with torch.profiler.record_function(f"fallline::{bucket.program.name}"):
                return bucket.run(numbers)
        return bucket.run(numbers)

    def _advance(self, plan: Plan, present: list[int], writes: Sequence[ScalarWrite]) -> None:
        """Counts the step, and tells autograd that the parameters have changed."""
        if len(present) == len(plan.everyone):
            plan.counters.advance_all()
            torch.autograd.graph.increment_version(plan.params)
        elif present:
            plan.counters.advance(present)
            chosen = set(present)
            stepped = [m.param for b in plan.buckets for m in b.members if m.number in chosen]
            torch.autograd.graph.increment_version(stepped)
        plan.versions = [param._version for param, _ in plan.masters]
        if self.description.rule.counts == "group":
            chosen = set(present)
            for g in {m.group for b in plan.buckets for m in b.members if m.number in chosen}:
                self.param_groups[g][STEP] += 1
        plan.write_scalars(writes)

    # ------------------------------------------------------------------ checkpoints and copies

    def state_dict(self) -> dict[str, Any]:
        if self.description.has_modes:
            modes.warn_of_saving(self)
        return checkpoint.save(self)

    @torch.inference_mode(False)
    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        checkpoint.load(self, state_dict)

    def __getstate__(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("clip_norm", "skip_nonfinite", "grad_norm")}
        return {**super().__getstate__(), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._read_description()
        self._adopt_states()

    # ------------------------------------------------------------------ saying what runs

    def explain(self) -> str:
        """Which lowering steps which parameters, and why not a faster one."""
        return explain(self._reader, self.param_groups, self.state)


Numbered = tuple[Bucket, Sequence[int], StepNumbers]
"""A bucket, which of its parameters take part in a step, and the step's numbers."""


def _numbered(buckets: Sequence[Bucket], rows: Rows, factor: float) -> list[Numbered]:
    """What takes part in this step."""
    taking_part = [(bucket, active) for bucket in buckets if (active := bucket.present())]
    if _are_coupled(taking_part):
        rows.total = sum(bucket.items[i].numel for bucket, active in taking_part for i in active)
    return [(bucket, active, _numbers(rows, bucket, active, factor)) for bucket, active in taking_part]


def _are_coupled(taking_part: Sequence[tuple[Any, ...]]) -> bool:
    """Whether a sum runs over the parameters of all these buckets, which come first in their tuples."""
    for entry in taking_part:  # noqa: SIM110, any() costs twice as much, in every step
        if entry[0].program.couples_parameters:
            return True
    return False


def _numbers(rows: Rows, bucket: Bucket, active: Sequence[int], factor: float) -> StepNumbers:
    numbers = rows.of(bucket, active)
    numbers.grad_factor = -factor if bucket.maximize else factor
    return numbers


def _has_hooks(optimizer: RuleOptimizer) -> bool:
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
    )


def _plain_step(optimizer: RuleOptimizer, closure: Callable[[], Any] | None = None) -> Any:
    return optimizer._step(closure)


_hooked_step = torch.optim.Optimizer.profile_hook_step(_plain_step)

# Not None while torch.compile watches this thread's calls; asking costs less than always switching it off.
_frame_callback = torch._C._dynamo.eval_frame.get_eval_frame_callback


@torch._disable_dynamo  # type: ignore[attr-defined]
def _untraced_step(optimizer: RuleOptimizer, closure: Callable[[], Any] | None) -> Any:
    # Not optimizer.step(): what a subclass or a scheduler has put around it has run already.
    return RuleOptimizer.step(optimizer, closure)
