"""The trend of a gap and a cliff, on samples whose truth is known."""

from __future__ import annotations

from benchmarks.simulated_profiles import simulated
from fallline.profile.estimate import CellEstimate, estimate
from fallline.profile.sweep import cliff_sentence, cliffs, gaps, trend_sentence

SIZES = (16, 32, 64, 128)


def cells(*, gap_grows: bool, fall: bool = False, faults: float = 0.0) -> list[CellEstimate]:
    found = []
    for size in SIZES:
        gap = 0.002 * (size / 16 if gap_grows else 1)
        slow = 3.0 if fall and size == 128 else 1.0
        record = simulated(
            {"adamw": 0.003 * slow, "other": (0.003 + gap) * slow},
            passes={"adamw": size / 16 * slow, "other": size / 16 * slow},
            label=f"batch {size}",
            positions=256 * size,
            noise=0.01,
            placement=0.001,
            faults=faults * size if size == 128 else 0.0,
        )
        found.append(estimate(record))
    return found


def test_a_constant_gap_is_said_to_shrink_in_percent_only() -> None:
    found = cells(gap_grows=False)
    shares = [cell.arms["other"].delta.value for cell in found if cell.arms["other"].delta]
    assert abs(shares[0]) > 3 * abs(shares[-1])
    assert "shrinks only because steps grow" in trend_sentence(found, "other", "batch")
    assert len(gaps(found, "other")) == 4


def test_a_growing_gap_is_not_called_constant() -> None:
    assert "grows with batch" in trend_sentence(cells(gap_grows=True), "other", "batch")


def test_a_cliff_is_named_with_its_signal() -> None:
    steady = cells(gap_grows=False)
    assert cliffs(steady) == [] and "No throughput cliff" in cliff_sentence(steady, "batch")[0]
    fallen = cliffs(cells(gap_grows=False, fall=True, faults=1000.0))
    assert {cliff.arm for cliff in fallen} == {"adamw", "other"}
    assert fallen[0].after == "batch 128" and fallen[0].fall > 0.5
    assert "allocator" in fallen[0].causes[0]


def test_a_cliff_without_a_signal_says_so() -> None:
    (cause,) = cliffs(cells(gap_grows=False, fall=True))[0].causes
    assert "no signal says why" in cause
