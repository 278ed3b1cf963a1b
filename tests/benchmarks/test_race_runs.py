"""The job of real races: races of twins pass only where there was something to see."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.race_runs import CHECKS

EQUAL = {"choice": "adamw", "bound": 0.04, "within": True, "out": {}}
APART = {**EQUAL, "out": {"twin": 3}}
NOT_LOOKED_AT = {"choice": None, "ended by": "time"}


@pytest.mark.parametrize(
    ("rows", "passes"),
    [([EQUAL, EQUAL], True), ([EQUAL, APART], False), ([EQUAL, NOT_LOOKED_AT], False), ([], False)],
)
def test_twins_pass_if_every_race_was_looked_at_and_none_told_them_apart(
    rows: list[dict[str, Any]], passes: bool
) -> None:
    assert CHECKS["twins"](rows)["ok"] is passes
