"""The results file that a race writes if none is named."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from fallline.measure.store import StoreError
from fallline.race.plan.entries import Entry
from fallline.race.results.results_file import Results
from fallline.race.results.resume import is_another_file


def default_path(entries: Sequence[Entry], folder: Path = Path(), name: str | None = None) -> Path:
    """``race-NAME.sqlite``; where that holds a workload of the same name from another file, one with a mark of its own.

    Two users' files may both call their workload "sorting": neither must go on with the other's race.
    """
    name = name or (entries[0].name if len(entries) == 1 else f"{len(entries)}-workloads")
    path = folder / f"race-{name.replace('/', '-')}.sqlite"
    if not path.exists() or not _holds_another(path, entries):
        return path
    digest = hashlib.sha256("\n".join(entry.spec for entry in entries).encode()).hexdigest()[:8]
    return path.with_stem(f"{path.stem}-{digest}")


def _holds_another(path: Path, entries: Sequence[Entry]) -> bool:
    try:
        with Results(path, writable=False) as results:
            return any(is_another_file(results, entry) for entry in entries)
    except StoreError:
        return False  # whoever opens it says what is wrong with it
