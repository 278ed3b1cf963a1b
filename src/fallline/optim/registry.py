"""Optimizers by name, their classes, and what is known about each."""

from __future__ import annotations

import copyreg
import dataclasses
import fnmatch
import functools
import inspect
import sys
from collections.abc import Mapping
from typing import Any

import torch

from fallline.optim import modes
from fallline.optim.grouping import parameter_groups
from fallline.optim.optimizer import RuleOptimizer
from fallline.optim.options import GROUP_OPTIONS, OPTIMIZER_OPTIONS, STATE_DTYPES
from fallline.optimizers import FILES, description, descriptions
from fallline.optimizers.describe import Description, describe
from fallline.rules.annotations import State, axis
from fallline.rules.reference import reference
from fallline.rules.rule import Rule


class UsersClass(type):
    """Of optimizer classes that users make: the variable that holds one need not have the name of its class."""


copyreg.pickle(UsersClass, lambda cls: reference(cls, f"the optimizer class {cls.__name__}"))


def class_of(described: Description, module: str, kind: type[type] = type) -> type[RuleOptimizer]:
    """The optimizer class of a description."""
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    parameters.append(inspect.Parameter("params", inspect.Parameter.POSITIONAL_OR_KEYWORD))
    options = {**GROUP_OPTIONS, **OPTIMIZER_OPTIONS}
    for name, default in described.defaults.items():
        if name not in options:
            parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    for name, default in options.items():
        shown = described.defaults.get(name, default)
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=shown))

    def __init__(self: RuleOptimizer, params: Any, *args: Any, **kwargs: Any) -> None:
        RuleOptimizer.__init__(self, params, *args, **kwargs)

    __init__.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return kind(
        described.class_name,
        (RuleOptimizer,),
        {
            "description": described,
            "__doc__": described.doc,
            "__module__": module,
            "__init__": __init__,
            **{name: _entry_method(name) for name in described.rule.entries},
            **(modes.methods() if described.has_modes else {}),
        },
    )


def _entry_method(name: str) -> Any:
    def method(self: RuleOptimizer) -> None:
        self.run_entry(name)

    method.__name__ = name
    return method


@functools.cache
def builtin_class(class_name: str) -> type[RuleOptimizer]:
    return class_of(description(class_name), "fallline")


def optimizer(rule: Rule, class_name: str | None = None, /, **defaults: Any) -> type[RuleOptimizer]:
    """An optimizer class from a rule and its defaults; a real ``torch.optim.Optimizer``, fused.

    >>> import torch, fallline
    >>> from fallline.rules import rule, sign
    >>> @rule
    ... def signum(p, g, m, *, lr, beta):
    ...     m = beta * m + (1 - beta) * g
    ...     return p - lr * sign(m), m
    >>> Signum = fallline.optimizer(signum, lr=1e-4, beta=0.9)
    >>> Signum.__name__
    'Signum'
    """
    if not isinstance(rule, Rule):
        raise TypeError(f"fallline.optimizer needs a function decorated with @rule, got {rule!r}")
    for taken in (*rule.hypers, *rule.statics, *rule.aliases):
        if taken in GROUP_OPTIONS or taken in OPTIMIZER_OPTIONS or taken in inspect.signature(describe).parameters:
            raise ValueError(f"{rule.name} has an argument {taken}, a name that every optimizer uses itself; rename it")
    for taken in rule.entries:
        if hasattr(RuleOptimizer, taken):
            raise ValueError(f"{rule.name} has an entry {taken}, a method that every optimizer has itself; rename it")
    name = class_name or "".join(part.capitalize() for part in rule.name.split("_"))
    described = describe(rule, name, doc=rule.function.__doc__ or f"The optimizer of the rule {rule.name}.", **defaults)
    # As collections.namedtuple does: the class is of the module that makes it.
    return class_of(described, sys._getframe(1).f_globals.get("__name__", "__main__"), UsersClass)


def list_optimizers(pattern: str = "*") -> list[str]:
    """Registry names that match a pattern, ``list_optimizers("adam*")``."""
    if not isinstance(pattern, str):
        raise TypeError(f'the pattern must be a string such as "adam*", got {pattern!r}')
    return [d.name for d in descriptions() if fnmatch.fnmatchcase(d.name, pattern.lower())]


def find(name: str) -> Description:
    """By registry name or class name, in any case."""
    if not isinstance(name, str):
        raise TypeError(f'the name of an optimizer must be a string such as "adamw", got {name!r}')
    for described in descriptions():
        if name.lower() in (described.name, described.class_name.lower()):
            return described
    if (averaging := average_named(name)) is not None:
        raise ValueError(
            f"{name!r} is no optimizer but an average of weights around one; make the optimizer first, then "
            f"fallline.{averaging}(optimizer, …)"
        )
    import difflib

    close = difflib.get_close_matches(name.lower(), list_optimizers(), n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else "; fallline.list_optimizers() lists them"
    raise ValueError(f"there is no optimizer {name!r}{hint}")


def average_named(name: str) -> str | None:
    """The class of an average by its name in snake case or its own."""
    from fallline import averaging

    kinds = {getattr(averaging, c).kind: c for c in averaging.__all__}
    return next((c for kind, c in kinds.items() if name.lower() in (kind, c.lower())), None)


def create(name: str, model_or_params: Any, **options: Any) -> RuleOptimizer:
    """An optimizer by name.

    Given a model, it makes groups: no weight decay on biases, norms and other tensors of fewer than two
    axes; ``layer_lr_decay=0.8`` scales the rate of each layer down towards the input.  Given parameters,
    they are taken as they are.

    >>> import torch, fallline
    >>> opt = fallline.create("lion", torch.nn.Linear(3, 2), lr=1e-4, weight_decay=0.1)
    >>> [group["weight_decay"] for group in opt.param_groups]
    [0.1, 0.0]
    """
    made = builtin_class(find(name).class_name)
    if isinstance(model_or_params, torch.nn.Module):
        return for_model(made, model_or_params, **options)
    if "layer_lr_decay" in options:
        raise ValueError("layer_lr_decay needs a model: parameters alone do not say which layer they are of")
    return made(model_or_params, **options)


def for_model(
    made: type[RuleOptimizer], model: torch.nn.Module, *, layer_lr_decay: float | None = None, **options: Any
) -> RuleOptimizer:
    """An optimizer of this class with the groups of a model that :func:`create` describes."""
    settings = made.description.settings(options)
    # MARS has a second one, for all that is not a matrix.
    decays = [n for n in made.description.rule.hypers if n.startswith("weight_decay") and settings.get(n)]
    groups = parameter_groups(model, decays=decays, lr=settings.get("lr"), layer_lr_decay=layer_lr_decay)
    return made(groups, **options)


@dataclasses.dataclass(frozen=True)
class Info:
    """What `fallline.info` knows of an optimizer."""

    name: str
    class_name: str
    summary: str
    doc: str
    """The docstring: use, maths, arguments, an example, references."""
    equations: str
    """The rule itself."""
    defaults: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]
    """Named forms of other sources, by the value of ``variant``, with the defaults that they change."""
    states: Mapping[str, str]
    """Kind and, if it is not the parameter's, shape."""
    optional_states: Mapping[str, str]
    """Those of the states that the defaults do not allocate for a matrix, with the option that adds them."""
    depends_on: Mapping[str, str]
    """States that not every parameter has: the options, or the number of axes, that decide."""
    bytes_per_parameter: Mapping[str, float]
    """Of the states that the defaults allocate, by state_dtype, for large float32 parameters."""
    bytes_moved: Mapping[str, float]
    """Read and written per parameter and step, by state_dtype."""
    lowerings: tuple[str, ...]
    formats: tuple[str, ...]
    stays_float32: tuple[str, ...]
    """States that no format stores in fewer bits: copies of weights, reduced states, single numbers, and those that
    would not train as in 32 bits."""
    float32_with: Mapping[str, str]
    """States that an option keeps in 32 bits, with that option."""
    sources: tuple[str, ...]
    deviations: tuple[str, ...]
    """Where it differs from its sources."""
    elsewhere: tuple[str, ...]
    """Where other packages differ under the same name."""
    torch_class: str | None
    preset_of: str | None
    sparse_gradients: bool
    cannot: tuple[str, ...]
    """What it refuses, by name."""

    def __str__(self) -> str:
        lines = [f"{self.class_name} ({self.name}): {self.summary}", "", self.equations.rstrip(), ""]
        lines.append("defaults: " + ", ".join(f"{k}={v!r}" for k, v in self.defaults.items()))
        for variant, changed in self.variants.items():
            lines.append(f"variant {variant}: " + ", ".join(f"{k}={v!r}" for k, v in changed.items()))
        lines.append("states: " + (", ".join(f"{k} ({v})" for k, v in self.states.items()) or "none"))
        for dtype, size in self.bytes_per_parameter.items():
            lines.append(
                f"{dtype}: {size:.4g} bytes of state per parameter, {self.bytes_moved[dtype]:.4g} moved per step"
            )
        if self.stays_float32:
            lines.append("never below 32 bits: " + ", ".join(self.stays_float32))
        lines += [f"not below 32 bits with {option}: {name}" for name, option in self.float32_with.items()]
        lines.append("lowerings: " + ", ".join(self.lowerings))
        if self.sources:
            lines.append("follows: " + ", ".join(self.sources))
        lines += [f"deviation: {d}" for d in self.deviations]
        lines += [f"elsewhere: {d}" for d in self.elsewhere]
        if self.torch_class:
            lines.append(f"exchanges checkpoints with torch.optim.{self.torch_class}")
        lines.append("cannot: " + ", ".join(self.cannot))
        return "\n".join(lines)


def _option_of(rule: Rule, state: State) -> str:
    """What decides whether a state exists: an option that users set, or the number of axes."""
    flag = state.flag or ""
    sources = rule.derived_from.get(flag, (flag,))
    return ", ".join("number of axes" if name == "ndim" else name for name in sources)


_SHAPES = {
    axis(-1): "one per row",
    axis(-2): "one per column",
    axis("rows"): "one per row of view(size0, -1)",
    "scalar": "one per parameter",
    "group": "one per group",
    "optimizer": "one in all",
}


def _state_text(state: State) -> str:
    """``nonneg, one per row``.  The kind is about codes, which numbers have none of."""
    if state.shape is None:
        return state.kind
    return _SHAPES[state.shape] if state.is_scalar else f"{state.kind}, {_SHAPES[state.shape]}"


def info(name: str) -> Info:
    """Equations, defaults, sources, bytes per parameter, lowerings and formats of an optimizer."""
    from fallline.formats import block_format

    described = find(name)
    rule = described.rule
    trace = rule.trace_for(described.expand({n: v for n, v in described.defaults.items() if n not in GROUP_OPTIONS}), 2)
    program = rule.program(trace)
    full = {n: s for n, s in program.states.items() if s.shape is None}
    formats = STATE_DTYPES if any(s.low_bit for s in rule.states.values()) else STATE_DTYPES[:1]
    sizes: dict[str, float] = {}
    moved: dict[str, float] = {}
    for dtype in formats:
        per_state = {
            n: 4.0 if dtype == "float32" or not s.low_bit
            else 2.0 if dtype == "bfloat16"
            else block_format(dtype, s.kind).bytes_per_element
            for n, s in full.items()
        }  # fmt: skip
        sizes[dtype] = sum(per_state.values())
        read: float = 0.0
        for k in range(len(program.reductions) + 1):
            names = {n.attr for n in program.pass_nodes(k) if n.op == "operand"}
            read += sum(per_state.get(n, 4.0) for n in names if n in per_state or n in (program.param, program.grad))
        moved[dtype] = read + sum(per_state.get(n, 4.0) for n in program.writes)
    return Info(
        name=described.name,
        class_name=described.class_name,
        summary=described.summary,
        doc=described.doc,
        equations=inspect.getsource(rule.function),
        defaults=described.defaults,
        variants=described.variants,
        states={n: _state_text(s) for n, s in rule.states.items()},
        optional_states={n: _option_of(rule, s) for n, s in rule.states.items() if n not in program.states},
        depends_on={n: _option_of(rule, s) for n, s in rule.states.items() if s.flag is not None},
        bytes_per_parameter=sizes,
        bytes_moved=moved,
        lowerings=("eager", "foreach", "compiled", "native", "native each"),
        formats=tuple(formats),
        stays_float32=tuple(n for n, s in rule.states.items() if not s.low_bit),
        float32_with={n: s.wide for n, s in rule.states.items() if isinstance(s.wide, str)},
        sources=described.sources,
        deviations=described.deviations,
        elsewhere=described.elsewhere,
        torch_class=described.torch_class,
        preset_of=described.preset_of,
        sparse_gradients=described.sparse,
        cannot=(
            *(() if described.sparse else ("sparse gradients",)),
            *(() if rule.has_direction else ("cautious",)),
            "capturable",
            "differentiable",
            "DTensor",
        ),
    )


__all__ = ["FILES", "Info", "builtin_class", "create", "info", "list_optimizers", "optimizer"]
