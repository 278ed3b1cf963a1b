"""The fastest speed of memory ever seen on this machine, so that a slow hour is not taken for the hardware."""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path

from fallline.cache import cache_location

LEAST_BYTES = 1 << 24
"""The fewest bytes of a sweep that count; quicker sweeps say more about threads than about memory."""


def _file() -> Path:
    return cache_location() / "memory-speeds.json"


def key_of(
    processor: str, method: str, threads: int, streams: tuple[int, int], moved: int, flushed: bool
) -> str | None:
    """Names the conditions under which speeds can be compared; None if the sweep is too short to be compared.

    >>> key_of("EPYC", "native avx2", 2, (4, 3), 1 << 28, True)
    'EPYC, native avx2, 2 threads, 4 streams read, 3 written, 2^28 bytes, flushed'
    """
    if moved < LEAST_BYTES:
        return None
    size = f"2^{round(math.log2(moved))} bytes"
    reads, writes = streams
    kept = f"{processor}, {method}, {threads} threads, {reads} streams read, {writes} written, {size}"
    return f"{kept}, flushed" if flushed else kept


def fastest(key: str | None) -> float | None:
    """The highest known speed in GB/s; None if there is none."""
    found = _known().get(key) if key else None
    return float(found) if isinstance(found, (int, float)) else None


def remember(key: str | None, gb_per_s: float, *, make_folder: bool = False) -> None:
    """Stores a speed if it is the highest so far. If the cache cannot be written, only the comparison is lost."""
    known = _known()
    if key is None or not gb_per_s > (fastest(key) or 0.0):
        return
    path = _file()
    with contextlib.suppress(OSError):
        if make_folder:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A temporary file is written first, because another process may read at any moment.
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps({**known, key: gb_per_s}, indent=1), encoding="utf-8")
        new.replace(path)


def _known() -> dict[str, object]:
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
