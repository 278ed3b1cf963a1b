"""A run and its file: every case is written when it ends, so that a run that was stopped can go on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.rows import FAILED, Result, Row
from benchmarks.settings import RESULTS, ROOT, Settings
from fallline.lower.native.generate import write_sources
from fallline.measure import machine
from fallline.measure.stats import Estimate

PEERS = ("bitsandbytes", "torchao", "deepspeed")


@dataclasses.dataclass
class Run:
    path: Path
    circumstances: dict[str, Any]
    cases: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    """Name → its rows and its raw samples, as plain data."""

    def add(self, name: str, result: Result) -> None:
        self.cases[name] = {"rows": [dataclasses.asdict(row) for row in result.rows], "raw": dict(result.raw)}
        save(self.path, {"circumstances": self.circumstances, "cases": self.cases})

    def rows(self, order: Sequence[str] = ()) -> list[Row]:
        """The rows of all cases, in this order; a run that was resumed has measured them in another one."""
        cases = [self.cases[name] for name in order or self.cases if name in self.cases]
        return [_row(data) for case in cases for data in case["rows"]]


def _row(data: dict[str, Any]) -> Row:
    value = Estimate(**data["value"]) if data["value"] else None
    return Row(**{**data, "value": value})


def new_run(settings: Settings) -> Run:
    name = f"{_kind(settings)}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    return Run(RESULTS / name, circumstances(settings))


def last_run(settings: Settings) -> Run | None:
    """The newest run of these sources with these settings, without the cases that have to be measured again."""
    now = circumstances(settings)
    for path in sorted(RESULTS.glob(f"{_kind(settings)}-*.json"), reverse=True):
        data = json.loads(path.read_text())
        if all(data["circumstances"].get(key) == now[key] for key in ("measured", "seed", "threads")):
            done = {name: case for name, case in data["cases"].items() if _is_done(case)}
            return Run(path, data["circumstances"], done)
    return None


def _is_done(case: dict[str, Any]) -> bool:
    return not any(row["note"].startswith((FAILED, "not measured")) for row in case["rows"])


def _kind(settings: Settings) -> str:
    return "quick" if settings.quick else "full"


def circumstances(settings: Settings) -> dict[str, Any]:
    """The machine and the versions with which the numbers were taken."""
    found = machine.describe()
    found["versions"] |= {name: version for name in PEERS if (version := _version(name))}
    found["commit"] = _git("rev-parse", "--short=12", "HEAD") or "unknown"
    if _git("status", "--porcelain", "--untracked-files=no"):
        found["commit"] += ", with changes"
    found["measured"] = _measured()
    found["seed"] = settings.seed
    return found


def _measured() -> str:
    """A digest of what is compiled into the native library: a run goes on after commits that change nothing of it."""
    native = [path for path in (ROOT / "src" / "fallline" / "native").iterdir() if path.suffix in (".h", ".cpp")]
    found = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        write_sources(Path(folder))
        for path in sorted([*native, *Path(folder).iterdir()], key=lambda path: path.name):
            found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def save(path: Path, data: Any) -> None:
    """Whole or not at all: a run that is killed leaves the last complete file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(data, indent=1))
    os.replace(temporary, path)
