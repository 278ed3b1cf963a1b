"""The speed of every implementation against the memory that its step goes through, below the limit of that memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fallline.document.figures import Axis, Chart, Series
from fallline.measure.stats import Estimate
from fallline.step.analyse import CellResult, TableResult

ROOM = 1.25
"""Of the axes, as factors beyond the smallest and the largest value."""


def roofline(table: TableResult, number: int) -> Chart | None:
    """Speeds by working set, on logarithmic axes; None where cells do not differ in it, or few were believed."""
    rows = sorted((row for row in table.rows if not row.wrong), key=lambda row: row.cell.working_set())
    if len({row.cell.working_set() for row in rows}) < 2:
        return None
    lines = [_series(name, rows, _speed_of(name)) for name in table.arms]
    lines.append(_series("limit", rows, lambda row: row.limit))
    lines = [line for line in lines if len(line.x) > 1]
    if len(lines) < 2:
        return None
    sizes = [x for line in lines for x in line.x]
    speeds = [y for line in lines for y in line.y]
    return Chart(
        name=f"roofline_{number}",
        title=f"{table.title}: speed against memory",
        x=Axis("MB that a step goes through", min(sizes) / ROOM, max(sizes) * ROOM, log=True),
        y=Axis("GB/s", min(speeds) / ROOM, max(speeds) * ROOM, log=True),
        series=lines,
        caption="limit: a hand-written sweep over as much memory, in the same rounds",
    )


def _speed_of(name: str) -> Callable[[CellResult], Estimate | None]:
    def speed(row: CellResult) -> Estimate | None:
        arm = row.arms.get(name)
        return None if arm is None or arm.wrong else arm.gb_per_s

    return speed


def _series(name: str, rows: Sequence[CellResult], speed: Callable[[CellResult], Estimate | None]) -> Series:
    """Where several cells go through as much memory, the geometric mean of their speeds."""
    by_size: dict[int, list[Estimate]] = {}
    for row in rows:
        if (found := speed(row)) is not None:
            by_size.setdefault(row.cell.working_set(), []).append(found)

    def mean(values: list[float]) -> float:
        return math.exp(math.fsum(map(math.log, values)) / len(values))

    found = list(by_size.values())
    return Series(
        name,
        [size / 1e6 for size in by_size],
        [mean([one.value for one in some]) for some in found],
        [mean([one.low for one in some]) for some in found],
        [mean([one.high for one in some]) for some in found],
    )
