"""``fallline.info``: what is known of an optimizer, as data that also prints."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from fallline.lower.catalogue import lowerings
from fallline.memory.per_parameter import bytes_of, program_of, square_bytes
from fallline.optim.group_reader import RULE
from fallline.optim.options import STATE_DTYPES
from fallline.optim.registry import find
from fallline.rules.annotations import State, axis
from fallline.rules.blocks import Squares
from fallline.rules.rule import Rule

SIDE = 1024
"""Rows and columns of the matrix for which the bytes of square matrices are given."""


@dataclasses.dataclass(frozen=True)
class Info:
    """The facts about an optimizer that `fallline.info` gives."""

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
    """Bytes of the states that the defaults allocate, by state_dtype, for large float32 parameters."""
    bytes_moved: Mapping[str, float]
    """Read and written per parameter and step, by state_dtype; functions of whole matrices come on top."""
    square_bytes: float
    """Bytes of square matrices, on top of the others, per parameter of a matrix of ``SIDE`` rows and columns."""
    companion: Mapping[str, Any] | None
    """The rule for parameters that are no hidden matrices, with settings; None if this one steps every parameter."""
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
    torch_class: str | None
    preset_of: str | None
    sparse_gradients: bool
    cannot: tuple[str, ...]
    """The options and inputs that it refuses, by name."""

    @property
    def extra_memory(self) -> str | None:
        """A sentence about memory that no number of bytes per parameter can tell."""
        if not self.square_bytes:
            return None
        return (
            f"square matrices come on top: {self.square_bytes:g} bytes per parameter of a matrix of {SIDE:,} rows and "
            f"columns; `fallline memory MODEL --optimizer {self.name}` counts those of a model"
        )

    @property
    def left_to_companion(self) -> str | None:
        """A sentence about the parameters that it does not step."""
        if self.companion is None:
            return None
        settings = ", ".join(f"{k}={v!r}" for k, v in self.companion.items() if k != RULE)
        return (
            f"{self.companion[RULE]} ({settings}) steps embeddings, heads, norms and biases in "
            f'fallline.create("{self.name}", model); companion={{"lr": …}} changes its settings'
        )

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
        if self.extra_memory:
            lines.append(self.extra_memory)
        if self.stays_float32:
            lines.append("never below 32 bits: " + ", ".join(self.stays_float32))
        lines += [f"not below 32 bits with {option}: {name}" for name, option in self.float32_with.items()]
        lines.append("lowerings: " + ", ".join(self.lowerings))
        if self.left_to_companion:
            lines.append(f"companion: {self.left_to_companion}")
        if self.sources:
            lines.append("follows: " + ", ".join(self.sources))
        lines += [f"deviation: {d}" for d in self.deviations]
        if self.torch_class:
            lines.append(f"exchanges checkpoints with torch.optim.{self.torch_class}")
        lines.append("cannot: " + ", ".join(self.cannot))
        return "\n".join(lines)


def _option_of(rule: Rule, state: State) -> str:
    """The condition under which a state exists: an option that users set, or the number of axes."""
    flag = state.flag or ""
    sources = rule.derived_from.get(flag, (flag,))
    return ", ".join("number of axes" if name == "ndim" else name for name in sources)


_SHAPES = {
    axis(-1): "one per row",
    axis(-2): "one per column",
    axis("rows"): "one per index of the first axis",
    "scalar": "one per parameter",
    "group": "one per group",
    "optimizer": "one in all",
}


def _state_text(state: State) -> str:
    """``nonneg, one per row``.  The kind is about codes, which numbers have none of."""
    if state.shape is None:
        return state.kind
    if isinstance(state.shape, Squares):
        return "a square matrix for each axis of each block"
    return _SHAPES[state.shape] if state.is_scalar else f"{state.kind}, {_SHAPES[state.shape]}"


def info(name: str) -> Info:
    """Equations, defaults, sources, bytes per parameter, lowerings and formats of an optimizer."""
    described = find(name)
    rule, program = described.rule, program_of(name)
    formats = STATE_DTYPES if any(s.low_bit for s in rule.states.values()) else STATE_DTYPES[:1]
    sizes = {state_dtype: bytes_of(program, state_dtype=state_dtype) for state_dtype in formats}
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
        bytes_per_parameter={state_dtype: size.states for state_dtype, size in sizes.items()},
        bytes_moved={state_dtype: size.moved for state_dtype, size in sizes.items()},
        square_bytes=square_bytes(program, SIDE),
        companion=described.companion,
        lowerings=tuple(lowering.name for lowering in lowerings()),
        formats=tuple(formats),
        stays_float32=tuple(n for n, s in rule.states.items() if not s.low_bit),
        float32_with={n: s.wide for n, s in rule.states.items() if isinstance(s.wide, str)},
        sources=described.sources,
        deviations=described.deviations,
        torch_class=described.torch_class,
        preset_of=described.preset_of,
        sparse_gradients=described.sparse,
        cannot=(
            *(() if described.sparse else ("sparse gradients",)),
            *(("complex parameters",) if rule.depends_on_axes else ()),
            *(() if rule.has_direction else ("cautious",)),
            "capturable",
            "differentiable",
        ),
    )
