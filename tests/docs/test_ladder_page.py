"""``docs/ladder.md`` is made from the figures that the checks wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fallline.cli.race.ladder import STUDIES
from tests.docs.pages import writer_of


def test_the_page_is_current() -> None:
    writer = writer_of("ladder")
    assert writer.page() == writer.PAGE.read_text(encoding="utf-8"), "run `python docs/ladder_page.py`"
    assert f"on all rungs, {STUDIES} studies by default" in writer.page()


def test_its_numbers_are_those_of_the_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = writer_of("ladder")
    found = json.loads(writer.CHECKS.read_text(encoding="utf-8"))
    found["marin: longer"]["methods"]["shrunken"]["tau"] = 0.4321
    found["epfl: longer"]["answered"] += 1
    changed = tmp_path / "checks.json"
    changed.write_text(json.dumps(found))
    before = writer.page()
    monkeypatch.setattr(writer, "CHECKS", changed)
    assert "| **shrunken trends** | 0.43 |" in writer.page() and "| **shrunken trends** | 0.43 |" not in before
