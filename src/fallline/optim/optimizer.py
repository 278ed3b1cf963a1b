"""``RuleOptimizer``: the torch optimizer that runs any rule."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from fallline.distributed.ranks import Ranks
from fallline.lower.coupled import Joiner, check_coupled, run_coupled
from fallline.lower.executor import Deferred, Executor, StepScalars
from fallline.lower.item import Place
from fallline.optim import checkpoint, modes, new_group
from fallline.optim.binding import Outdated, bind
from fallline.optim.clipping import gradient_factor, note_overflow, unscale_gradients
from fallline.optim.empty_step import only_makes_states
from fallline.optim.entry_points import remind, run_entry
from fallline.optim.explain import Explanation, explain
from fallline.optim.group_reader import GroupReader, Readers
from fallline.optim.lost_updates import warn_of_lost_updates
from fallline.optim.options import (
    GROUP_OPTIONS,
    OPTIMIZER_OPTIONS,
    check_optimizer_options,
    state_dtype_name,
)
from fallline.optim.overview import SteppedWith, overview
from fallline.optim.pieces import Pieces
from fallline.optim.plan import Bucket, Plan
from fallline.optim.planning import Scope, make_plan, scope_of_step, whole_scope
from fallline.optim.printed import Printed
from fallline.optim.roster import Roster
from fallline.optim.routing import route_by_shape
from fallline.optim.sparse import Sparse, run_sparse
from fallline.optim.team import Team
from fallline.optim.torch_hooks import GLOBAL_HOOKS, frame_callback, profiler_enabled, with_hooks
from fallline.optim.watched import Watched, WatchedStates
from fallline.optimizers.description import Description

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Stepped = list[tuple[Bucket, Sequence[int]]]
"""Buckets, and which of their parameters take part in a step."""


class RuleOptimizer(torch.optim.Optimizer):
    """Base of every optimizer here; the class of each one only adds its description.

    Behaves as ``torch.optim.Optimizer``: parameter groups, schedulers, closures, hooks, checkpoints.
    """

    description: ClassVar[Description]

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
        self._begin()
        defaults = {**values, **self.description.torch_group}
        self._readers.own.check(defaults)
        super().__init__(route_by_shape(self.description, params, self.description.companion), defaults)
        self._adopt_states()

    def _begin(self) -> None:
        """Sets what follows from the class, or belongs to this process, and so is neither copied nor saved."""
        self._plan: Plan | None = None
        self._readers = Readers(self.description, type(self).__name__)
        reminder = self.description.reminder
        self._until_reminded = reminder.steps if reminder else 0
        self._warned_of_lost_updates = False
        self._pieces = Pieces()
        self._team: Team | None = None
        """The processes that have the other parts of parameters that are DTensors."""
        self.joiner: Joiner | None = None
        """Joins reductions with other processes, if parameters are pieces."""

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether a GradScaler leaves unscaling to the step: with ``fused=True``, as in torch, and where the step has a
        norm to tell, also of a step that is skipped.  Otherwise it unscales by itself, which takes no longer, since it
        looks at every gradient anyway; and trainers may clip in between, which they refuse where this is True."""
        own_norm = self.clip_norm is not None or self.skip_nonfinite
        return own_norm or any(group["fused"] for group in self.param_groups)

    def shard(self, places: Mapping[Tensor, Place], joiner: Joiner | None) -> None:
        """Tells the optimizer that its parameters are pieces: where each lies in the whole, and who joins reductions
        with the processes that have the other pieces."""
        self._pieces, self.joiner, self._plan = Pieces(places), joiner, None

    def split_over(self, group: ProcessGroup) -> RuleOptimizer:
        """Splits the work on matrices over processes that all have every parameter and gradient, as those of
        ``DistributedDataParallel``: each matrix is stepped by one process, which sends the result to the others and
        alone keeps its states.  All processes call this, and from then on ``state_dict()`` and ``load_state_dict()``.
        Rules without matrix functions have nothing to split."""
        readers = self._readers.of_all(self.param_groups)
        if any(reader.rule.calls_matrix_functions for reader in readers):
            if self._team is not None or any(self.state.values()):
                raise RuntimeError("split_over() is called once, before the first step and before states are loaded")
            self._team = Team(Ranks.apart(group))
            for param_group, reader in zip(self.param_groups, readers, strict=True):
                self._join_team(param_group, reader)
        return self

    # ------------------------------------------------------------------ groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group; ``"rule": "adamw"`` gives it another rule than the optimizer's, with that rule's defaults."""
        reader = self._readers.of(param_group) if isinstance(param_group, dict) else self._readers.own
        new_group.complete(param_group, reader, self._readers, self.defaults)
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        new_group.keep_own_options(group, reader, self._readers, self.defaults)
        try:
            new_group.check(self.param_groups, self._readers)
        except Exception:
            self.param_groups.pop()
            raise
        new_group.begin(self.param_groups, self._readers, self.defaults)
        self._join_team(group, reader)
        self._plan = None

    def _join_team(self, group: Mapping[str, Any], reader: GroupReader) -> None:
        """Finds the processes that have the other parts of parameters, if these are DTensors."""
        team = Team.of(group["params"], self._team)
        if team is None:
            return
        team.forget()
        if reader.rule.calls_matrix_functions:
            team.assign(group["params"])
        self._team, self.joiner = team, team.joiner
        self._pieces = Pieces(counts_copies=team.counts_copies, owners=team.owners)

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

    # States outlive the mode in which they are made: a tensor of inference mode could not be stepped outside of it.
    @torch.inference_mode(False)
    @torch.no_grad()
    def _new_plan(self, scope: Scope) -> Plan:
        if not isinstance(self.state, WatchedStates):
            self._adopt_states()
        plan = make_plan(scope, self._readers, self.param_groups, self.state, self._pieces, self._invalidation())
        for rule in {bucket.rule for bucket in plan.buckets}:
            check_coupled(bucket.program for bucket in plan.buckets if bucket.rule is rule)
        if not self._warned_of_lost_updates:
            items = (item for bucket in plan.buckets for item in bucket.items)
            self._warned_of_lost_updates = warn_of_lost_updates(type(self).__name__, items)
        return plan

    def _keep(self, plan: Plan) -> None:
        """After a step: its states are the optimizer's, and the next step may use the plan again.  One that was refused
        leaves neither."""
        plan.commit()
        self._plan = plan

    # ------------------------------------------------------------------ step

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step.  ``closure`` reevaluates the model and returns the loss, as in torch."""
        if torch.compiler.is_dynamo_compiling() or frame_callback() is not None:
            return _untraced_step(self, closure)
        has_hooks = self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks or any(GLOBAL_HOOKS)
        # Around a subclass's own step() torch has put its wrapper, which runs the hooks.
        if (has_hooks or profiler_enabled()) and type(self).step is RuleOptimizer.step:
            return _hooked_step(self, closure) if closure is not None else _hooked_step(self)
        return self._step(closure)

    # torch would wrap step() to run hooks and to open a profiler range, which costs more than the step of a small
    # model; here that happens only when there is a hook or a profiler.
    step.hooked = True  # type: ignore[attr-defined]
    # Kernels on raw pointers cannot be traced: the flag asks torch.compile for a graph break here, and
    # _untraced_step keeps it away from every function below.
    step._torchdynamo_disable = True  # type: ignore[attr-defined]

    def _step(self, closure: Callable[[], Any] | None) -> Any:
        """Binds gradients, reads the step's numbers, runs the executors, commits."""
        if self.description.has_modes:
            modes.refuse_step(self)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        found_inf = getattr(self, "found_inf", None)  # by a GradScaler, in a gradient
        if found_inf is not None and float(found_inf) != 0.0:
            note_overflow(self)
            return loss
        plan, sparse = self._bound_plan()
        try:
            if plan is not self._plan and only_makes_states(self):
                self._keep(plan)
                return loss
            stepped = [(bucket, bucket.executor.present) for bucket in plan.buckets if bucket.executor.present]
            stepped += [(bucket, [i]) for bucket, i, _ in sparse]
            numbers = plan.scalars.read(self.param_groups, stepped)
            factor: float | None = 1.0
            if self.clip_norm is not None or self.skip_nonfinite or getattr(self, "grad_scale", None) is not None:
                factor = gradient_factor(self, plan.buckets, [grad for _, _, grad in sparse])
            if factor is not None:
                self._run(plan, stepped, numbers, factor, sparse)
                self._commit(plan, stepped)
                if factor != 1.0:
                    unscale_gradients(self)
        finally:
            plan.release()
        return loss

    def _bound_plan(self, whole: bool = False) -> tuple[Plan, Sequence[Sparse]]:
        """A plan of the parameters that have a gradient, with these gradients; ``whole``: and of all others that have
        states."""
        if self._team is not None:
            self._team.take_part(self)
        plan, groups = self._plan, self.param_groups
        if plan is not None and (plan.is_whole or not whole) and plan.rebind(groups, self.state):
            return plan, ()
        roster = self._roster()
        present = roster.members.with_gradient()
        if plan is not None:
            plan.release()
            fits = plan.roster is roster and (plan.is_whole or not whole)
            if fits and plan.covers(present, self._readers, groups, self.state):
                with contextlib.suppress(Outdated):
                    return plan, bind(plan, groups, present)
        scope = whole_scope(roster, self.state) if whole else scope_of_step(plan, roster, present, self.state)
        plan = self._new_plan(scope)
        return plan, bind(plan, groups, present)

    def _roster(self) -> Roster:
        """The last plan's, if the groups have the same parameters."""
        if self._plan is not None and self._plan.roster.is_of(self.param_groups):
            return self._plan.roster
        return Roster(self.param_groups)

    def _run(
        self,
        plan: Plan,
        stepped: Stepped,
        numbers: Sequence[StepScalars],
        factor: float,
        sparse: Sequence[Sparse] = (),
    ) -> None:
        """Runs the executors, together where one may wait for another, then the sparse gradients, which come last.

        Whatever is wrong with the step has been refused by now: from here on things change.
        """
        if factor != 1.0:
            for scalars in numbers:
                scalars.grad_factor *= factor
        if plan.has_masters:
            for bucket, active in stepped:
                bucket.follow_parameters(active)
        dense = stepped[: len(stepped) - len(sparse)]
        work = [(bucket.executor, scalars) for (bucket, _), scalars in zip(dense, numbers, strict=False)]
        if self.joiner is not None or (len(work) > 1 and any([bucket.is_coupled for bucket, _ in dense])):
            if self._team is not None:
                self._team.begin(frozenset(bucket.form for bucket, _ in dense))
            with torch.no_grad():
                results = run_coupled([executor.passes(scalars) for executor, scalars in work], self.joiner)
            for bucket, active in dense:
                bucket.tell_autograd(active)
        elif profiler_enabled():
            results = [_profiled_run(executor, scalars) for executor, scalars in work]
        else:
            results = [executor.run(scalars) for executor, scalars in work]
        for (bucket, active), deferred in zip(dense, results, strict=True):
            if deferred:
                plan.scalars.note_deferred(bucket, active, deferred)
        for (bucket, i, grad), scalars in zip(sparse, numbers[len(dense) :], strict=True):
            run_sparse(bucket, i, grad, scalars)

    def _commit(self, plan: Plan, stepped: Stepped) -> None:
        """Keeps the states of the step and counts it."""
        if plan is not self._plan:
            self._keep(plan)
        plan.scalars.commit(stepped)
        if plan.has_masters:
            for bucket, active in stepped:
                bucket.note_versions(active)
        if self._until_reminded:
            remind(self)

    @property
    def launches(self) -> int:
        """How many kernels of ours a step starts, of the last step's plan; operations of torch count themselves."""
        return sum(bucket.executor.launches for bucket in self._plan.buckets) if self._plan is not None else 0

    # ------------------------------------------------------------------ entry points

    def run_entry(self, name: str) -> None:
        """Runs a further entry point of the rule (``train``, ``update_hessian``) over every parameter that has
        states; one that uses gradients, over those that have one."""
        run_entry(self, name)

    # ------------------------------------------------------------------ checkpoints and copies

    def state_dict(self) -> dict[str, Any]:
        if self.description.has_modes:
            modes.warn_of_saving(self)
        return checkpoint.save(self)

    @torch.inference_mode(False)
    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        checkpoint.load(self, state_dict)
        if self._team is not None:
            self._team.forget()

    def __getstate__(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("clip_norm", "skip_nonfinite", "grad_norm")}
        return {**super().__getstate__(), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # of a pickle that was written before there was an option
            for name, value in GROUP_OPTIONS.items():
                group.setdefault(name, value)
        self._begin()
        for group in self.param_groups:
            self._join_team(group, self._readers.of(group))
        self._adopt_states()

    # ------------------------------------------------------------------ saying what runs

    def explain(self) -> Explanation:
        """Which lowering steps which parameters, and why not a faster one: data that also prints."""
        return explain(self._readers, self.param_groups, self.state, self._pieces)

    def describe(self) -> Printed[SteppedWith]:
        """Which rule steps which parameters, with which settings: data that also prints."""
        return overview(self._readers, self.param_groups)


def _profiled_run(executor: Executor, scalars: StepScalars) -> Deferred:
    with torch.profiler.record_function(f"fallline::{executor.program.name}"):
        return executor.run(scalars)


def _plain_step(optimizer: RuleOptimizer, closure: Callable[[], Any] | None = None) -> Any:
    return optimizer._step(closure)


_hooked_step = with_hooks(_plain_step)


@torch._disable_dynamo  # type: ignore[attr-defined]
def _untraced_step(optimizer: RuleOptimizer, closure: Callable[[], Any] | None) -> Any:
    # Not optimizer.step(): what a subclass or a scheduler has put around it has run already.
    return RuleOptimizer.step(optimizer, closure)
