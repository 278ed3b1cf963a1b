"""The best eager or foreach peers through ``torch.compile``: how long compiling takes, and how fast they are then.

Each in a process of its own, which is ended after two minutes: compiling a step over 148 tensors may take longer
than anybody would wait.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import fallline
from benchmarks.cases.rule_peers import CONTESTS
from benchmarks.rows import Result, Row, milliseconds
from benchmarks.settings import ROOT, Settings
from benchmarks.steps import note
from fallline.measure.stats import Estimate

CASE = "compiled_peers"
LIMIT = 120.0


def run(settings: Settings) -> Result:
    if not settings.compiled:
        left_out = Row(CASE, "peers through torch.compile", "–", 1.0, note="not measured: needs --compiled")
        return Result([left_out], {})
    raw = {contest.name: _measured(contest.name, settings) for contest in CONTESTS}
    return Result([_row(name, found) for name, found in raw.items()], raw)


def _measured(name: str, settings: Settings) -> dict[str, Any]:
    note(f"{CASE}: {name}")
    command = [sys.executable, "-m", "benchmarks.workers.compiled_peer", name, str(settings.seconds / 2)]
    command += ["--quick"] if settings.quick else []
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"failed": f"not compiled after {LIMIT / 60:.0f} minutes"}
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"failed": f"does not compile: {last[:120]}"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _row(name: str, found: dict[str, Any]) -> Row:
    what = f"{fallline.info(name).class_name}, the best peer through torch.compile"
    if "failed" in found:
        return Row(CASE, what, "torch.compile", 1.0, strict=False, note=found["failed"])
    theirs = f"{milliseconds(Estimate(**found['theirs']))} after {found['compiling']:.0f} s of compiling"
    return Row(
        CASE,
        what,
        found["peer"],
        1.0,
        strict=False,
        value=Estimate(**found["ratio"]),
        ours=milliseconds(Estimate(**found["ours"])),
        theirs=theirs,
    )
