"""What a race that goes on must share with the one its results file holds, and what may have changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fallline.measure.store import StoreError
from fallline.race.contestants import Contestant
from fallline.race.plan import Entry, Rules

if TYPE_CHECKING:
    from fallline.race.results import Results

REMEDY = "name another file with --results"


def check(results: Results, entries: Sequence[Entry], contestants: Sequence[Contestant], rules: Rules) -> None:
    """Refuses, in one line, whatever would change trials that have been run; more of everything may be added."""
    _check_workloads(results, entries)
    _check_rules(results, rules)
    _check_contestants(results, contestants)


def is_same(results: Results, entries: Sequence[Entry], contestants: Sequence[Contestant], rules: Rules) -> bool:
    """Whether it would not be refused."""
    try:
        check(results, entries, contestants, rules)
    except StoreError:
        return False
    return True


def _check_rules(results: Results, rules: Rules) -> None:
    stored = results.settings()
    for name, value in rules.fixed().items():
        if stored.get(name) != value:
            raise StoreError(
                f"{results.path}: holds a race with {name} = {stored.get(name)!r}, not {value!r}; "
                f"give the same command to go on, or {REMEDY}"
            )
    if rules.studies < stored.get("studies", 0):
        raise StoreError(
            f"{results.path}: holds a race of {stored['studies']} studies, not {rules.studies}; "
            f"studies may become more, not fewer, or {REMEDY}"
        )


def _check_workloads(results: Results, entries: Sequence[Entry]) -> None:
    known, begun = results.workloads(), results.begun_workloads()
    for entry in entries:
        row = known.pop(entry.name, None)
        if row is None or entry.name not in begun:
            continue
        facts, given = row["facts"], entry.facts()
        differing = next((key for key, value in given.items() if facts.get(key) != value), None)
        if differing:
            raise StoreError(
                f"{results.path}: {entry.name} had {differing} = {facts.get(differing)!r}, now {given[differing]!r}; "
                f"{REMEDY}"
            )
        if row["target_from"] == "given" and row["target"] != entry.workload.target:
            raise StoreError(
                f"{results.path}: {entry.name} had the target {row['target']:g}, now {entry.workload.target}; {REMEDY}"
            )
    if known:
        wanted = ", ".join(entry.name for entry in entries)
        raise StoreError(f"{results.path}: holds a race on {', '.join(known)}; this one is on {wanted}; {REMEDY}")


def _check_contestants(results: Results, contestants: Sequence[Contestant]) -> None:
    known = {contestant.name: contestant for contestant in results.contestants()}
    for contestant in contestants:
        old = known.pop(contestant.name, None)
        if old is not None and old.definition() != json.loads(json.dumps(contestant.definition())):
            raise StoreError(f"{results.path}: {contestant.name} was defined otherwise; {REMEDY}")
    if known:
        raise StoreError(f"{results.path}: holds {', '.join(known)} too; add them with --optimizer, or {REMEDY}")
