"""The checks of ladders on tables that are made up here: methods, measures, and cells that are missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import ladder_checks as checks

CASE = checks.horizons("longer", "130m", (1, 2, 4), 8)
FIELD = {"muon": 0.04, "soap": 0.03, "lion": -0.02}


def losses(ratio: float) -> checks.Losses:
    """Advantages of the field over AdamW that change by a factor with every doubling."""
    return {
        ("130m", horizon): {
            "adamw": 3.0 - 0.1 * k,
            **{name: 3.0 - 0.1 * k - ratio**k * advantage for name, advantage in FIELD.items()},
        }
        for k, horizon in enumerate((1.0, 2.0, 4.0, 8.0))
    }


def test_methods_predict_as_they_say() -> None:
    found = checks.outcome(losses(0.5), CASE)
    assert found is not None and found.names == ("lion", "muon", "soap")
    muon = found.names.index("muon")
    assert found.truth[muon] == pytest.approx(0.005)
    assert found.predicted["no trend"][muon] == pytest.approx(0.07 / 3)
    assert found.predicted["last rung"][muon] == pytest.approx(0.01)
    assert found.predicted["free lines"][muon] == pytest.approx(0.07 / 3 - 2 * 0.015)
    assert found.predicted["shrunken"][muon] == pytest.approx(0.005, abs=0.002)


def test_measures_of_one_case() -> None:
    found = checks.outcome(losses(0.5), CASE)
    assert found is not None
    figures = checks.measures([found])
    assert figures["methods"]["last rung"] == pytest.approx({"tau": 1.0, "winner": 1.0, "error": 0.01125 / 3})
    assert figures["methods"]["free lines"]["tau"] == -1.0, "lines through advantages that halve cross"
    assert figures["covered"] == 1.0 and figures["answered right"] == figures["answered"]


def test_optimizers_without_the_cells_that_a_case_needs_are_left_out() -> None:
    table = {cell: dict(row) for cell, row in losses(1.0).items()}
    del table["130m", 4.0]["lion"]
    del table["130m", 1.0]["muon"]
    found = checks.outcome(table, CASE)
    assert found is not None and found.names == ("muon", "soap")
    del table["130m", 8.0]["soap"]
    assert checks.outcome(table, CASE) is None


def test_losses_become_doublings_of_the_references_time() -> None:
    unit = checks.doublings(losses(1.0))
    assert unit(("130m", 2.0)) == pytest.approx(0.1)
    found = checks.outcome(losses(1.0), CASE, unit)
    assert found is not None and found.truth[found.names.index("muon")] == pytest.approx(0.4)


def test_tables_are_read(tmp_path: Path) -> None:
    (tmp_path / checks.MARIN).write_text(
        "optimizer,size,chinchilla,setting,loss,run\nadamw,130m,1,a,3.5,x\nadamw,130m,1,b,3.4,y\nadamw,130m,1,c,NaN,z\n"
        "adamw,130m,2,a,,x\n"
    )
    (tmp_path / checks.EPFL).write_text(
        "optimizer,iteration,val_loss\nadamw,256,5.0\nadamw,256,6.0\nsgd,256,9.0\nmuon,512,4.0\n"
    )
    assert checks.marin(tmp_path) == {("130m", 1.0): {"adamw": 3.4}, ("130m", 2.0): {}}
    assert checks.epfl(tmp_path) == {("", 256.0): {"adamw": 5.5}, ("", 512.0): {"muon": 4.0}}


def test_cases_lie_where_their_groups_say() -> None:
    for case in (*checks.marin_cases(), *checks.epfl_cases()):
        span, ahead = np.log2([case.rungs[-1] / case.rungs[0], case.at / case.rungs[-1]])
        if case.group == "longer":
            assert 0 < ahead <= span / 2
        if case.group == "too far":
            assert ahead > span / 2
        if case.group == "larger":
            assert ahead == 0 and case.goal[0] != case.cells[-1][0]
