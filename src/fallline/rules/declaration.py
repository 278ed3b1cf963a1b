"""The check of a rule, made once, when it is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fallline.rules.annotations import GRAD, KINDS, PARAM, SCALAR_SHAPES, Axis
from fallline.rules.blocks import Squares
from fallline.rules.node import RuleError
from fallline.rules.source import place_of

if TYPE_CHECKING:
    from fallline.rules.rule import Rule

STEP = "step"
COUNTERS = (STEP, "first")
FACTS = ("numel", "total", "ndim", "rows", "cols", "batch", "size0", "row_length", "dtype_eps", "shared_lr")
RESERVED = (*COUNTERS, *FACTS, "params", "master")
"""Names that no state may have: numbers that every rule may ask for, and entries that lie beside its states."""


def check_declaration(rule: Rule) -> None:
    """Refuses names and states that no optimizer could have, with the place in the source and the remedy."""
    place = place_of(rule.function)
    for name in (*rule.hypers, *rule.statics, *rule.aliases):
        if name in ("params", "param_names", "self"):
            raise RuleError(f"{place}: an argument cannot be called {name}, which has another meaning; rename it")
    for name, state in rule.states.items():
        if name in RESERVED:
            raise RuleError(f"{place}: a state cannot be called {name}, which has another meaning; rename it")
        if state.kind not in KINDS:
            raise RuleError(f"{place}: the state {name} is of kind {state.kind!r}; use {', '.join(KINDS)}")
        if not (state.shape is None or isinstance(state.shape, (Axis, Squares)) or state.shape in SCALAR_SHAPES):
            raise RuleError(
                f"{place}: the state {name} has shape {state.shape!r}; it can have axis(-1), axis(-2), "
                f'axis("rows") or {", ".join(map(repr, SCALAR_SHAPES))}'
            )
        if state.flag is not None and state.flag not in rule.statics:
            raise RuleError(
                f"{place}: the state {name} exists when {state.when!r}, which is no static argument; "
                f"add the keyword argument `{state.flag}: static`"
            )
        if isinstance(state.wide, str) and state.wide not in rule.statics:
            raise RuleError(
                f"{place}: the state {name} is wide with {state.wide!r}, which is no static argument; "
                f"add the keyword argument `{state.wide}: static`"
            )
        if not isinstance(state.init, (int, float)) and state.init not in (PARAM, GRAD, *rule.hypers):
            raise RuleError(
                f"{place}: the state {name} starts as {state.init!r}; it can start as a number, "
                f'"{PARAM}", "{GRAD}" or a hyperparameter'
            )
        if state.init in (PARAM, GRAD) and state.shape is not None:
            raise RuleError(
                f"{place}: the state {name} starts as {state.init!r} but has another shape; let it start as a number"
            )
    for name, parts in rule.aliases.items():
        missing = [part for part in parts if part not in rule.hypers]
        if missing:
            raise RuleError(f"{place}: {name} stands for {', '.join(parts)}, but {missing[0]} is no argument")
    for name, sources in rule.derived_from.items():
        if name not in rule.statics:
            raise RuleError(f"{place}: derive names {name!r}; add the keyword argument `{name}: static`")
        known = {"ndim", *rule.hypers, *rule.statics} - set(rule.derive)
        if unknown := [source for source in sources if source not in known]:
            raise RuleError(f"{place}: {name} is derived from {unknown[0]}, which is no argument of the rule")
        numbers = [source for source in sources if source in rule.hypers]
        if "ndim" in sources and numbers:
            raise RuleError(
                f"{place}: {name} is derived from ndim and {numbers[0]}; "
                "derive a flag from ndim alone, and join flags with `and` in the equations"
            )
