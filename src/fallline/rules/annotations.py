"""Annotations of states and hyperparameters in the signature of a rule."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from fallline.rules.blocks import Squares
from fallline.rules.space import Space


@dataclasses.dataclass(frozen=True)
class Axis:
    """The shape of a state: like the parameter, but reduced over one axis."""

    axis: int | str

    @property
    def space(self) -> Space:
        return {-1: Space.ROW, -2: Space.COL, "rows": Space.DIM0}[self.axis]


def axis(which: int | str) -> Axis:
    """The shape of a state: ``axis(-1)`` has one value per row (the last axis is reduced), ``axis(-2)`` one per
    column, and ``axis("rows")`` one per row of ``view(size0, -1)``."""
    if which not in (-1, -2, "rows"):
        raise ValueError(f'axis must be -1, -2 or "rows", got {which!r}')
    return Axis(which)


PARAM = "param"
GRAD = "grad"
KINDS = ("signed", "nonneg", "weights")
SCALAR_SHAPES = ("scalar", "group", "optimizer")


@dataclasses.dataclass(frozen=True)
class State:
    """A state of the rule.

    kind:  "signed", "nonneg" or "weights" (a copy or average of parameters); it decides the low-bit code.
    init:  a number, ``"param"`` (a copy of the parameter), ``"grad"`` (the first gradient, which the first
           step sees as the old value), or the name of a hyperparameter.
    shape: ``None`` (like the parameter), ``axis(…)``, ``Squares(…)`` (the square matrices of its blocks),
           ``"scalar"`` (one number per parameter), ``"group"`` (one per parameter group) or ``"optimizer"``
           (one in all).
    when:  the static argument that switches the state on; ``"not flag"`` names one that switches it off.
    wide:  True if no format may store the state in fewer than 32 bits, or the static argument that decides this.
    """

    kind: str = "signed"
    init: float | str = 0.0
    shape: Axis | Squares | str | None = None
    when: str | None = None
    wide: bool | str = False

    def __call__(self, **changes: Any) -> State:
        return dataclasses.replace(self, **changes)

    @property
    def flag(self) -> str | None:
        """The static argument that decides whether the state exists."""
        return self.when.removeprefix("not ") if self.when else None

    def exists(self, statics: Mapping[str, Any]) -> bool:
        if self.flag is None:
            return True
        return bool(statics[self.flag]) == (self.flag == self.when)

    def settled(self, statics: Mapping[str, Any]) -> State:
        """The state with ``wide``, and the sizes of its blocks, decided by these static arguments."""
        wide = bool(statics[self.wide]) if isinstance(self.wide, str) else self.wide
        return self(wide=wide, shape=self.shape.settled(statics) if isinstance(self.shape, Squares) else self.shape)

    @property
    def space(self) -> Space:
        if self.shape is None:
            return Space.FULL
        if isinstance(self.shape, Squares):
            return Space.SQUARES
        return self.shape.space if isinstance(self.shape, Axis) else Space.HOST

    @property
    def is_scalar(self) -> bool:
        return isinstance(self.shape, str)

    @property
    def low_bit(self) -> bool:
        """Whether formats of fewer than 32 bits may apply.  Averages of weights, reduced states and scalar states stay
        in 32 bits, and so do wide states."""
        return self.shape is None and self.kind != "weights" and self.wide is not True


signed = State("signed")
nonneg = State("nonneg")
weights = State("weights", init=PARAM)
scalar = State(shape="scalar")
group = State(shape="group")


def squares(
    max_dim: int | str, *, merge: str = "none", cut: bool = True, only: int | None = None, longest: int | None = None
) -> State:
    """The square matrices of a parameter: one for each axis of each block, of at most ``max_dim`` rows.

    Longer axes are cut into blocks, or have no matrix if not ``cut``.  ``merge``: whether neighbouring short axes
    become one, from the ``"last"`` axis backwards or from the ``"first"`` forwards, or, with ``"rows"``, all axes but
    the first.  Both may name a static argument.  ``only``: the one axis whose matrices are kept.  ``longest``: a tensor
    with a longer axis has none.
    """
    return State(shape=Squares(max_dim, merge, cut, only, longest))


optimizer = State(shape="optimizer")


@dataclasses.dataclass(frozen=True)
class Static:
    """A flag or a choice that is known when the rule is traced, so that Python's ``if`` works on it."""

    choices: tuple[Any, ...] = (False, True)
    says: str = ""
    """Which values there are beside ``choices``; empty if there are no others."""
    holds: Callable[[Any], bool] | None = None
    """Whether a value that is not among ``choices`` is possible."""

    def __call__(self, *choices: Any) -> Static:
        return Static(choices) if choices else self

    def plain(self, value: Any) -> Any:
        """The value as a specialisation is named by it: users may give a list, which cannot be a key."""
        return tuple(value) if isinstance(value, list) else value

    def check(self, name: str, value: Any) -> None:
        if self.holds is not None:
            if value not in self.choices and not self.holds(value):
                raise ValueError(f"{name} must be {self.says}, got {value!r}")
            return
        if value not in self.choices or (isinstance(value, bool) != isinstance(self.choices[0], bool)):
            names = " or ".join(repr(c) for c in self.choices)
            raise ValueError(f"{name} must be {names}, got {value!r}")


static = Static()


def setting(says: str, holds: Callable[[Any], bool], example: Any = None) -> Static:
    """A static argument with more values than can be listed, such as the number of steps of a matrix function.  The
    rule is checked with ``example`` at its declaration, and traced anew for every other value."""
    return Static((example,), says, holds)


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers that a hyperparameter may be."""

    says: str
    holds: Callable[[float], bool]
    may_be_none: bool = False
    none_means: float | None = None
    """The number that the equations see in place of None."""
    finite: bool = False
    """Whether an infinity is refused even if it satisfies ``holds``."""

    def check(self, name: str, value: Any) -> None:
        if value is None and self.may_be_none:
            return
        try:
            if isinstance(value, (str, bytes)):
                raise TypeError  # float() would accept "1e-3", the string that YAML makes of 1e-3
            number = float(value)
        except (TypeError, ValueError, RuntimeError):
            wanted = f"a number {self.says}" if self.says.startswith((">", "in")) else self.says
            given = textwrap.shorten(repr(value), 80, placeholder=" …")  # one line, even of a large tensor
            # As in torch, a tensor is the right kind of thing, but not of several numbers.
            kind = ValueError if math.prod(getattr(value, "shape", ())) != 1 else TypeError
            raise kind(f"{name} must be {wanted}, got {given}") from None
        if self.finite and not math.isfinite(number):
            raise ValueError(f"{name} must be finite and {self.says}, got {number:g}")
        if not self.holds(number):
            raise ValueError(f"{name} must be {self.says}, got {number:g}")

    def number(self, value: Any) -> Any:
        """The number that the equations see for a value."""
        return self.none_means if value is None and self.none_means is not None else value


@dataclasses.dataclass(frozen=True)
class Choice(Range):
    """A hyperparameter that is one of several words; the equations see its number."""

    words: tuple[str, ...] = ()

    def check(self, name: str, value: Any) -> None:
        if value not in self.words:
            raise ValueError(f"{name} must be {self.says}, got {value!r}")

    def number(self, value: Any) -> float:
        return float(self.words.index(value))


def choice(*words: str) -> Choice:
    """``variant: choice("torch", "hf")`` is 0 or 1 in the equations, for ``where`` in scalar work.  Use ``static(…)``
    for a choice that changes the work per element."""
    return Choice(" or ".join(map(repr, words)), lambda _: True, words=words)


nonnegative = Range(">= 0", lambda x: x >= 0, finite=True)
positive = Range("> 0", lambda x: x > 0, finite=True)
fraction = Range("in [0, 1)", lambda x: 0 <= x < 1)
open_fraction = Range("in (0, 1)", lambda x: 0 < x < 1)
finite = Range("finite", math.isfinite)
any_number = Range("a number", lambda x: not math.isnan(x))
switch = Range("True or False", lambda x: x in (0.0, 1.0))
"""A flag that is 0 or 1 in the equations, for ``where`` in scalar work, which needs no specialisation."""


def optional(numbers: Range, means: float | None = None) -> Range:
    """``eps: optional(positive)`` is a number or None.  A static argument derived from it tells the two apart, and the
    equations use the number only where there is one.  With ``optional(positive, means=math.inf)`` the equations see
    that number in place of None."""
    return dataclasses.replace(numbers, says=f"{numbers.says} or None", may_be_none=True, none_means=means)


def conventional_range(name: str) -> Range:
    """The usual range of a hyperparameter of this name, for hyperparameters that are not annotated."""
    if name.startswith("beta"):
        return fraction
    if name in ("lr", "eps", "weight_decay", "momentum", "lr_decay"):
        return nonnegative
    return finite
