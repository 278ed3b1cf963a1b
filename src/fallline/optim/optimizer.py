"""``RuleOptimizer``: the torch optimizer that runs any rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar

import torch
from torch import Tensor

from fallline.formats import rounding_key
from fallline.lower.batch import HALF, StepNumbers
from fallline.optim import checkpoint, gradients
from fallline.optim.choose import choose_lowering
from fallline.optim.layout import check_parameter
from fallline.optim.options import (
    GROUP_OPTIONS,
    OPTIMIZER_OPTIONS,
    check_optimizer_options,
    check_options,
)
from fallline.optim.plan import Bucket, Member, Plan
from fallline.optim.states import (
    MASTER,
    STEP,
    Watched,
    WatchedStates,
    build_item,
    new_state,
)
from fallline.optimizers.describe import Description
from fallline.rules.annotations import State


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
            raise TypeError(f"{type(self).__name__} takes at most {len(positional)} positional hyperparameters")
        given = dict(zip(positional, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"{type(self).__name__} got {name} twice")
            if name not in values:
                known = ", ".join((*positional, *options))
                raise TypeError(f"{type(self).__name__} has no argument {name!r}; it has {known}")
            given[name] = value
        values.update(given)
        own = {name: values.pop(name) for name in OPTIMIZER_OPTIONS}
        check_optimizer_options(own)
        self.clip_norm: float | None = own["clip_norm"]
        self.skip_nonfinite: bool = own["skip_nonfinite"]
        self.grad_norm: Tensor | None = None
        self._plan: Plan | None = None
        defaults = {**values, **self.description.torch_group}
        self._check_group(defaults)
        super().__init__(params, defaults)
        self._adopt_states()

    # ------------------------------------------------------------------ groups

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        unknown = set(param_group) - set(self.defaults) - {"params", "param_names", "initial_lr"}
        if unknown:
            raise TypeError(
                f"{type(self).__name__} has no group option {sorted(unknown)[0]!r}; it has "
                + ", ".join(sorted(self.defaults))
            )
        self._check_group({**self.defaults, **param_group})
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            for index, param in enumerate(group["params"]):
                check_parameter(param, self._name_of(group, index))
            self._check_formats(group)
        except Exception:
            self.param_groups.pop()
            raise
        for name, state in self.description.rule.states.items():
            if state.shape in ("group", "optimizer"):
                group.setdefault(name, float(self._initial(state, group)))
        if self.description.rule.counts == "group":
            group.setdefault(STEP, 0)
        self._plan = None

    def _check_group(self, group: Mapping[str, Any]) -> None:
        description = self.description
        check_options(group)
        description.check({name: group[name] for name in description.defaults if name in group and name not in GROUP_OPTIONS})

    def _check_formats(self, group: Mapping[str, Any]) -> None:
        rule = self.description.rule
        if group["state_dtype"] in ("int8", "int4") and not any(s.low_bit for s in rule.states.values()):
            raise ValueError(
                f"state_dtype={group['state_dtype']!r}: {rule.name} has no state that can be stored in so few bits; "
                'use "float32"'
            )

    @staticmethod
    def _name_of(group: Mapping[str, Any], index: int) -> str:
        names = group.get("param_names")
        return f"parameter {names[index]!r}" if names else f"parameter {index} of its group"

    def _initial(self, state: State, group: Mapping[str, Any]) -> float:
        if isinstance(state.init, str):
            return float(self.description.expand(self._hypers(group))[state.init]) if state.init != "param" else 0.0
        return state.init

    def _hypers(self, group: Mapping[str, Any]) -> dict[str, Any]:
        return {name: group[name] for name in self.description.defaults if name not in GROUP_OPTIONS}

    # ------------------------------------------------------------------ plan

    def _invalidate(self) -> None:
        self._plan = None

    def _adopt_states(self) -> None:
        """Watches the states that torch's base class, a checkpoint or a copy has set."""
        watched = WatchedStates(self._invalidate)
        for param, entry in self.state.items():
            dict.__setitem__(watched, param, Watched(entry, self._invalidate) if entry else entry)
        self.state = watched
        self._plan = None

    def _all_params(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def _current_plan(self) -> Plan:
        """The last step's plan if nothing it was made from has changed."""
        plan = self._plan
        if (
            plan is not None
            and plan.states is self.state
            and list(map(Tensor.data_ptr, plan.params)) == plan.pointers
            and list(map(id, self._all_params())) == plan.ids
            and not any(p.grad is not None for p in plan.waiting)
            and [self._settings(group) for group in self.param_groups] == plan.settings
        ):
            return plan
        return self._make_plan()

    def _settings(self, group: Mapping[str, Any]) -> tuple[Any, ...]:
        """What a group's specialisation, lowering and formats follow from."""
        if type(self)._setting_names is None:
            rule = self.description.rule
            derived = [a for f in rule.derive.values() for a in f.__code__.co_varnames[: f.__code__.co_argcount]]
            statics = [n for n in rule.statics if n not in rule.derive]
            options = ("maximize", "foreach", "fused", "compiled", "stochastic_rounding")
            type(self)._setting_names = itemgetter(*dict.fromkeys((*statics, *derived, *options)))
        return type(self)._setting_names(group)  # type: ignore[misc]

    _setting_names: ClassVar[Callable[[Any], tuple[Any, ...]] | None] = None

    def _make_plan(self) -> Plan:
        rule = self.description.rule
        if not isinstance(self.state, WatchedStates):
            self._adopt_states()
        everyone = self._all_params()
        members: list[Member] = []
        waiting: list[Tensor] = []
        number = -1
        for g, group in enumerate(self.param_groups):
            self._check_group(group)
            for index, param in enumerate(group["params"]):
                number += 1
                entry = self.state.get(param)
                if not entry and param.grad is None:
                    waiting.append(param)
                    continue
                name = self._name_of(group, index)
                check_parameter(param, name)
                members.append(Member(param, None, number, g, name))  # type: ignore[arg-type]
        programs = []
        for member in members:
            group = self.param_groups[member.group]
            values = self.description.expand(self._hypers(group))
            trace = rule.trace_for(values, member.param.ndim + member.param.is_complex())
            programs.append(rule.program(trace))
        # Nothing above has changed anything; now states may be made.
        for member, program in zip(members, programs, strict=True):
            self._complete_state(member, program.states)
        self._share_scalars(len(everyone), members)
        buckets: dict[Any, list[Member]] = {}
        for member, program in zip(members, programs, strict=True):
            group = self.param_groups[member.group]
            entry = self.state[member.param]
            member.item = build_item(rule, program.states, member.param, entry, group, member.number)
            choice = choose_lowering(program, member.item, group)
            buckets.setdefault((program, choice, group["maximize"]), []).append(member)
        self._plan = Plan(
            buckets=[Bucket(program, choice, maximize, found) for (program, choice, maximize), found in buckets.items()],
            params=[m.param for m in members],
            ids=list(map(id, everyone)),
            pointers=[m.param.data_ptr() for m in members],
            waiting=waiting,
            states=self.state,
            settings=[self._settings(group) for group in self.param_groups],
        )
        return self._plan

    def _complete_state(self, member: Member, states: Mapping[str, State]) -> None:
        """Allocates what a parameter's state lacks; the first time that is everything."""
        group, param = self.param_groups[member.group], member.param
        entry = self.state.get(param)
        if not isinstance(entry, Watched):
            entry = Watched(entry or {}, self._invalidate)
            dict.__setitem__(self.state, param, entry)
        added: dict[str, Any] = {}
        if STEP not in entry:
            added[STEP] = torch.zeros((), dtype=torch.float32)
        for name, state in states.items():
            present = any(key == name or key.startswith(f"{name}:") for key in entry)
            if present or state.shape in ("group", "optimizer"):
                continue
            if state.shape == "scalar":
                added[name] = torch.tensor(self._initial(state, group), dtype=torch.float64)
            else:
                added.update(new_state(name, state, param, group["state_dtype"], self._initial(state, group)))
        if group["master_weights"] and param.dtype in HALF and MASTER not in entry:
            added[MASTER] = param.detach().to(torch.float32, copy=True)
        dict.update(entry, added)

    def _share_scalars(self, count: int, members: Sequence[Member]) -> None:
        """Makes counters and scalar states of all parameters views of one flat tensor each: a thousand
        0-d tensors cost more to advance than a kernel takes."""
        names = [STEP, *(n for n, s in self.description.rule.states.items() if s.shape == "scalar")]
        self._flat: dict[str, Tensor] = {}
        for name in names:
            flat = torch.zeros(count, dtype=torch.float32 if name == STEP else torch.float64)
            for member in members:
                entry = self.state[member.param]
                if name in entry:
                    flat[member.number] = float(entry[name])
                    dict.__setitem__(entry, name, flat[member.number])
            self._flat[name] = flat

    # ------------------------------------------------------------------ step

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step.  ``closure`` reevaluates the model and returns the loss, as in torch."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        found_inf = getattr(self, "found_inf", None)
        if found_inf is not None and float(found_inf) != 0.0:
            return loss
        plan = self._current_plan()
        sparse: list[tuple[Bucket, int, Tensor]] = []
        for bucket in plan.buckets:
            grads = [p.grad for p in bucket.params]
            if not bucket.bind_fast(grads):
                checked = []
                for i, grad in enumerate(grads):
                    if grad is not None and grad.is_sparse:
                        sparse.append((bucket, i, gradients.check_sparse(self.description, self.param_groups, bucket, i)))
                        grad = None
                    checked.append(gradients.check(bucket, i, grad))
                bucket.bind(checked)
        factor = gradients.factor(self, plan.buckets, [g for _, _, g in sparse])
        if factor is None:
            return loss
        self._run(plan, factor, sparse)
        return loss

    # Kernels on raw pointers cannot be traced; the flag asks torch.compile for a graph break here.
    step._torchdynamo_disable = True  # type: ignore[attr-defined]

    def _run(self, plan: Plan, factor: float, sparse: Sequence[tuple[Bucket, int, Tensor]]) -> None:
        steps = self._flat[STEP].tolist()
        classes, class_of_group = self._group_classes()
        writes: list[tuple[Any, str, float]] = []
        present: list[int] = []
        complete = True
        for bucket in plan.buckets:
            active = range(len(bucket.grads))
            missing = [i for i, g in enumerate(bucket.grads) if g is None]
            if missing:
                complete = False
                gone = set(missing)
                active = [i for i in active if i not in gone]  # type: ignore[assignment]
            if not active:
                continue
            numbers = self._numbers(bucket, active, steps, classes, class_of_group, writes)
            numbers.grad_factor = -factor if bucket.maximize else factor
            self._launch(bucket, active, numbers, writes)
            present.extend(bucket.numbers if not missing else (bucket.numbers[i] for i in active))
        for bucket, i, grad in sparse:
            complete = False
            numbers = self._numbers(bucket, [i], steps, classes, class_of_group, writes)
            numbers.grad_factor = -factor if bucket.maximize else factor
            gradients.run_sparse(bucket, i, grad, numbers)
            present.append(bucket.numbers[i])
        self._advance(plan, present, complete and not plan.waiting, writes)

    def _launch(
        self, bucket: Bucket, active: Sequence[int], numbers: StepNumbers, writes: list[tuple[Any, str, float]]
    ) -> None:
        if torch.autograd._profiler_enabled():
            with torch.profiler.record_function(f"fallline::{bucket.program.name}"):
                late = bucket.run(numbers)
        else:
            late = bucket.run(numbers)
        for name, values in late.items():
            shape = bucket.program.states[name].shape
            for i in active:
                self._note(writes, bucket, i, name, shape, values[i])

    def _note(
        self, writes: list[tuple[Any, str, float]], bucket: Bucket, i: int, name: str, shape: Any, value: float
    ) -> None:
        """Scalar states are written when all buckets have read them."""
        if shape == "scalar":
            writes.append((bucket.numbers[i], name, value))
        elif shape == "group":
            writes.append((self.param_groups[bucket.groups[i]], name, value))
        else:
            writes.extend((group, name, value) for group in self.param_groups)

    def _advance(self, plan: Plan, present: list[int], everyone: bool, writes: list[tuple[Any, str, float]]) -> None:
        flat = self._flat[STEP]
        if everyone:
            flat.add_(1.0)
            torch.autograd.graph.increment_version(plan.params)
        elif present:
            flat[present] += 1.0
            chosen = set(present)
            stepped = [m.param for b in plan.buckets for m in b.members if m.number in chosen]
            torch.autograd.graph.increment_version(stepped)
        if self.description.rule.counts == "group":
            owners = {id(p): g for g in self.param_groups for p in g["params"]}
            for group in {id(owners[i]): owners[i] for i in (plan.ids[n] for n in present)}.values():
                group[STEP] += 1
        for target, name, value in writes:
            if isinstance(target, int):
                self._flat[name][target] = value
            else:
                target[name] = value

    # ------------------------------------------------------------------ scalars

    def _group_classes(self) -> tuple[list[dict[str, Any]], list[int]]:
        """Groups with equal hyperparameters are one class: they share rows of scalars."""
        names = [n for n in self.description.defaults if n not in GROUP_OPTIONS]
        scalars = [n for n, s in self.description.rule.states.items() if s.shape in ("group", "optimizer")]
        if self.description.rule.counts == "group":
            scalars.append(STEP)
        known: dict[tuple[Any, ...], int] = {}
        classes: list[dict[str, Any]] = []
        class_of_group: list[int] = []
        for group in self.param_groups:
            key = tuple(_hashable(group[name]) for name in (*names, *scalars))
            index = known.get(key)
            if index is None:
                index = known[key] = len(classes)
                values = dict(zip((*names, *scalars), key, strict=True))
                self.description.check({n: values[n] for n in names})
                expanded = self.description.expand(values)
                if self.description.rule.counts == "group":
                    expanded[STEP] += 1
                classes.append(expanded)
            class_of_group.append(index)
        return classes, class_of_group

    def _numbers(
        self,
        bucket: Bucket,
        active: Sequence[int],
        steps: list[float],
        classes: list[dict[str, Any]],
        class_of_group: list[int],
        writes: list[tuple[Any, str, float]],
    ) -> StepNumbers:
        """Rows of scalars, one per set of equal values."""
        program = bucket.program
        per_param = [n for n in program.host_inputs if n in self._flat and n != STEP]
        by_group = self.description.rule.counts == "group"
        rows: list[tuple[float, ...]] = []
        row_of = [0] * len(bucket.items)
        known: dict[tuple[Any, ...], int] = {}
        scalars = {name: self._flat[name].tolist() for name in per_param}
        for i in active:
            number = bucket.numbers[i]
            which = class_of_group[bucket.groups[i]]
            facts = bucket.facts[i] if bucket.facts else None
            own = tuple(scalars[name][number] for name in per_param)
            key = (which, steps[number], own, tuple(facts.values()) if facts else None)
            row = known.get(key)
            if row is None:
                values = dict(classes[which])
                if not by_group:
                    values[STEP] = steps[number] + 1.0
                values["first"] = steps[number] == 0.0
                values.update(zip(per_param, own, strict=True))
                if facts:
                    values.update(facts)
                    if "total" in program.host_inputs:
                        values["total"] = sum(bucket.items[j].numel for j in active)
                computed, host_writes = program.host(*(values[name] for name in program.host_inputs))
                row = known[key] = len(rows)
                rows.append(computed)
                written = dict(zip(program.host_writes, host_writes, strict=True))
                known[(row,)] = written  # type: ignore[assignment]
            row_of[i] = row
            for name, value in known[(row,)].items():  # type: ignore[attr-defined]
                self._note(writes, bucket, i, name, program.states[name].shape, value)
        return StepNumbers(rows, row_of, keys=self._keys(bucket, steps))

    def _keys(self, bucket: Bucket, steps: list[float]) -> list[dict[int, int]] | None:
        if not any(item.rounds_at_random for item in bucket.items):
            return None
        return [
            {
                operand.slot: rounding_key(
                    self.param_groups[g]["rounding_seed"], int(steps[item.number]) + 1, item.number, operand.slot
                )
                for operand in item.operands
                if operand.stochastic
            }
            for item, g in zip(bucket.items, bucket.groups, strict=True)
        ]

    # ------------------------------------------------------------------ checkpoints and copies

    def state_dict(self) -> dict[str, Any]:
        return checkpoint.save(self, super().state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        checkpoint.load(self, state_dict)

    def __getstate__(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("clip_norm", "skip_nonfinite", "grad_norm")}
        return {**super().__getstate__(), **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._adopt_states()

    # ------------------------------------------------------------------ saying what runs

    def explain(self) -> str:
        """Which lowering steps which parameters, and why not a faster one."""
        plan = self._make_plan()
        lines = []
        for bucket in plan.buckets:
            count = sum(item.numel for item in bucket.items)
            groups = ", ".join(map(str, dict.fromkeys(bucket.groups)))
            lines.append(
                f"group {groups}: {len(bucket.items)} tensors, {count:,} elements: "
                f"{bucket.choice.lowering} ({bucket.choice.reason})"
            )
        if plan.waiting:
            lines.append(f"{len(plan.waiting)} tensors have had no gradient yet: not chosen")
        return "\n".join(lines)


def _hashable(value: Any) -> Any:
    """A hyperparameter as plain numbers: tensors are read here, once per step."""
    if isinstance(value, Tensor):
        return float(value)
    if isinstance(value, (tuple, list)):
        return tuple(_hashable(v) for v in value)
    return value

