"""Writes ``src/fallline/gallery/data/leaderboard.json``, the times of the leaderboard that the gallery draws where
there are no logs of AlgoPerf: ``python docs/gallery_leaderboard.py``.

``--check`` writes nothing and fails if the file is not current.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from leaderboard_page import raced_times
from page_writing import write_or_check

FILE = Path(__file__).parents[1] / "src" / "fallline" / "gallery" / "data" / "leaderboard.json"
DIGITS = 5


def text() -> str:
    table = raced_times()
    seconds = {
        contestant: {
            workload: [
                None if math.isinf(time) else float(f"{time:.{DIGITS}g}")
                for _, time in sorted(table.cell(contestant, workload).items())
            ]
            for workload in table.workloads
        }
        for contestant in table.contestants
    }
    known = {
        "what": f"fallline's leaderboard of {len(table.contestants)} entries on eight miniatures (docs/leaderboard.md)",
        "command": "make leaderboard",
        "workloads": table.workloads,
        "seconds": seconds,
        "pace_errors": {
            contestant: {
                workload: float(f"{table.pace_error(contestant, workload):.3g}") for workload in table.workloads
            }
            for contestant in table.contestants
        },
    }
    return json.dumps(known, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    write_or_check(FILE, text, __doc__, "make leaderboard")
