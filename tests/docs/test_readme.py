"""Everything in the README runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import overview
from fallline.cli.doctor_checks import SWITCHES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL) for line in block.splitlines()]
COMMANDS = [shlex.split(line, comments=True) for line in SHELL]


def test_there_is_something_to_run() -> None:
    assert PYTHON and any(words[0] == "fallline" for words in COMMANDS)


@pytest.mark.parametrize("block", PYTHON, ids=range(len(PYTHON)))
def test_python_block_runs(block: str, tmp_path: Path) -> None:
    file = tmp_path / "block.py"  # a file, so that errors in rules can quote their line
    file.write_text(block, encoding="utf-8")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    names = {"torch": torch, "model": model, "__name__": "readme"}
    exec(compile(block, str(file), "exec"), names)


@pytest.mark.parametrize("words", [w for w in COMMANDS if w and w[0] == "fallline"], ids=" ".join)
def test_command_runs(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_other_commands_are_targets_of_make() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = {words[1] for words in COMMANDS if words and words[0] == "make"}
    named |= set(re.findall(r"`make ([a-z]+)`", README))
    assert {"race", "test"} <= named <= targets


def test_measured_rows_are_those_of_the_pages() -> None:
    assert overview.is_current(), "run `python -m benchmarks.overview`"
    assert overview.headlines(overview.pages()).count("\n") > 5


def test_every_switch_is_on_the_page_of_commands() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for name in SWITCHES:
        assert f"`{name}`" in page


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert "://" in target or (ROOT / target).exists(), target
