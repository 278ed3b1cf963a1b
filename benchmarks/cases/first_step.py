"""No warm-up: the first step after import, in a new process each time, against the second one."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.rows import Result, Row
from benchmarks.settings import ROOT, Settings
from benchmarks.steps import note
from fallline.measure.stats import Estimate, bootstrap_median

BAR = 20.0
CASE, WHAT = "first_step", "AdamW, first step after import, 16 × 65,536 (1 M parameters)"


def run(settings: Settings) -> Result:
    runs = []
    for _ in range(3 if settings.quick else 15):
        with tempfile.TemporaryDirectory() as folder:
            cache = str(Path(folder) / "cache")
            command = [sys.executable, "-m", "benchmarks.workers.first_step", cache]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        runs.append(json.loads(done.stdout))
    note(f"first step: {len(runs)} processes")
    return Result([_time(runs), _compiled(runs)], {"runs": runs})


def _time(runs: Sequence[Mapping[str, Any]]) -> Row:
    first, second = (1e3 * median(r["steps"][k] for r in runs) for k in (0, 1))
    construct, torch_construct = (1e3 * median(r[key] for r in runs) for key in ("construct", "torch_construct"))
    return Row(
        CASE,
        WHAT,
        "our second step",
        BAR,
        unit=" ms longer",
        at_least=False,
        value=bootstrap_median([(r["steps"][0] - r["steps"][1]) * 1e3 for r in runs]),
        ours=f"{first:.1f} ms; constructing {construct:.1f} ms, after torch's own first optimizer "
        f"({torch_construct:.0f} ms: torch imports its compiler there)",
        theirs=f"{second:.2f} ms",
    )


def _compiled(runs: Sequence[Mapping[str, Any]]) -> Row:
    most = float(max(r["compiled"] for r in runs))
    return Row(
        CASE,
        f"{WHAT}: files compiled",
        "nothing",
        0.0,
        unit=" files",
        at_least=False,
        value=Estimate(most, most, most, len(runs)),
        ours="" if not most else "the native library lacks the kernel: `make setup` rebuilds it",
    )
