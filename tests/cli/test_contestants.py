"""``fallline contestants`` lists who can race."""

from __future__ import annotations

import json
import re

from tests.cli import Command


def test_contestants_are_listed_with_those_that_cannot_race(fallline: Command) -> None:
    text = fallline("contestants").out
    assert "algoperf_nadamp" in text and "algoperf_shampoo" in text and "not there: its Hessian" in text
    assert re.search(r"^adamw +warmup_cosine +lr [\d.]+–[\d.]+ \(log\)", text, re.MULTILINE)


def test_json_has_spaces_and_settings(fallline: Command) -> None:
    rows = {row["name"]: row for row in json.loads(fallline("contestants", "--json").out)}
    assert rows["adamw"]["space"]["lr"]["scaling"] == "log" and "lr" in rows["adamw"]["settings"]
    assert rows["algoperf_nadamp"]["points"] > 1 and rows["sophiag"]["missing"]


def test_quiet_gives_the_names_of_those_that_can_race(fallline: Command) -> None:
    names = fallline("contestants", "--quiet").out.split()
    assert "adamw" in names and "algoperf_shampoo" in names and "sophiag" not in names
