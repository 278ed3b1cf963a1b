"""The data that an optimizer file declares besides its equations: defaults, sources, capabilities."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from fallline.rules.annotations import Range, Static
from fallline.rules.rule import Rule


@dataclasses.dataclass(frozen=True)
class Requirement:
    """A condition on several hyperparameters at once."""

    holds: Callable[..., bool]
    says: str

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.holds).parameters)

    def check(self, values: Mapping[str, Any]) -> None:
        if not self.holds(*(values[name] for name in self.names)):
            raise ValueError(self.says)


@dataclasses.dataclass(frozen=True)
class Reminder:
    """An entry point that training must call: a warning, once, if so many steps pass without a call."""

    entry: str
    steps: int
    says: str


@dataclasses.dataclass(frozen=True, eq=False)
class Description:
    """One optimizer: everything that `fallline.info`, the documentation and the tests read."""

    name: str
    class_name: str
    rule: Rule
    defaults: Mapping[str, Any]
    """The arguments that users pass, in the order of the signature."""
    doc: str
    sources: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    """How the optimizer differs from its sources."""
    torch_class: str | None = None
    """The class of torch.optim whose checkpoints are exchanged."""
    torch_group: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Keys that torch's class expects in a parameter group and that never change here."""
    requires: tuple[Requirement, ...] = ()
    must_match: tuple[str, ...] = ()
    """Hyperparameters that must be the same in all groups, because they act on all parameters at once."""
    reminder: Reminder | None = None
    variants: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    """Other defaults, by the value of the argument ``variant``."""
    sparse: bool = False
    """Takes sparse gradients: a zero gradient leaves the parameter and its states as they are."""
    companion: Mapping[str, Any] | None = None
    """The rule, with its settings, for parameters that are no hidden matrices; None if the rule steps every kind."""
    family: str | None = None
    """A name shared by rules whose checkpoints are interchangeable; the options tell them apart."""
    preset_of: str | None = None
    preset_options: tuple[str, ...] = ()
    """The options that make it a preset; a checkpoint does not change them."""

    @property
    def summary(self) -> str:
        return self.doc.strip().split("\n\n")[0].replace("\n", " ")

    @functools.cached_property
    def has_modes(self) -> bool:
        """Whether parameters hold other weights for evaluation, between the entries ``eval`` and ``train``."""
        return {"train", "eval"} <= set(self.rule.entries)

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The given values, completed by the defaults, or by those of the variant that is named."""
        variant = given.get("variant", self.defaults.get("variant"))
        changed = self.variants.get(variant, {}) if isinstance(variant, str) else {}
        return {**self.defaults, **changed, **given}

    def expand(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the equations from those of the user: ``betas`` → ``beta1, beta2``."""
        expanded: dict[str, Any] = {}
        for name, value in values.items():
            parts = self.rule.aliases.get(name)
            if parts is None:
                expanded[name] = value
                continue
            try:
                numbers = tuple(value)
            except TypeError:
                numbers = ()
            if len(numbers) != len(parts):
                raise ValueError(f"{name} must be {len(parts)} numbers ({', '.join(parts)}), got {value!r}")
            expanded.update(zip(parts, numbers, strict=True))
        return expanded

    def check(self, values: Mapping[str, Any]) -> None:
        """Raises an error that names the argument, its value and the values that are allowed."""
        spelled = {part: f"{alias}[{i}]" for alias, parts in self.rule.aliases.items() for i, part in enumerate(parts)}
        expanded = self.expand(values)
        notes: dict[str, Range | Static] = {**self.rule.hypers, **self.rule.statics}
        for name, note in notes.items():
            if name in expanded:
                note.check(spelled.get(name, name), expanded[name])
        for requirement in self.requires:
            requirement.check(expanded)


def describe(
    rule: Rule,
    class_name: str,
    *,
    defaults: Mapping[str, Any],
    name: str | None = None,
    doc: str | None = None,
    sources: tuple[str, ...] = (),
    deviations: tuple[str, ...] = (),
    torch_class: str | None = None,
    torch_group: Mapping[str, Any] | None = None,
    requires: tuple[Requirement, ...] = (),
    must_match: tuple[str, ...] = (),
    reminder: Reminder | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    sparse: bool = False,
    companion: Mapping[str, Any] | None = None,
    family: str | None = None,
) -> Description:
    """Declares the optimizer of a rule.  Every hyperparameter of the rule needs a default."""
    description = Description(
        name=name or rule.name,
        class_name=class_name,
        rule=rule,
        defaults=defaults,
        doc=doc or rule.function.__doc__ or "",
        sources=sources,
        deviations=deviations,
        torch_class=torch_class,
        torch_group=torch_group or {},
        requires=requires,
        must_match=must_match,
        reminder=reminder,
        variants=variants or {},
        sparse=sparse,
        companion=companion,
        family=family,
    )
    needed = {*rule.hypers, *rule.statics} - set(rule.derive)
    given = set(description.expand(defaults))
    if missing := sorted(needed - given):
        raise ValueError(f"{rule.name} needs a default for {', '.join(missing)}")
    if unknown := sorted(given - needed):
        raise ValueError(f"{rule.name} has no argument {', '.join(unknown)}; it has {', '.join(sorted(needed))}")
    description.check(defaults)
    for variant, changed in description.variants.items():
        description.check({**defaults, **changed, "variant": variant})
    return description


def preset(base: Description, name: str, class_name: str, doc: str, **options: Any) -> Description:
    """The same optimizer under another name, with options set; it loads the checkpoints of its base."""
    return dataclasses.replace(
        base,
        name=name,
        class_name=class_name,
        doc=doc,
        defaults={**base.defaults, **options},
        preset_of=base.name,
        preset_options=tuple(options),
    )
