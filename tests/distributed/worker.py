"""One process of several: joins the group, runs cases one after another, and writes what became of each.

``python -m tests.distributed.worker RANK WORLD FOLDER MODULE …``; cases may leave files for later launches in FOLDER.
The processes find each other by a file, so that no port can be taken.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

TIMEOUT = timedelta(seconds=240)
"""The time in which a process must come to a collective that others wait in; ends a hang."""


def main(rank: int, world: int, folder: Path, modules: list[str]) -> None:
    warnings.simplefilter("ignore")  # what users are told is tested elsewhere
    torch.set_num_threads(1)
    meeting = folder / f"meeting-{os.environ['MEETING']}"
    dist.init_process_group("gloo", f"file://{meeting}", timeout=TIMEOUT, rank=rank, world_size=world)
    results = folder / f"results-{rank}.json"
    found: dict[str, str] = {}
    for module in modules:
        for name, case in importlib.import_module(f"tests.distributed.cases.{module}").CASES.items():
            found[f"{module}: {name}"] = _outcome(case)
            results.write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


def _outcome(case: object) -> str:
    try:
        case()  # type: ignore[operator]
        return "passed"
    except BaseException:  # a test that fails raises no Exception
        return traceback.format_exc()


if __name__ == "__main__":
    os.chdir(sys.argv[3])
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
