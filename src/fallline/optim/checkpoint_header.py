"""The header of a checkpoint: what wrote it, and whether this optimizer may read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fallline.optim.checkpoint_origin import torch_writers
from fallline.optimizers import descriptions

if TYPE_CHECKING:
    from fallline.optim.optimizer import RuleOptimizer

HEADER = "fallline"
VERSION = 2
"""1: one rule for all groups.  Checkpoints of one rule are still written so, for a fallline that knows no other."""
OWN = "own"
"""Under the header: keys in parameters' states that are not the rule's.  Only the writer knows that they are not of
another method, or of the rule before it was edited."""
_LAYOUT = {"state": Mapping, "param_groups": list}


def check_origin(optimizer: RuleOptimizer, saved: Any) -> None:
    """Whether this is a checkpoint, of this optimizer, in a version that is known here."""
    name, rule = type(optimizer).__name__, optimizer.description.rule
    if not isinstance(saved, Mapping) or not all(isinstance(saved.get(k), t) for k, t in _LAYOUT.items()):
        has = listed(saved) if isinstance(saved, Mapping) else type(saved).__name__
        raise ValueError(
            f"{name} cannot load this: an optimizer's checkpoint has a dict 'state' and a list "
            f"'param_groups', this has {has}; is it a model's?"
        )
    header = saved.get(HEADER)
    if header is None:
        _refuse_another_of_torch(optimizer, saved["param_groups"])
        return
    if (
        not isinstance(header, Mapping)
        or not isinstance(header.get("version"), int)
        or not isinstance(header.get(OWN, []), list)
    ):
        raise ValueError(f"the checkpoint's entry {HEADER!r} is {header!r}, which fallline did not write; remove it")
    if header["version"] > VERSION:
        raise ValueError(
            f"this checkpoint has format version {header['version']}, this fallline reads up to {VERSION}; "
            "install a newer fallline"
        )
    if _family(header.get("rule")) != _family(rule.name):
        other = next((d.class_name for d in descriptions() if d.rule.name == header.get("rule")), None)
        remedy = f"load it into fallline.{other}" if other else "load it into the optimizer that wrote it"
        raise ValueError(f"{name} cannot load a checkpoint of {header.get('rule')!r}; {remedy}")


def _family(rule: Any) -> Any:
    """The name under which rules go whose states and options mean the same: Adam with decoupled decay is AdamW, and the
    option in the groups says which of them it is."""
    return next((d.family for d in descriptions() if d.rule.name == rule and d.family), rule)


def _refuse_another_of_torch(optimizer: RuleOptimizer, groups: list[Any]) -> None:
    """Raises if this is a checkpoint of a class of torch.optim that is not this optimizer's."""
    writers = torch_writers(groups[0]) if groups and isinstance(groups[0], Mapping) else []
    if writers and optimizer.description.torch_class not in writers:
        ours = any(d.class_name == writers[0] for d in descriptions())
        remedy = f"load it into fallline.{writers[0]}" if ours else "fallline has no such optimizer, go on with torch's"
        raise ValueError(f"{type(optimizer).__name__} cannot load a checkpoint of torch.optim.{writers[0]}; {remedy}")


def listed(keys: Mapping[Any, Any]) -> str:
    names = [str(key) for key in keys]
    return ", ".join(names if len(names) <= 5 else [*names[:4], f"… {names[-1]}"]) or "none"
