"""Which rule steps which parameters: selectors, in order, each with a rule or settings of its own.

The first selector that matches a parameter takes it; the rest stays with the optimizer's own rule.  A selector that
takes nothing is refused, because a misspelt name would otherwise be stepped by another rule than the user thinks.
"""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor, nn

from fallline.optim.group_reader import RULE
from fallline.optimizers import description_named
from fallline.optimizers.description import Description

Selector: TypeAlias = str | type[nn.Module] | Callable[[str | None, Tensor], bool]
"""A pattern of names (``"embed*"``), a class of modules (``nn.Embedding``), or a function of name and parameter."""
Assignment: TypeAlias = Mapping[Any, str | Mapping[str, Any]] | Iterable[tuple[Selector, str | Mapping[str, Any]]]
"""Selectors with a rule's name, or with settings among which ``"rule"`` may name one."""


@dataclasses.dataclass(eq=False)
class Named:
    """A parameter under all of its names: several if modules share it, none if it came without."""

    param: Tensor
    names: list[str] = dataclasses.field(default_factory=list)
    owners: list[nn.Module] = dataclasses.field(default_factory=list)
    """The modules that hold it."""

    @property
    def entry(self) -> Any:
        """The entries of a parameter group."""
        return (self.names[0], self.param) if self.names else self.param


@dataclasses.dataclass(eq=False)
class Part:
    """The parameters that one selector takes."""

    selector: Selector | None
    """None for the rest, which nothing selected."""
    description: Description
    settings: dict[str, Any]
    """Those that the assignment gives, without the rule."""
    members: list[Named] = dataclasses.field(default_factory=list)

    def group(self, own: Description) -> dict[str, Any]:
        """The group of an optimizer of this rule ``own``."""
        rule = {} if self.description is own else {RULE: self.description.name}
        return {"params": [member.entry for member in self.members], **rule, **self.settings}


def named_in_model(model: nn.Module) -> list[Named]:
    """The parameters of a model, each once, with every name that it has there."""
    found: dict[int, Named] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for name, param in module.named_parameters(prefix, recurse=False, remove_duplicate=False):
            one = found.setdefault(id(param), Named(param))
            one.names.append(name)
            one.owners.append(module)
    return list(found.values())


def named_in(params: Iterable[Any]) -> list[Named]:
    """Parameters as users list them, with names or without.  One that comes under two names is one."""
    found: list[Named] = []
    known: dict[int, Named] = {}
    for entry in params:
        if isinstance(entry, Mapping):
            raise TypeError(
                "assign makes the groups itself and takes a model, named parameters or parameters, not groups; "
                'give each group its rule instead: {"params": …, "rule": "adamw"}'
            )
        name, param = entry if isinstance(entry, tuple) and len(entry) == 2 else (None, entry)
        if not isinstance(param, Tensor):
            raise TypeError(f"assign takes parameters or pairs of name and parameter, got a {type(entry).__name__}")
        if name is None:
            found.append(Named(param))  # listed twice, it is refused as in any group
            continue
        if id(param) not in known:
            known[id(param)] = Named(param)
            found.append(known[id(param)])
        known[id(param)].names.append(name)
    return found


def assigned_groups(own: Description, params: Iterable[Any], assign: Assignment) -> list[dict[str, Any]]:
    """The groups of parameters that come without a model."""
    return [part.group(own) for part in split(own, named_in(params), assign) if part.members]


def split(own: Description, parameters: Sequence[Named], assign: Assignment) -> list[Part]:
    """The rest, which the optimizer's own rule steps, and then one part for each selector."""
    rest = Part(None, own, {})
    parts = [_part(own, *pair) for pair in _pairs(assign)]
    tests = [_test(part.selector, parameters) for part in parts]
    for parameter in parameters:
        chosen = next((part for part, takes in zip(parts, tests, strict=True) if takes(parameter)), rest)
        chosen.members.append(parameter)
    for part, takes in zip(parts, tests, strict=True):
        if not part.members:
            raise ValueError(_took_nothing(part, takes, parts, parameters))
    if parts and not any(part.members for part in (rest, *parts) if part.description is own):
        raise ValueError(f"assign leaves no parameter to {own.name}; create {parts[0].description.name!r} instead")
    return [rest, *parts]


def _pairs(assign: Any) -> list[tuple[Selector, Any]]:
    pairs = list(assign.items() if isinstance(assign, Mapping) else assign)
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise TypeError(f'assign must be a dict or pairs such as ("embed*", "adamw"), got {pair!r}')
    return pairs


def _part(own: Description, selector: Selector, value: Any) -> Part:
    if isinstance(value, str):
        value = {RULE: value}
    if not isinstance(value, Mapping):
        raise TypeError(
            f'assign gives {_shown(selector)} {value!r}; it must be the name of a rule, "adamw", or a dict of settings'
        )
    settings = dict(value)
    if "params" in settings:
        raise TypeError(f"assign gives {_shown(selector)} 'params'; the selector says which they are, leave it out")
    rule = settings.pop(RULE, None)
    description = own if rule is None else description_named(rule)
    return Part(selector, own if description.name == own.name else description, settings)


def _test(selector: Any, parameters: Sequence[Named]) -> Callable[[Named], bool]:
    """Whether a parameter, under one of its names, is meant."""
    has_names = all(parameter.names for parameter in parameters)
    if isinstance(selector, str):
        if not has_names:
            raise ValueError(
                f"assign selects by the name {selector!r}, and these parameters have none; pass the model, or "
                "model.named_parameters()"
            )
        return lambda one: any(fnmatch.fnmatchcase(name, selector) for name in one.names)
    if isinstance(selector, type) and issubclass(selector, nn.Module):
        if not all(parameter.owners for parameter in parameters):
            raise ValueError(
                f"assign selects by the module {selector.__name__}, and parameters alone do not say which module "
                "holds them; pass the model"
            )
        return lambda one: any(isinstance(owner, selector) for owner in one.owners)
    if callable(selector):
        return lambda one: any(bool(selector(name, one.param)) for name in one.names or (None,))
    raise TypeError(
        f'assign has the selector {selector!r}; use a pattern of names ("embed*"), a class of modules '
        "(nn.Embedding), fallline.select.vectors, or a function of name and parameter"
    )


def _shown(selector: Any) -> str:
    if isinstance(selector, type):
        return selector.__name__
    return repr(getattr(selector, "__name__", selector) if not isinstance(selector, str) else selector)


def _took_nothing(
    part: Part, takes: Callable[[Named], bool], parts: Sequence[Part], parameters: Sequence[Named]
) -> str:
    shown = _shown(part.selector)
    wanted = {id(parameter) for parameter in parameters if takes(parameter)}
    if wanted:
        before = next(other for other in parts if any(id(member) in wanted for member in other.members))
        return f"assign: {shown} takes no parameter, since {_shown(before.selector)} comes before it; put it first"
    if not isinstance(part.selector, str):
        return f"assign: {shown} matches no parameter; leave it out, or select others"
    near = _near(part.selector, [name for parameter in parameters for name in parameter.names])
    hint = f"near names are {', '.join(near)}" if near else "opt.describe() of an optimizer without it lists the names"
    return f"assign: {shown} matches no parameter; patterns match whole names, with * for any text; {hint}"


def _near(pattern: str, names: Sequence[str]) -> list[str]:
    """Names that the writer of a pattern may have meant: alike as a whole, or in one of their beginnings."""
    plain = pattern.replace("*", "").strip(".")
    beginnings: dict[str, str] = {}
    for name in names:
        words = name.split(".")
        for count in range(len(words), 0, -1):
            beginnings.setdefault(".".join(words[:count]), name)
    close = difflib.get_close_matches(plain, beginnings, n=3, cutoff=0.6)
    return list(dict.fromkeys(beginnings[beginning] for beginning in close))
