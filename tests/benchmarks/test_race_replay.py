"""Races replayed from stored trials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.race_replay import RATIO_ERRORS, RECORD, make_race


def test_replayed_races_end_with_a_choice_and_a_bound_and_a_worse_clock_decides_fewer() -> None:
    found = make_race(races=60)["by the error of ratios of step times"]
    shares = [rates["decided within so many trials"] for rates in found.values()]
    assert len(shares) == len(RATIO_ERRORS) and all(rates["a choice and a bound"] == 1.0 for rates in found.values())
    assert shares[0][60] > shares[-1][60]
    for share in shares:
        assert list(share.values()) == sorted(share.values())


@pytest.mark.parametrize(("behind", "decided"), [(1.5, True), (1.0, False)])
def test_only_contestants_that_differ_are_decided_at_once(tmp_path: Path, behind: float, decided: bool) -> None:
    stored = json.loads(RECORD.read_text())
    steps = stored["steps to target"]["adan"]
    turned = [behind * n for n in steps[7:] + steps[:7]]
    path = tmp_path / "record.json"
    path.write_text(json.dumps({**stored, "steps to target": {"a": steps, "b": turned}}))
    rates = make_race(races=40, record=path)["by the error of ratios of step times"]["1.5 %"]
    assert (rates["decided within so many trials"][16] > 0.9) == decided


def test_a_slower_pace_leaves_fewer_decided_in_five_minutes(tmp_path: Path) -> None:
    stored = json.loads(RECORD.read_text())
    path = tmp_path / "record.json"
    shares = []
    for seconds in (1.0, 6.5, 60.0):
        path.write_text(json.dumps({**stored, "pace": {**stored["pace"], "seconds of a trial": seconds}}))
        shares.append(make_race(races=40, record=path)["at the pace of a real race"]["decided within five minutes"])
    assert shares[0] == 1.0 > shares[1] > shares[2] == 0.0
