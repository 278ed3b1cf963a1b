"""Speeds of implementations against the memory that a step goes through, below the limit of that memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fallline.document.figures import Axis, Chart, Series
from fallline.measure.stats import Estimate
from fallline.step.analyse import CellResult, TableResult

ROOM = 1.25
"""The limits of the axes, as factors beyond the smallest and the largest value."""


def roofline(table: TableResult, number: int) -> Chart | None:
    """Speeds by working set, on logarithmic axes; None where cells do not differ in it, or few were believed."""
    rows = sorted((row for row in table.rows if not row.wrong), key=lambda row: row.cell.working_set())
    if len({row.cell.working_set() for row in rows}) < 2:
        return None
    lines = [_series(name, rows, _speed_of(name), scattered=True) for name in table.arms]
    lines.append(_series("limit", rows, lambda row: row.limit, scattered=False))
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


def _series(
    name: str, rows: Sequence[CellResult], speed: Callable[[CellResult], Estimate | None], *, scattered: bool
) -> Series:
    """A point for each cell; of a line, which has one height everywhere, the median of cells of the same size."""
    by_size: dict[int, list[Estimate]] = {}
    for row in rows:
        if (found := speed(row)) is not None:
            by_size.setdefault(row.cell.working_set(), []).append(found)
    if not scattered:
        by_size = {size: [sorted(some, key=lambda one: one.value)[len(some) // 2]] for size, some in by_size.items()}
    points = [(size / 1e6, one) for size, some in by_size.items() for one in some]
    return Series(
        name,
        [size for size, _ in points],
        [one.value for _, one in points],
        [one.low for _, one in points],
        [one.high for _, one in points],
        scattered=scattered,
    )
