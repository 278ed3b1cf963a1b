from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.covering import covering_array

Axes = dict[str, list[Any]]
Forbid = Callable[[dict[str, Any]], bool]


def whole_product(axes: Axes) -> list[dict[str, Any]]:
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def parts(rows: list[dict[str, Any]], strength: int) -> set[tuple[tuple[str, Any], ...]]:
    return {part for row in rows for part in combinations(sorted(row.items()), strength)}


@st.composite
def problems(draw: st.DrawFn) -> tuple[Axes, int, Forbid]:
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    axes = {f"axis{i}": [f"value{j}" for j in range(size)] for i, size in enumerate(sizes)}
    rows = whole_product(axes)
    # Parts of one, two or three settings that must not occur together.
    bad = []
    for row in draw(st.lists(st.sampled_from(rows), max_size=4)):
        names = draw(st.lists(st.sampled_from(sorted(axes)), min_size=1, max_size=3, unique=True))
        bad.append({name: row[name] for name in names})
    strength = draw(st.integers(1, min(3, len(axes))))
    return axes, strength, lambda row: any(all(row[name] == part[name] for name in part) for part in bad)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(problems(), st.integers(0, 5))
def test_covers_exactly_what_is_allowed(problem: tuple[Axes, int, Forbid], seed: int) -> None:
    axes, strength, forbid = problem
    rows = covering_array(axes, strength, forbid, seed)
    allowed = [row for row in whole_product(axes) if not forbid(row)]
    assert all(row in allowed for row in rows)
    assert parts(rows, strength) == parts(allowed, strength)
    assert len(rows) <= len(allowed)
    assert rows == covering_array(axes, strength, forbid, seed)


def test_needs_few_rows() -> None:
    four = {name: [0, 1, 2] for name in "abcd"}
    assert len(covering_array(four)) <= 13  # 9 is optimal, 81 the product
    ten = {name: [0, 1, 2, 3] for name in "abcdefghij"}
    rows = covering_array(ten)
    assert len(rows) <= 36  # more than a million in the product
    assert len(parts(rows, 2)) == 45 * 16


def test_an_impossible_pair_is_recognised_without_the_whole_product() -> None:
    calls = 0

    def forbid(row: dict[str, Any]) -> bool:
        nonlocal calls
        calls += 1
        return row["j"] == 0 and row["a"] == 0

    axes = {name: [0, 1, 2, 3] for name in "abcdefghij"}
    rows = covering_array(axes, forbid=forbid)
    assert not any(forbid(row) for row in rows)
    assert len(parts(rows, 2)) == 45 * 16 - 1
    assert calls < 50_000


@pytest.mark.parametrize(
    "forbid",
    [
        lambda row: row.get("a") == 0 and row.get("c", 1) == 1,
        lambda row: row.items() >= {("a", 0), ("c", 1)},
        lambda row: dict(row)["a"] == 0 and {**row}["c"] == 1,
        lambda row: len(row) == 3 and next(iter(row.values())) == 0 and "c" in row and row["c"] == 1,
        lambda row: row in [{"a": 0, "b": b, "c": 1} for b in (0, 1)],
        lambda row: not (row != {"a": 0, "b": 0, "c": 1} and row != {"a": 0, "b": 1, "c": 1}),
    ],
)
def test_forbid_may_read_the_row_in_any_way(forbid: Forbid) -> None:
    rows = covering_array({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, forbid=forbid)
    assert len(parts(rows, 2)) == 11
    assert not any(row["a"] == 0 and row["c"] == 1 for row in rows)


def test_edges() -> None:
    assert covering_array({}) == [{}]
    assert covering_array({"a": [1, 2]}) == [{"a": 1}, {"a": 2}]
    assert covering_array({"a": [1, 2], "b": [[], {}]}, forbid=lambda row: True) == []
    unhashable = covering_array({"a": [1, 2], "b": [[], {}]})
    assert sorted(map(str, unhashable)) == sorted(map(str, whole_product({"a": [1, 2], "b": [[], {}]})))
    with pytest.raises(ValueError, match="axis 'a' has no values"):
        covering_array({"a": [], "b": [1]})
