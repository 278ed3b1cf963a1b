"""Checks by name, each stored as soon as it ends: the command of jobs that take too long for tests."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.store import save
from fallline.measure import machine

Check = Callable[[], dict[str, Any]]
"""Its findings; ``ok`` says whether they are as they must be."""


def store(path: Path, name: str, found: Mapping[str, Any]) -> None:
    # Read now: another job may have written since.
    stored: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    save(path, {**stored, name: {**found, "machine": machine.describe()}})


def run(module: str, about: str | None, checks: Mapping[str, Check], path: Path) -> int:
    """Those that the command line names, or all; 1 if any is not as it must be."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("checks", nargs="*", choices=[*checks, []], help="default: all")
    failed = 0
    for name in parser.parse_args().checks or list(checks):
        found = checks[name]()
        store(path, name, found)
        failed += not found["ok"]
        print(f"{name}: {'ok' if found['ok'] else 'FAILED'}\n{json.dumps(found, indent=2)}", flush=True)
    return min(1, failed)
