"""The import graph of the package: no cycles, and dependencies between folders point one way.

Imports are read from the sources, those inside functions too: an import that only works because it runs late hides a
cycle.  Imports for type checkers alone are left out.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src"

BELOW = {
    "switches": set(),
    "cache": set(),
    "native": set(),
    "rules": set(),
    "optimizers": {"rules"},
    "schedules": {"rules"},
    "teaching": {"rules"},
    "averaging": {"rules"},
    "formats": {"rules"},
    "matrix": set(),
    "lower": {"cache", "formats", "matrix", "optimizers", "rules", "switches"},
    "distributed": {"lower", "rules"},
    "optim": {"averaging", "distributed", "document", "formats", "lower", "optimizers", "rules"},
    "memory": {"formats", "lower", "optim", "optimizers", "rules"},
    "catalogue": {"lower", "memory", "optim", "rules"},
    "document": set(),
    "measure": {"cache", "document", "formats", "lower", "memory", "optim", "rules"},
    "workloads": {"cache", "switches"},
    "training": {"averaging", "measure", "optim", "optimizers", "rules", "schedules", "workloads"},
    "score": {"document", "measure"},
    "step": {
        "document",
        "formats",
        "lower",
        "measure",
        "memory",
        "optim",
        "optimizers",
        "rules",
        "training",
        "workloads",
    },
    "logs": {"document"},
    "footprint": {"document", "lower", "measure", "memory", "optim", "rules", "training", "workloads"},
    "race": {"document", "logs", "measure", "memory", "optim", "score", "training", "workloads"},
    "gallery": {"catalogue", "document", "footprint", "measure", "memory", "score", "training", "workloads"},
    "profile": {"document", "footprint", "logs", "measure", "memory", "optim", "race", "step", "training", "workloads"},
    "report": {"document", "measure", "profile", "race", "score", "step"},
}
"""Folder, or module at the top → those it may import; docs/architecture.md shows the same order.

``cli`` stands above all of them, and the package itself imports nothing before it is asked to.
"""
ABOVE_ALL = {"cli", "__init__", "__main__"}

ROOMS = {
    "contestants": set(),
    "plan": {"contestants"},
    "clock": {"contestants", "plan"},
    "engine": {"clock", "contestants"},
    "results": {"clock", "contestants", "engine", "plan"},
    "verdict": {"clock", "contestants", "engine", "plan", "results"},
    "ladder": {"clock", "plan", "verdict", "document"},
}
"""The same inside race/; its other modules direct the rooms and stand above them."""

KNOWN: dict[str, str] = {}
"""``module → module`` that point the wrong way today, each with the reason.  The list only shrinks: one that has
vanished must be removed here."""

KNOWN_CYCLES: dict[str, str] = {}
"""The modules of a cycle, sorted and joined by spaces → the reason."""


@functools.cache
def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted((ROOT / "fallline").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import that runs, wherever it stands."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield from statements(other)
        elif isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        else:
            yield from statements(child)


def imported(statement: ast.Import | ast.ImportFrom, known: dict[str, ast.Module]) -> Iterator[str]:
    """The modules of the package that a statement names; ``from package import module`` names the module."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names if alias.name in known)
        return
    assert statement.level == 0, "imports are absolute here"
    for alias in statement.names:
        inner = f"{statement.module}.{alias.name}"
        if inner in known:
            yield inner
        elif statement.module in known:
            yield str(statement.module)


@functools.cache
def graph() -> dict[str, set[str]]:
    """Module → the modules it imports.  The package's own ``__init__`` imports a name when it is asked for it."""
    known = modules()
    return {
        name: {other for statement in statements(tree) for other in imported(statement, known)} - {name}
        for name, tree in known.items()
        if name != "fallline"
    }


def strongly_connected(edges: dict[str, set[str]]) -> list[set[str]]:
    """Tarjan's algorithm: the sets of modules each of which leads to all others of its set."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            members = set()
            while (member := stack.pop()) != node:
                members.add(member)
            found.append({*members, node})

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return [members for members in found if len(members) > 1]


def folder(module: str) -> str:
    """The part of the package that a module belongs to."""
    return module.split(".")[1] if "." in module else "__init__"


def wrong_ways(edges: dict[str, set[str]]) -> set[str]:
    found = set()
    for module, others in edges.items():
        for other in others:
            here, there = folder(module), folder(other)
            if here == there or here in ABOVE_ALL or there == "__init__":
                continue
            if there not in BELOW.get(here, set()):
                found.add(f"{module} → {other}")
    return found


def wrong_ways_in_race(edges: dict[str, set[str]]) -> set[str]:
    rooms = {name: name.split(".")[2] for name in edges if name.startswith("fallline.race.")}
    return {
        f"{module} → {other}"
        for module, others in edges.items()
        for other in others
        if rooms.get(module) in ROOMS
        and other in rooms
        and rooms[other] != rooms[module]
        and rooms[other] not in ROOMS[rooms[module]]
    }


def test_no_modules_import_each_other() -> None:
    found = {" ".join(sorted(members)) for members in strongly_connected(graph())}
    assert found - set(KNOWN_CYCLES) == set(), "import what both need from a third module"
    assert set(KNOWN_CYCLES) - found == set(), "these cycles are gone: remove them from KNOWN_CYCLES"


def test_dependencies_between_folders_point_one_way() -> None:
    found = wrong_ways(graph())
    assert found - set(KNOWN) == set(), "move the code, or say in BELOW and docs/architecture.md what stands on what"
    assert set(KNOWN) - found == set(), "these are gone: remove them from KNOWN"


def test_the_rooms_of_a_race_point_one_way() -> None:
    assert wrong_ways_in_race(graph()) == set()


def test_the_order_of_folders_is_an_order() -> None:
    assert strongly_connected({name: set(below) for name, below in BELOW.items()}) == []
    assert strongly_connected({name: set(below) for name, below in ROOMS.items()}) == []
    there = {folder(name) for name in graph()}
    assert there - ABOVE_ALL <= set(BELOW), "a new folder needs its place in BELOW"


def test_rules_and_optimizers_import_no_torch() -> None:
    """Kernels are generated from them when the package is built, where there may be no torch."""
    for name, tree in modules().items():
        if folder(name) not in ("rules", "optimizers"):
            continue
        named = [
            alias.name.partition(".")[0] if isinstance(statement, ast.Import) else str(statement.module)
            for statement in tree.body
            if isinstance(statement, ast.Import | ast.ImportFrom)
            for alias in statement.names
        ]
        assert not [module for module in named if module.partition(".")[0] == "torch"], name


def test_what_it_must_find_it_finds() -> None:
    source = "import fallline.a\nif TYPE_CHECKING:\n    import fallline.c\ndef f():\n    from fallline import b\n"
    known = {name: ast.parse("") for name in ("fallline", "fallline.a", "fallline.b", "fallline.c")}
    found = {other for statement in statements(ast.parse(source)) for other in imported(statement, known)}
    assert found == {"fallline.a", "fallline.b"}
    assert strongly_connected({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
    assert wrong_ways({"fallline.rules.x": {"fallline.race.run"}}) == {"fallline.rules.x → fallline.race.run"}
    upwards = {"fallline.race.plan.x": {"fallline.race.verdict.y"}, "fallline.race.verdict.y": set[str]()}
    assert wrong_ways_in_race(upwards) == {"fallline.race.plan.x → fallline.race.verdict.y"}
