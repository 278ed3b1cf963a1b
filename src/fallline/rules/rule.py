"""``@rule``: an optimizer written as its equations, and the tracing that makes it a graph."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

from fallline.rules.annotations import (
    GRAD,
    Range,
    State,
    Static,
    conventional_range,
    signed,
)
from fallline.rules.cautious import cautious
from fallline.rules.chain import assemble_chain
from fallline.rules.declaration import COUNTERS, FACTS, STEP, check_declaration
from fallline.rules.functions import where
from fallline.rules.graph import Graph
from fallline.rules.node import Node, RuleError
from fallline.rules.program import Program, assemble
from fallline.rules.reference import Referenced
from fallline.rules.source import place_of, signature_of
from fallline.rules.space import Space
from fallline.rules.trace import Trace

TRACED_NDIMS = (0, 1, 2, 3, 4)
"""A rule that asks for ``ndim`` is checked at its declaration for these."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A further function of an optimizer that shares its states (SophiaG's ``update_hessian``)."""

    function: Callable[..., Any]
    writes: tuple[str, ...]


class Rule(Referenced):
    """An optimizer's equations.  Calling :meth:`program` gives the graph that every lowering reads."""

    def __init__(
        self,
        function: Callable[..., Any],
        aliases: Mapping[str, Sequence[str]],
        derive: Mapping[str, Callable[..., Any]],
        counts: str,
        min_ndim: int = 0,
    ):
        if not inspect.isfunction(function):
            raise RuleError(f"a rule is a function: def rule(p, g, state, …, *, lr, …), got {function!r}")
        if counts not in ("parameter", "group"):
            raise RuleError(f'counts must be "parameter" or "group", got {counts!r}')
        self.function = function
        self.name = function.__name__
        self.counts = counts
        self.min_ndim = min_ndim
        """The fewest axes that a parameter may have: matrix functions need two."""
        self.aliases = {name: tuple(parts) for name, parts in aliases.items()}
        self.derive = dict(derive)
        self.entries: dict[str, Entry] = {}
        self.calls_matrix_functions = False
        self.has_direction = False
        """Whether the equations mark their direction, so that options can wrap it."""
        self.__doc__, self.__module__ = function.__doc__, function.__module__
        self.__qualname__ = function.__qualname__

        names, keywords, notes = signature_of(function)
        if len(names) < 2:
            raise RuleError(
                f"{place_of(function)}: {self.name} needs the parameter and its gradient as its first two "
                "positional arguments: def rule(p, g, state, …, *, lr, …)"
            )
        self.param_name, self.grad_name = names[:2]
        self.states: dict[str, State] = {}
        for name in names[2:]:
            note = notes.get(name, signed)
            if not isinstance(note, State):
                raise RuleError(
                    f"{place_of(function)}: the state {name} is annotated with {note!r}; use signed, nonneg, "
                    "weights, scalar, group or optimizer from fallline.rules"
                )
            self.states[name] = note
        self.arguments = tuple(keywords)
        self.statics: dict[str, Static] = {}
        self.hypers: dict[str, Range] = {}
        for name in keywords:
            note = notes.get(name)
            if name in COUNTERS or name in FACTS:
                continue
            if isinstance(note, Static):
                self.statics[name] = note
            elif note is None or isinstance(note, Range):
                self.hypers[name] = note or conventional_range(name)
            else:
                raise RuleError(
                    f"{place_of(function)}: the argument {name} is annotated with {note!r}; use static or a "
                    "range (nonnegative, positive, fraction, finite) from fallline.rules"
                )
        self.derived_from = {n: tuple(inspect.signature(f).parameters) for n, f in self.derive.items()}
        self.wants_ndim = "ndim" in keywords or any("ndim" in names for names in self.derived_from.values())
        check_declaration(self)
        self._programs: dict[Trace, Program] = {}
        for trace in self.specialisations():
            self.program(trace)

    def entry(self, name: str | None = None, *, writes: Sequence[str]) -> Callable[[Callable[..., Any]], Rule]:
        """Declares a further function on the same states.  It returns the new values of ``writes``, in this order; the
        value of ``"step"`` is the number of steps that count as done."""

        def declare(function: Callable[..., Any]) -> Rule:
            key = name or function.__name__
            known = (self.param_name, *self.states)
            unknown = [w for w in writes if w not in (*known, STEP)]
            if unknown:
                raise RuleError(
                    f"{place_of(function)}: {key} writes {unknown[0]!r}; it can write {', '.join((*known, STEP))}"
                )
            names, keywords, _ = signature_of(function)
            numbers = (*self.hypers, *self.statics, *COUNTERS, *FACTS)
            allowed = {**{n: (*known, self.grad_name) for n in names}, **{k: numbers for k in keywords}}
            for argument, possible in allowed.items():
                if argument not in possible:
                    raise RuleError(
                        f"{place_of(function)}: {key} takes {argument!r}, which {self.name} does not have; "
                        f"it has {', '.join(possible)}"
                    )
            self.wants_ndim = self.wants_ndim or "ndim" in keywords
            self.entries[key] = Entry(function, tuple(writes))
            for trace in self.specialisations():
                self.program(dataclasses.replace(trace, entry=key))
            return self

        return declare

    def specialisations(self) -> Iterator[Trace]:
        """Every combination of static arguments (and numbers of axes, where the rule asks for them)."""
        ndims = [n for n in TRACED_NDIMS if n >= self.min_ndim] if self.wants_ndim else [None]
        free = [[(name, choice) for choice in self.statics[name].choices] for name in self.free_statics]
        for ndim in ndims:
            for chosen in itertools.product(*free):
                values = {**dict(chosen), "ndim": ndim}
                statics = ((n, values[n] if n in values else self._derived(n, values)) for n in self.statics)
                yield Trace(tuple(statics), ndim)

    @property
    def depends_on_axes(self) -> bool:
        """Whether a complex parameter, seen as pairs of reals, would be stepped otherwise for its one axis more."""
        return self.wants_ndim or self.calls_matrix_functions

    @property
    def free_statics(self) -> list[str]:
        """The static arguments that users set, directly or by a hyperparameter; the others follow from these
        and the number of axes."""
        return [
            name
            for name in self.statics
            if name not in self.derive or any(source in self.hypers for source in self.derived_from[name])
        ]

    def _derived(self, name: str, values: Mapping[str, Any]) -> Any:
        found = self.derive[name](*(values[source] for source in self.derived_from[name]))
        # Comparing a tensor gives a tensor; this takes the plain choice that equals it.
        return next((choice for choice in self.statics[name].choices if choice == found), found)

    def trace_for(
        self, values: Mapping[str, Any], ndim: int, entry: str | None = None, *, cautious: bool = False
    ) -> Trace:
        """The specialisation for these hyperparameters and a parameter of ``ndim`` axes."""
        values = {**values, "ndim": ndim}
        statics = (
            (n, self._derived(n, values) if n in self.derive else note.plain(values[n]))
            for n, note in self.statics.items()
        )
        return Trace(tuple(statics), ndim if self.wants_ndim else None, entry, cautious)

    def program(self, trace: Trace) -> Program:
        program = self._programs.get(trace)
        if program is None:
            program = self._programs[trace] = self._trace(trace)
        return program

    def active_states(self, statics: Mapping[str, Any]) -> dict[str, State]:
        return {n: s.settled(statics) for n, s in self.states.items() if s.exists(statics)}

    def _trace(self, trace: Trace) -> Program:
        graph = Graph(trace.ndim)
        statics = dict(trace.statics)
        states = self.active_states(statics)
        entry = self.entries[trace.entry] if trace.entry else None
        function = entry.function if entry else self.function
        names, keywords, _ = signature_of(function)
        special = [f"{name}={value!r}" for name, value in (*trace.statics, ("ndim", trace.ndim)) if value is not None]
        during = f" (traced with {', '.join(special)})" if special else ""
        try:
            nodes = self._operands(graph, trace, states)
        except RuleError as error:
            raise RuleError(f"{place_of(self.function)}: {error}{during}") from None
        keyword: dict[str, Any] = {}
        for name in keywords:
            if name == "ndim":
                keyword[name] = trace.ndim
            else:
                keyword[name] = statics[name] if name in statics else graph.host(name)
        try:
            result = function(*(nodes[name] for name in names), **keyword)
            written = self._written(result, entry, states, graph)
            self.has_direction = self.has_direction or graph.has_direction
            if graph.calls:
                self.calls_matrix_functions = True
                return assemble_chain(self, trace, graph, states, written)
            return assemble(self, trace, states, written)
        except RuleError as error:
            raise RuleError(f"{place_of(function, error)}: {error}{during}") from None
        except Exception as error:
            raise RuleError(
                f"{place_of(function, error)}: {type(error).__name__}: {error}; a rule may use arithmetic, comparisons "
                "and the functions of fallline.rules (sqrt, where, sign, minimum, sum, …), nothing of torch, "
                f"numpy or math on traced values{during}"
            ) from error

    def _operands(self, graph: Graph, trace: Trace, states: Mapping[str, State]) -> dict[str, Node | None]:
        """The nodes of the positional arguments; None for states that this specialisation does not have."""
        grad = graph.operand(self.grad_name, Space.FULL)
        if trace.cautious:
            graph.wrap_direction = cautious(grad)
        nodes: dict[str, Node | None] = {n: None for n in self.states}
        nodes[self.param_name] = graph.operand(self.param_name, Space.FULL)
        nodes[self.grad_name] = grad
        for name, state in states.items():
            try:
                node = graph.host(name) if state.is_scalar else graph.operand(name, state.space)
            except RuleError as error:
                raise RuleError(
                    f'the state {name} is not possible here ({error}); give it `when="flag"`, with the flag derived '
                    "from ndim: @rule(derive={'flag': lambda ndim: ndim > 1})"
                ) from None
            nodes[name] = where(graph.host("first"), grad, node) if state.init == GRAD else node
        return nodes

    def _written(self, result: Any, entry: Entry | None, states: Mapping[str, State], graph: Graph) -> dict[str, Node]:
        values = result if isinstance(result, tuple) else (result,)
        targets = entry.writes if entry else (self.param_name, *self.states)
        if len(values) != len(targets):
            raise RuleError(
                f"returns {len(values)} value(s), but it has to return {len(targets)}: the new " + ", ".join(targets)
            )
        written: dict[str, Node] = {}
        for name, value in zip(targets, values, strict=True):
            if name in self.states and name not in states:
                if value is not None:
                    raise RuleError(f"returns a value for {name}, which does not exist when its flag is off")
                continue
            if value is None:
                raise RuleError(f"returns None for {name}; return {name} itself if it does not change")
            written[name] = value if isinstance(value, Node) else graph.const(value)
        return written


@overload
def rule(function: Callable[..., Any], /) -> Rule: ...
@overload
def rule(
    *,
    derive: Mapping[str, Callable[..., Any]] = ...,
    counts: str = ...,
    min_ndim: int = ...,
    **aliases: Sequence[str],
) -> Callable[[Callable[..., Any]], Rule]: ...


def rule(
    function: Callable[..., Any] | None = None,
    /,
    *,
    derive: Mapping[str, Callable[..., Any]] | None = None,
    counts: str = "parameter",
    min_ndim: int = 0,
    **aliases: Sequence[str],
) -> Any:
    """Declares an optimizer's equations.

    The positional arguments are the parameter, its gradient and the states.  The keyword-only arguments are
    hyperparameters of the group, the counters ``step`` (from 1) and ``first``, and shape facts.  The function
    returns the new parameter and the new states.  ``docs/rules.md`` is the guide.

    >>> from fallline.rules import rule, sign
    >>> @rule
    ... def signum(p, g, m, *, lr, beta):
    ...     m = beta * m + (1 - beta) * g
    ...     return p - lr * sign(m), m

    ``aliases``: one argument of the user for several of the equations, ``@rule(betas=("beta1", "beta2"))``.
    ``derive``: static arguments computed from hyperparameters, ``{"has_momentum": lambda momentum: momentum != 0}``, or
    from the number of axes and other static arguments, ``{"factored": lambda ndim: ndim > 1}``.
    ``counts``: whether ``step`` is counted per ``"parameter"`` (one without a gradient does not advance) or per
    ``"group"``.
    ``min_ndim``: the fewest axes of a parameter; a rule that calls matrix functions needs 2.
    """

    def declare(function: Callable[..., Any]) -> Rule:
        return Rule(function, aliases, derive or {}, counts, min_ndim)

    return declare(function) if function is not None else declare
