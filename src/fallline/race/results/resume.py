"""Going on with a results file: what the race must share with the one it holds, and what may have changed.

A results file may come from anybody.  Nothing here runs a file that it names unless the caller names it too.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fallline.measure.store import StoreError
from fallline.race.contestants import Contestant
from fallline.race.plan import Entry, Rules
from fallline.training.optimizer_files import is_file
from fallline.workloads.loading import BUILT_IN, load_changed

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
    if not rules.in_rounds and rules.studies < stored.get("studies", 0):
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
        refuse_another_file(results, entry)
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


def refuse_another_file(results: Results, entry: Entry) -> None:
    if is_another_file(results, entry):
        spec = results.workloads()[entry.name]["spec"]
        raise StoreError(f"{results.path}: holds a race on {entry.name} of {spec}, not of {entry.spec}; {REMEDY}")


def is_another_file(results: Results, entry: Entry) -> bool:
    """Whether a workload has the name of one that was raced, but is of another file: one that was moved is the same."""
    row = results.workloads().get(entry.name)
    if row is None or row["spec"] == entry.spec:
        return False
    stored = results.settings()
    files = workload_files([entry])
    return not files or any(stored.get(name) != digest for name, digest in digests(files).items())


def entries_again(results: Results, named: Collection[str]) -> list[Entry]:
    """The workloads that were raced, loaded again with what was asked of them.

    Users' files are loaded only if they are in ``named``: a results file is data, and must not choose which code runs.
    """
    found = []
    for name, row in results.workloads().items():
        if row["problem"] is not None:
            continue
        if row["spec"] not in BUILT_IN and row["spec"] not in named:
            raise StoreError(
                f"{results.path}: was raced on {name} of {row['spec']}, a file of code; "
                "name it too if it may be run again"
            )
        found.append(Entry(row["spec"], load_changed(row["spec"], row["changes"]), row["changes"]))
    return found


def contestants_again(results: Results, named: Collection[str]) -> list[Contestant]:
    """The contestants that raced; those with a class from a user's file only if that is in ``named``."""
    found = results.contestants()
    for contestant in found:
        if is_file(contestant.optimizer) and contestant.optimizer not in named:
            raise StoreError(
                f"{results.path}: {contestant.name} raced with {contestant.optimizer}, a file of code; "
                "name it too with --optimizer if it may be run again"
            )
    return found


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


def calibrate_command(results: Path, files: Iterable[Path]) -> str:
    """To be pasted; it names the users' files whose code it runs, because it refuses to run any other."""
    here = Path.cwd()
    near = [file.relative_to(here) if file.is_relative_to(here) else file for file in files]
    return shlex.join(["fallline", "results", "calibrate", str(results), *map(str, near)])
