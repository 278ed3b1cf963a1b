"""No warm-up: the first step after import, in a new process each time, against the second one."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.rows import Result, Row
from benchmarks.settings import ROOT, Settings
from benchmarks.steps import note
from fallline.measure.stats import bootstrap_median

BAR = 20.0


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
    longer = [(r["steps"][0] - r["steps"][1]) * 1e3 for r in runs]
    compiled = sum(r["compiled"] for r in runs)
    row = Row(
        "first_step",
        "AdamW, first step after import, 16 × 65,536 (1 M parameters)",
        "our second step",
        BAR,
        unit=" ms longer",
        at_least=False,
        value=bootstrap_median(longer),
        ours=f"{median(r['steps'][0] for r in runs) * 1e3:.1f} ms; constructing "
        f"{median(r['construct'] for r in runs) * 1e3:.1f} ms after torch's own first optimizer "
        f"({median(r['torch_construct'] for r in runs) * 1e3:.0f} ms, its compiler is imported); "
        + ("nothing compiled" if not compiled else f"{compiled} files compiled"),
        theirs=f"{median(r['steps'][1] for r in runs) * 1e3:.2f} ms",
    )
    return Result([row], {"runs": runs})
