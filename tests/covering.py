"""Covering arrays: few test cases in which every pair (or triple…) of settings still meets."""

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, product
from typing import Any, cast


class _Undecided(Exception):
    """A predicate asked for an axis that has no value yet."""


class _PartialRow(Mapping[str, Any]):
    """A row under construction: a predicate that reads what is not there yet cannot decide."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise _Undecided
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        raise _Undecided

    def __len__(self) -> int:
        raise _Undecided


def covering_array(
    axes: dict[str, list[Any]],
    strength: int = 2,
    forbid: Callable[[dict[str, Any]], bool] | None = None,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Rows such that every allowed combination of values of every `strength` axes occurs in one of them.

    `forbid(row)` rejects whole rows; a combination is allowed if some row that contains it is not
    rejected. Greedy, so not minimal, and the same for the same arguments. `forbid` is also called with
    mappings that stand for unfinished rows, and must let the exception pass that they raise when read
    where they have no value.
    """
    for name, values in axes.items():
        if not values:
            raise ValueError(f"axis {name!r} has no values")
    names = list(axes)
    strength = min(strength, len(names))
    rng = random.Random(seed)

    def forbidden(chosen: dict[str, int]) -> bool | None:
        """True or False for every completion of `chosen` (indices of values), or None if it depends."""
        if forbid is None:
            return False
        row = {name: axes[name][chosen[name]] for name in names if name in chosen}
        if len(row) == len(names):
            return bool(forbid(row))
        try:
            return bool(forbid(cast(dict[str, Any], _PartialRow(row))))
        except _Undecided:
            return None

    def possible(chosen: dict[str, int]) -> bool:
        verdict = forbidden(chosen)
        if verdict is not None:
            return not verdict
        name = next(name for name in names if name not in chosen)
        return any(possible({**chosen, name: value}) for value in range(len(axes[name])))

    def gain(chosen: dict[str, int], name: str, value: int) -> int:
        others = combinations(sorted(chosen, key=names.index), strength - 1)
        return sum(_key({**{o: chosen[o] for o in other}, name: value}) in uncovered for other in others)

    def complete(chosen: dict[str, int]) -> dict[str, int]:
        """Adds the axes in random order, each with the possible value that covers most."""
        rest = [name for name in names if name not in chosen]
        rng.shuffle(rest)
        for name in rest:
            values = list(range(len(axes[name])))
            rng.shuffle(values)
            values.sort(key=lambda value: -gain(chosen, name, value))
            chosen = next(c for value in values if possible(c := {**chosen, name: value}))
        return chosen

    # A dict keeps the order, a set of frozensets would not: the result must not depend on hashing.
    uncovered = dict.fromkeys(_key(target) for target in _combinations(axes, strength))
    rows = []
    while uncovered:
        target = dict(next(iter(uncovered)))
        if not possible(target):
            del uncovered[_key(target)]
            continue
        candidates = [complete(target) for _ in range(10)]
        covers = [[key for key in map(_key, _parts(row, strength)) if key in uncovered] for row in candidates]
        best = max(range(len(candidates)), key=lambda i: len(covers[i]))
        for key in covers[best]:
            del uncovered[key]
        rows.append({name: axes[name][candidates[best][name]] for name in names})
    return rows


def _key(chosen: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(chosen.items()))


def _parts(row: dict[str, int], strength: int) -> Iterator[dict[str, int]]:
    for some in combinations(row, strength):
        yield {name: row[name] for name in some}


def _combinations(axes: dict[str, list[Any]], strength: int) -> Iterator[dict[str, int]]:
    for some in combinations(axes, strength):
        for indices in product(*(range(len(axes[name])) for name in some)):
            yield dict(zip(some, indices, strict=True))
