"""Checkpoints for torch.optim's own classes."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

from fallline.optim.checkpoint import check_usual
from fallline.optim.checkpoint_header import HEADER, OWN
from fallline.optim.dtensor_states import as_dtensors, locals_of
from fallline.optim.group_reader import RULE
from fallline.optim.hyperparameters import STEP
from fallline.optim.options import GROUP_OPTIONS
from fallline.optim.roster import all_params
from fallline.optim.states import fitted

if TYPE_CHECKING:
    from fallline.optim.optimizer import RuleOptimizer


def export_for_torch(optimizer: RuleOptimizer) -> dict[str, Any]:
    """A checkpoint that torch.optim's class can load: low-bit states decoded to float32.

    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.ones(64, 64))
    >>> opt = fallline.AdamW8bit([w])
    >>> w.square().sum().backward()
    >>> opt.step()
    >>> torch.optim.AdamW([w]).load_state_dict(fallline.export_for_torch(opt))
    """
    if not hasattr(optimizer, "description"):
        raise TypeError(f"export_for_torch needs an optimizer of fallline, got a {type(optimizer).__name__}")
    if optimizer.description.torch_class is None:
        raise ValueError(f"torch.optim has no {optimizer.description.class_name}; use state_dict() to save it")
    theirs = inspect.signature(getattr(torch.optim, optimizer.description.torch_class)).parameters
    for group in optimizer.param_groups:
        if RULE in group:
            raise ValueError(
                f"torch.optim has no optimizer with a group of {group[RULE]!r}; use state_dict() to save it"
            )
        for name in optimizer.description.defaults:
            if name not in theirs and name not in GROUP_OPTIONS:
                check_usual(optimizer, group, name, "use state_dict() to save it")
        check_usual(optimizer, group, "cautious", "use state_dict() to save it")
    saved = optimizer.state_dict()
    own = saved.pop(HEADER).get(OWN, ())
    states = optimizer.description.rule.states
    for number, param in enumerate(all_params(optimizer.param_groups)):
        entry = saved["state"].get(number)
        if entry is None or STEP not in entry:
            continue
        plain = {key: entry[key] for key in (STEP, *own) if key in entry}
        piece = optimizer._pieces.of(param)
        if piece.place is not None:
            entry = locals_of(optimizer.state[param])
        for name, state in states.items():
            if state.shape == "scalar":
                plain[name] = entry[name].to(torch.get_default_dtype())
            elif not state.is_scalar:
                where = f"the state of parameter {number}"
                plain.update(fitted(name, state, entry, piece, "float32", where) or {})
        plain = as_dtensors(plain, {}, param, piece, states)
        saved["state"][number] = plain
    return saved
