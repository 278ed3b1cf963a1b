"""The guide to the optimizers runs, and shows what it prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from .pages import DOCS

PAGE = (DOCS / "using.md").read_text(encoding="utf-8")


def test_blocks_run_in_order_and_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "using.md", "exec"), names)
    assert len(blocks) >= 5
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert capsys.readouterr().out.startswith(shown)
