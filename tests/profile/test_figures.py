"""The figures of a profile say no more than its samples."""

from __future__ import annotations

from benchmarks.simulated_profiles import simulated
from fallline.document.figures import Chart
from fallline.profile.estimate import estimate
from fallline.profile.figures import figures


def memory_chart(peaks: dict[str, float]) -> Chart:
    record = simulated({"adamw": 0.003, "slow": 0.009})
    for label, peak in peaks.items():
        record.arms[label].facts["peak_bytes"] = peak
    (found,) = [figure for figure in figures(estimate(record)) if figure.name == "memory"]
    assert isinstance(found, Chart)
    return found


def test_a_frontier_joins_the_arms_that_nobody_beats_in_both() -> None:
    chart = memory_chart({"adamw": 50e6, "slow": 30e6})
    frontier = next(series for series in chart.series if series.name == "frontier")
    assert list(frontier.x) == [30.0, 50.0]


def test_a_frontier_of_one_arm_is_a_sentence_and_no_line() -> None:
    chart = memory_chart({"adamw": 30e6, "slow": 50e6})
    assert [series.name for series in chart.series] == ["adamw", "slow"]
    assert chart.caption == "nobody is faster than adamw or holds less"
