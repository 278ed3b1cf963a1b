"""The walk of docs/distributed.md: a training in two processes is killed, and goes on in three."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "train_sharded.py"
STEPS, EVERY = 8, 2


def start(processes: int, folder: Path) -> subprocess.Popen[str]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    options = ["--steps", str(STEPS), "--every", str(EVERY), "--folder", str(folder)]
    return subprocess.Popen(
        [*torchrun, str(SCRIPT), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def losses(text: str) -> dict[int, float]:
    return {int(step): float(loss) for step, loss in re.findall(r"^step (\d+): loss ([\d.]+)$", text, re.MULTILINE)}


def whole_run(processes: int, folder: Path) -> str:
    run = start(processes, folder)
    try:
        text, _ = run.communicate(timeout=300)
    finally:
        run.kill()
    assert run.returncode == 0, text
    return text


def test_a_training_that_is_killed_goes_on_with_another_number_of_processes(tmp_path: Path) -> None:
    expected = losses(whole_run(1, tmp_path / "whole"))
    assert set(expected) == set(range(EVERY, STEPS + 1, EVERY))
    run, read = start(2, tmp_path / "killed"), ""
    try:
        assert run.stdout is not None
        for line in run.stdout:
            read += line
            if line.startswith(f"step {STEPS // 2}:"):
                os.kill(int(re.findall(r"process 1 of 2 .* pid is (\d+)", read)[0]), signal.SIGKILL)
                break
        rest, _ = run.communicate(timeout=300)
    finally:
        run.kill()
    assert run.returncode != 0, read + rest
    before = losses(read + rest)
    text = whole_run(3, tmp_path / "killed")
    first = int(re.findall(r"process 0 of 3 goes on from step (\d+)", text)[0])
    assert 0 < first < STEPS
    found = {**before, **losses(text)}
    assert found == {step: pytest.approx(loss, abs=2e-3) for step, loss in expected.items()}
