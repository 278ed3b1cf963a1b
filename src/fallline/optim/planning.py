"""How a plan comes about: parameters that take part, their states completed, sorted by program and lowering."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fallline.lower.item import HALF
from fallline.lower.transfer import Owner
from fallline.optim.choose import choose_lowering
from fallline.optim.dtensor_states import as_dtensors, locals_of
from fallline.optim.group_reader import GroupReader, Readers, check_must_match
from fallline.optim.hyperparameters import STEP
from fallline.optim.layout import refuse_shared
from fallline.optim.pieces import Pieces
from fallline.optim.plan import Bucket, Member, Plan, settings_of
from fallline.optim.roster import Groups, Roster
from fallline.optim.scalars import HostScalars, counter_dtype
from fallline.optim.states import (
    MASTER,
    Piece,
    bare_item,
    build_item,
    elsewhere,
    fitted,
    fitted_master,
    keys_of,
    new_state,
)
from fallline.optim.watched import Watched
from fallline.rules.chain import Chain
from fallline.rules.program import Program


@dataclasses.dataclass(eq=False)
class Candidate:
    """A parameter that has a gradient or states."""

    param: Tensor
    piece: Piece
    number: int
    """Its position among all parameters of the optimizer."""
    row: int
    """Its position among the candidates."""
    group: int
    name: str
    reader: GroupReader
    program: Program
    owner: Owner | None
    """The process that steps it, if matrix functions do, and it is in pieces or all processes have it."""

    @functools.cached_property
    def with_states(self) -> Piece | None:
        """The parameter as its states see it: all of it at its owner, and nothing elsewhere."""
        if self.owner is None or self.owner.copied:
            return self.piece if self.owner is None or self.owner.is_here else None
        if not self.owner.is_here:
            return None
        assert self.piece.place is not None
        shape = self.param.shape
        return Piece(torch.empty(shape, dtype=self.param.dtype, device=self.piece.param.device))

    @property
    def place(self) -> str:
        """The name of its state in messages."""
        return f"the state of {self.name}"

    def with_dtensors(self, entry: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        if self.owner is not None:
            return dict(entry)
        return as_dtensors(entry, known, self.param, self.piece, self.program.states)


class Scope(NamedTuple):
    """Which parameters a plan is to cover."""

    roster: Roster
    numbers: list[int]
    is_whole: bool
    planned_apart: int


def whole_scope(roster: Roster, states: Mapping[Tensor, Any]) -> Scope:
    """All parameters that take part: those with a gradient or states."""
    taking_part = [n for n, param in enumerate(roster.params) if states.get(param) or param.grad is not None]
    return Scope(roster, taking_part, is_whole=True, planned_apart=0)


def scope_of_step(before: Plan | None, roster: Roster, present: list[int], states: Mapping[Tensor, Any]) -> Scope:
    """The parameters that a step needs a plan of, because ``before`` does not serve it.

    Steps inside of backward() each bring one parameter that had no gradient before: planning all of them in each of
    these steps would cost the square of their number.  A step is therefore planned alone, until such plans have cost as
    much as a whole one.
    """
    if before is not None and before.roster is roster:
        newcomers = sum(not states.get(roster.params[number]) for number in present)
        planned_apart = before.planned_apart + len(present)
        if planned_apart < len(states) + newcomers:
            return Scope(roster, present, is_whole=False, planned_apart=planned_apart)
    return whole_scope(roster, states)


def make_plan(
    scope: Scope,
    readers: Readers,
    groups: Groups,
    states: dict[Tensor, Any],
    pieces: Pieces,
    changed: Callable[[], None],
) -> Plan:
    """``changed`` is called when someone replaces a state.  Nothing changes before the plan is committed."""
    roster = scope.roster
    own = {g: readers.of(groups[g]) for g in dict.fromkeys(roster.group_of[number] for number in scope.numbers)}
    if any(reader.description.must_match for reader in own.values()):
        check_must_match(groups, readers.of_all(groups))
    for g, reader in own.items():
        reader.check(groups[g])
    candidates = _candidates(scope, own, groups, pieces)
    refuse_shared([c.piece.param for c in candidates], [c.name for c in candidates])
    completed = {c.param: _completed(c, groups[c.group], locals_of(states.get(c.param) or {})) for c in candidates}
    return Plan(
        roster=roster,
        scalars=_shared_scalars(readers, own, candidates, completed),
        buckets=_buckets(candidates, groups, completed),
        states=states,
        completed={
            c.param: Watched(c.with_dtensors(completed[c.param], states.get(c.param) or {}), changed)
            for c in candidates
        },
        readers=own,
        settings=settings_of(own, groups),
        forms={g: reader.form(groups[g]) for g, reader in own.items()},
        is_whole=scope.is_whole,
        planned_apart=scope.planned_apart,
    )


def _candidates(scope: Scope, readers: Mapping[int, GroupReader], groups: Groups, pieces: Pieces) -> list[Candidate]:
    found: list[Candidate] = []
    for row, number in enumerate(scope.numbers):
        g, param = scope.roster.group_of[number], scope.roster.params[number]
        reader, group = readers[g], groups[g]
        name = reader.check_member(group, g, scope.roster.index_in_group(number))
        piece = pieces.of(param)
        program = reader.program(group, len(piece.shape))
        owner = pieces.owners.get(param) if isinstance(program, Chain) else None
        if owner is None:
            piece.check(name, group)
        found.append(Candidate(param, piece, number, row, g, name, reader, program, owner))
    return found


def _completed(candidate: Candidate, group: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter's state with what it lacks (at first that is everything), in its group's formats."""
    piece, reader = candidate.with_states, candidate.reader
    format, entry = group["state_dtype"], dict(old)
    entry.setdefault(STEP, _count_of_none())
    were_there = []
    for name, state in candidate.program.states.items():
        if state.shape in ("group", "optimizer"):
            continue
        if state.shape == "scalar":
            were_there.append(name in old)
            entry.setdefault(name, torch.tensor(reader.initial(state, group), dtype=torch.float64, device="cpu"))
            continue
        if piece is None:
            for key in keys_of(name):
                entry.pop(key, None)
            entry.update(elsewhere(name, state, candidate.param, format))
            continue
        for key in keys_of(name):
            entry.pop(key, None)
        found = fitted(name, state, old, piece, format, candidate.place)
        were_there.append(found is not None)
        entry.update(found or new_state(name, state, piece, format, reader.initial(state, group)))
    if were_there and not any(were_there) and STEP not in reader.rule.arguments:
        # Equations that ask for ``first`` alone mean the first step of their states: a momentum that is switched on
        # later begins with the gradient, as in torch.
        entry[STEP] = _count_of_none()
    if not group["master_weights"] or candidate.param.dtype not in HALF:
        entry.pop(MASTER, None)
    elif piece is None:
        entry[MASTER] = torch.empty(candidate.param.shape, dtype=torch.float32, device="meta")
    elif MASTER in entry:
        entry[MASTER] = fitted_master(entry, piece.param, candidate.place)
    else:
        entry[MASTER] = piece.param.detach().to(torch.float32, copy=True)
        if candidate.owner is not None and not candidate.owner.copied:
            entry[MASTER].fill_(torch.nan)  # nobody has gathered the weights yet: they follow in the step
    return entry


def _count_of_none() -> Tensor:
    return torch.zeros((), dtype=counter_dtype(), device="cpu")


def _shared_scalars(
    readers: Readers,
    own: Mapping[int, GroupReader],
    candidates: Sequence[Candidate],
    entries: Mapping[Tensor, dict[str, Any]],
) -> HostScalars:
    """Makes counters and scalar states of all parameters views of one flat tensor each: a thousand 0-d tensors cost
    more to advance than a kernel takes."""
    rules = dict.fromkeys(reader.rule for reader in own.values())
    states = [name for rule in rules for name, state in rule.states.items() if state.shape == "scalar"]
    flat: dict[str, Tensor] = {}
    for name in dict.fromkeys((STEP, *states)):
        dtype = counter_dtype() if name == STEP else torch.float64
        flat[name] = torch.zeros(len(candidates), dtype=dtype, device="cpu")
        for candidate in candidates:
            entry = entries[candidate.param]
            if name in entry:
                flat[name][candidate.row] = float(entry[name])
                entry[name] = flat[name][candidate.row]
    return HostScalars(flat, readers, own)


def _buckets(candidates: Sequence[Candidate], groups: Groups, entries: Mapping[Tensor, Any]) -> list[Bucket]:
    found: dict[Any, list[Member]] = {}
    rules = {}
    for candidate in candidates:
        group, program = groups[candidate.group], candidate.program
        piece, owner = candidate.piece, candidate.owner
        own = candidate.with_states
        item = (
            None if own is None else build_item(program.states, own, entries[candidate.param], group, candidate.number)
        )
        here = item if owner is None else bare_item(piece, candidate.number)
        assert here is not None
        choice = choose_lowering(program, here, group)
        rules[program] = candidate.reader.rule
        member = Member(candidate.param, piece.param, here, candidate.row, candidate.group, candidate.name, owner, item)
        kind = program, choice, group["maximize"], here.counted, owner is not None
        found.setdefault(kind, []).append(member)
    return [
        Bucket(rules[program], program, choice, maximize, members)
        for (program, choice, maximize, *_), members in found.items()
    ]
