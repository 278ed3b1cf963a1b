"""How long a build from source takes: a clean clone of the last commit, made into a wheel."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

from benchmarks.rows import Result, Row
from benchmarks.settings import ROOT, Settings
from benchmarks.steps import note
from fallline.measure.stats import Estimate

BAR = 180.0
CASE, WHAT, AGAINST = "build", "source build from a clean clone", "the clock"


def run(settings: Settings) -> Result:
    if not settings.build:
        left_out = Row(CASE, WHAT, AGAINST, BAR, unit=" s", at_least=False, note="not measured: needs --build")
        return Result([left_out], {})
    note("build: cloning and compiling")
    with tempfile.TemporaryDirectory() as folder:
        _call("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), f"{folder}/clone")
        start = time.perf_counter()
        pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel")
        _call(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", f"{folder}/wheel", f"{folder}/clone")
        seconds = time.perf_counter() - start
    row = Row(
        CASE,
        WHAT,
        AGAINST,
        BAR,
        unit=" s",
        at_least=False,
        value=Estimate(seconds, seconds, seconds, 1),
        ours="one build, the tools already installed",
    )
    return Result([row], {"seconds": seconds})


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
