"""How a plan comes about: parameters that take part, their states completed, sorted by program and lowering."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import is_, itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fallline.lower.batch import HALF, real_shape
from fallline.optim.choose import choose_lowering
from fallline.optim.counters import Counters
from fallline.optim.group_reader import GroupReader
from fallline.optim.layout import refuse_shared
from fallline.optim.options import check_alike
from fallline.optim.plan import Bucket, Member, Plan
from fallline.optim.states import (
    MASTER,
    STEP,
    Watched,
    build_item,
    fitted,
    fitted_master,
    keys_of,
    new_state,
)
from fallline.rules.program import Program

Groups = Sequence[dict[str, Any]]


class Candidate(NamedTuple):
    """A parameter that has a gradient or states."""

    param: Tensor
    number: int
    group: int
    name: str
    program: Program

    @property
    def place(self) -> str:
        """What messages call its state."""
        return f"the state of {self.name}"


_params_of = itemgetter("params")


def all_params(groups: Groups) -> list[Tensor]:
    return list(chain.from_iterable(map(_params_of, groups)))


def is_current(plan: Plan, reader: GroupReader, groups: Groups, states: Mapping[Tensor, Any]) -> bool:
    """Whether nothing that the plan was made from has changed."""
    return (
        plan.states is states
        and list(map(Tensor.data_ptr, plan.params)) == plan.pointers
        and len(everyone := all_params(groups)) == len(plan.everyone)
        and all(map(is_, everyone, plan.everyone))
        and not plan.have_states_moved()
        and not (plan.waiting and any(p.grad is not None for p in plan.waiting))
        and _has_settings(plan, reader, groups)
    )


def _has_settings(plan: Plan, reader: GroupReader, groups: Groups) -> bool:
    settings = list(map(reader.settings, groups))
    if settings != plan.settings:
        if [reader.form(group) for group in groups] != plan.forms:
            return False
        plan.settings = settings  # a number has changed (a schedule of the momentum), but no flag
    return True


def make_plan(reader: GroupReader, groups: Groups, states: dict[Tensor, Any], changed: Callable[[], None]) -> Plan:
    """``changed`` is called when someone replaces a state.  Nothing changes before the plan is committed."""
    check_alike(groups, reader.description)
    candidates, waiting = _candidates(reader, groups, states)
    refuse_shared([c.param for c in candidates], [c.name for c in candidates])
    completed = {c.param: _completed(c, reader, groups[c.group], states.get(c.param) or {}) for c in candidates}
    everyone = all_params(groups)
    scalars = [name for name, state in reader.description.rule.states.items() if state.shape == "scalar"]
    counters, flat = _shared_scalars(scalars, candidates, completed, len(everyone))
    return Plan(
        buckets=_buckets(candidates, groups, completed),
        params=[c.param for c in candidates],
        everyone=everyone,
        pointers=[c.param.data_ptr() for c in candidates],
        waiting=waiting,
        states=states,
        completed={param: Watched(entry, changed) for param, entry in completed.items()},
        settings=[reader.settings(group) for group in groups],
        forms=[reader.form(group) for group in groups],
        masters=[(param, entry[MASTER]) for param, entry in completed.items() if MASTER in entry],
        counters=counters,
        flat=flat,
    )


def _candidates(
    reader: GroupReader, groups: Groups, states: Mapping[Tensor, Any]
) -> tuple[list[Candidate], list[Tensor]]:
    """Those that take part, and those that wait for their first gradient."""
    found: list[Candidate] = []
    waiting: list[Tensor] = []
    number = -1
    for g, group in enumerate(groups):
        reader.check(group)
        for index, param in enumerate(group["params"]):
            number += 1
            if not states.get(param) and param.grad is None:
                waiting.append(param)
                continue
            name = reader.check_member(group, g, index)
            trace = reader.trace(group, len(real_shape(param)))
            found.append(Candidate(param, number, g, name, reader.description.rule.program(trace)))
    return found, waiting


def _completed(
    candidate: Candidate, reader: GroupReader, group: Mapping[str, Any], old: Mapping[str, Any]
) -> dict[str, Any]:
    """A parameter's state with what it lacks (at first that is everything), in its group's formats."""
    param, format, entry = candidate.param, group["state_dtype"], dict(old)
    entry.setdefault(STEP, _count_of_none())
    were_there = []
    for name, state in candidate.program.states.items():
        if state.shape in ("group", "optimizer"):
            continue
        if state.shape == "scalar":
            were_there.append(name in old)
            entry.setdefault(name, torch.tensor(reader.initial(state, group), dtype=torch.float64, device="cpu"))
            continue
        for key in keys_of(name):
            entry.pop(key, None)
        found = fitted(name, state, old, param, format, candidate.place)
        were_there.append(found is not None)
        entry.update(found or new_state(name, state, param, format, reader.initial(state, group)))
    if were_there and not any(were_there) and STEP not in reader.description.rule.arguments:
        # Equations that ask for ``first`` alone mean the first step of their states: a momentum that is switched on
        # later begins with the gradient, as in torch.
        entry[STEP] = _count_of_none()
    if not group["master_weights"] or param.dtype not in HALF:
        entry.pop(MASTER, None)
    elif MASTER in entry:
        entry[MASTER] = fitted_master(entry, param, candidate.place)
    else:
        entry[MASTER] = param.detach().to(torch.float32, copy=True)
    return entry


def _count_of_none() -> Tensor:
    return torch.zeros((), dtype=torch.float32, device="cpu")


def _shared_scalars(
    scalars: Sequence[str], candidates: Sequence[Candidate], entries: Mapping[Tensor, dict[str, Any]], count: int
) -> tuple[Counters, dict[str, np.ndarray]]:
    """Makes counters and scalar states of all parameters views of one flat tensor each: a thousand 0-d tensors cost
    more to advance than a kernel takes."""
    flat: dict[str, Tensor] = {}
    for name in (STEP, *scalars):
        dtype = torch.float32 if name == STEP else torch.float64
        flat[name] = torch.zeros(count, dtype=dtype, device="cpu")
        for candidate in candidates:
            entry = entries[candidate.param]
            if name in entry:
                flat[name][candidate.number] = float(entry[name])
                entry[name] = flat[name][candidate.number]
    return Counters(flat[STEP]), {name: values.numpy() for name, values in flat.items()}


def _buckets(candidates: Sequence[Candidate], groups: Groups, entries: Mapping[Tensor, Any]) -> list[Bucket]:
    found: dict[Any, list[Member]] = {}
    for param, number, g, name, program in candidates:
        group = groups[g]
        item = build_item(program.states, param, entries[param], group, number)
        choice = choose_lowering(program, item, group)
        found.setdefault((program, choice, group["maximize"]), []).append(Member(param, item, number, g, name))
    return [Bucket(program, choice, maximize, members) for (program, choice, maximize), members in found.items()]
