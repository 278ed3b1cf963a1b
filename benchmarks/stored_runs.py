"""Runs that are stored as they end, so that a job that was stopped goes on where it was."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import store
from benchmarks.settings import Settings

Key = Mapping[str, Any]


def all_runs(path: Path, keys: Sequence[Key], run: Callable[[Key], Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One result per key, in order: what is stored under an equal key is not computed again."""
    stored: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    by_key = {_text(entry["key"]): entry for entry in stored}
    where = store.circumstances(Settings())
    spent: list[float] = []
    missing = [key for key in keys if _text(key) not in by_key]
    if len(missing) < len(keys):
        _note(f"{len(keys) - len(missing)} of {len(keys)} runs are already in {path.name}")
    for number, key in enumerate(missing):
        left = f", about {_mean(spent) * (len(missing) - number):.0f} s left" if spent else ""
        _note(f"run {number + 1} of {len(missing)}: {_text(key)}{left}")
        start = time.perf_counter()
        entry = {"key": dict(key), "result": dict(run(key)), "circumstances": where}
        spent.append(time.perf_counter() - start)
        by_key[_text(key)] = entry
        store.save(path, list(by_key.values()))
    commits = {by_key[_text(key)]["circumstances"]["commit"] for key in keys}
    if len(commits) > 1:
        _note(f"runs of several commits: {', '.join(sorted(commits))}; remove {path.name} to start again")
    return [by_key[_text(key)]["result"] for key in keys]


def _text(key: Key) -> str:
    return json.dumps(key, sort_keys=True)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
