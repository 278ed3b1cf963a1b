"""What a race that goes on must share with the one its results file holds, and what may have changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fallline.measure.store import StoreError
from fallline.race.contestants import Contestant
from fallline.race.plan import Entry, Rules
from fallline.training.optimizer_files import is_file

if TYPE_CHECKING:
    from fallline.race.results.results_file import Results

REMEDY = "name another file with --results"


def check(results: Results, entries: Sequence[Entry], contestants: Sequence[Contestant], rules: Rules) -> None:
    """Refuses, in one line, whatever would change trials that have been run; more of everything may be added."""
    _check_workloads(results, entries)
    _check_rules(results, rules)
    _check_contestants(results, contestants)


def workload_files(entries: Iterable[Entry]) -> dict[str, Path]:
    """Users' files by the name of the setting that holds a digest of them."""
    return {f"file of {entry.name}": entry.file for entry in entries if entry.file is not None}


def optimizer_files(contestants: Iterable[Contestant]) -> dict[str, Path]:
    """The same of optimizers."""
    own = [contestant for contestant in contestants if is_file(contestant.optimizer)]
    return {f"optimizer file of {c.name}": Path(c.optimizer.rpartition(":")[0]) for c in own}


def digests(files: Mapping[str, Path]) -> dict[str, str]:
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items() if path.is_file()}


def changed_files(results: Results, files: Mapping[str, Path]) -> list[str]:
    """A line for every file that is not what it was when its trials began.

    Told, not refused: a mistake that was mended may concern no trial that has ended.
    """
    stored = results.settings()
    changed = [files[name] for name, digest in digests(files).items() if stored.get(name, digest) != digest]
    return [
        f"{path} has changed since this race began: if that changes what is trained, {REMEDY}"
        for path in dict.fromkeys(changed)
    ]


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
            had = f"no {name}" if stored.get(name) is None else f"{name} = {stored[name]!r}"
            now = "none" if value is None else repr(value)
            raise StoreError(
                f"{results.path}: holds a race with {had}, not {now}; give the same command to go on, or {REMEDY}"
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
        given_target = entry.workload.target
        # A target that the reference set holds as long as no other is asked for.
        if row["target"] != given_target and (row["target_from"] == "given" or given_target is not None):
            had = "no target yet" if row["target"] is None else f"the target {row['target']:g}"
            raise StoreError(f"{results.path}: {entry.name} had {had}, now {given_target}; {REMEDY}")
    if known:
        wanted = ", ".join(entry.name for entry in entries)
        raise StoreError(f"{results.path}: holds a race on {', '.join(known)}; this one is on {wanted}; {REMEDY}")


def _check_contestants(results: Results, contestants: Sequence[Contestant]) -> None:
    known = {contestant.name: contestant for contestant in results.contestants()}
    for contestant in contestants:
        old = known.pop(contestant.name, None)
        if old is not None and old.definition() != json.loads(json.dumps(contestant.definition())):
            now = json.loads(json.dumps(contestant.definition()))
            differing = next(key for key, value in old.definition().items() if now[key] != value)
            raise StoreError(
                f"{results.path}: {contestant.name} was defined otherwise ({differing} was "
                f"{old.definition()[differing]!r}); {REMEDY}"
            )
    if known:
        raise StoreError(f"{results.path}: holds {', '.join(known)} too; add them with --optimizer, or {REMEDY}")
