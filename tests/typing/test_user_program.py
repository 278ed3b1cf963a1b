"""Type checkers see the signature of every optimizer: right uses pass, wrong ones are errors where they are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("user_program.py")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program in a folder of its own, so that no settings of this project apply to it."""
    copy = tmp_path / PROGRAM.name
    copy.write_text(PROGRAM.read_text())
    return copy


def wrong_lines() -> list[int]:
    return [n for n, line in enumerate(PROGRAM.read_text().splitlines(), start=1) if line.endswith("# wrong")]


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_mypy_finds_what_is_wrong_and_nothing_else(program: Path) -> None:
    pytest.importorskip("mypy")
    # Silent: the errors of the program, not those that other settings would find in the package. The cache saves
    # reading torch's sources anew, most of the time.
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'user_program'}"
    done = run(["mypy", "--follow-imports=silent", cache, program.name], program.parent, MYPYPATH=str(ROOT / "src"))
    found = {int(n): said for n, said in re.findall(rf"^{program.name}:(\d+): error: (.*)", done.stdout, re.MULTILINE)}
    assert sorted(found) == wrong_lines(), done.stdout + done.stderr


def test_pyright_finds_what_is_wrong_and_nothing_else(program: Path) -> None:
    pytest.importorskip("pyright")
    settings = {"extraPaths": [str(ROOT / "src")], "include": [program.name]}
    (program.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    done = run(
        ["pyright", "--outputjson", "--pythonpath", sys.executable],
        program.parent,
        PYRIGHT_PYTHON_IGNORE_WARNINGS="1",
    )
    said = json.loads(done.stdout)["generalDiagnostics"]
    found = {one["range"]["start"]["line"] + 1 for one in said if one["severity"] == "error"}
    assert sorted(found) == wrong_lines(), done.stdout + done.stderr
