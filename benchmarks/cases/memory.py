"""int8 AdamW's memory: bytes of its states, and what a step allocates.

States are counted storage by storage. Allocations are counted below Python and torch, in another process, by
a library loaded in front of the C library's malloc, calloc, realloc, memalign and mmap
(``workers/count_allocations.c``). Without a C compiler only torch's allocator is counted, by its profiler.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.rows import Result, Row
from benchmarks.settings import ROOT, Settings
from fallline.measure.stats import Estimate

STATE_BAR, ALLOCATION_BAR = 2.1, 1.0
COUNTER = Path(__file__).parent.parent / "workers" / "count_allocations.c"


def run(settings: Settings) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        counter = _build_counter(Path(folder))
        environment = {**os.environ, **({"LD_PRELOAD": str(counter)} if counter else {})}
        command = [sys.executable, "-m", "benchmarks.workers.allocations", "6" if settings.quick else "1"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    found = json.loads(done.stdout)
    return Result([_states(found), _allocations(found)], found)


def _build_counter(folder: Path) -> Path | None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    library = folder / "count_allocations.so"
    command = [compiler, "-O2", "-fPIC", "-shared", str(COUNTER), "-o", str(library)]
    built = subprocess.run(command, capture_output=True, check=False)
    return library if built.returncode == 0 else None


def _exactly(value: float, count: int) -> Estimate:
    return Estimate(value, value, value, count)


def _states(found: dict[str, Any]) -> Row:
    per_parameter = found["state_bytes"] / found["parameters"]
    return Row(
        "memory",
        f"AdamW int8, states of {found['parameters'] / 1e6:.1f} M parameters",
        "bytes per parameter",
        STATE_BAR,
        unit=" bytes",
        at_least=False,
        value=_exactly(per_parameter, 1),
        ours=f"{found['state_bytes'] / 1e6:.1f} MB in all",
    )


def _allocations(found: dict[str, Any]) -> Row:
    steps = found["steps"]
    worst = max(steps, key=lambda step: step["bytes"])
    return Row(
        "memory",
        f"AdamW int8, allocated during a step ({found['method']})",
        "all allocations of the worst step",
        ALLOCATION_BAR,
        unit=" MB",
        at_least=False,
        value=_exactly(worst["bytes"] / 1e6, len(steps)),
        ours=f"{worst['count']} allocations, the largest {worst['largest']:,} bytes; {len(steps)} steps",
    )
