"""Turns raw samples into results: times, speeds, gates, and a winner or a tie for every cell."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Sequence

from fallline.measure import gates
from fallline.measure.interleave import RARELY, side_by_side
from fallline.measure.stats import ALPHA, Comparison, Estimate, bootstrap_median, compare, holm, paired_ratio
from fallline.step.plan import PROBE, Cell, Plan
from fallline.step.results import ArmRecord, CellRecord


@dataclasses.dataclass
class ArmResult:
    """The results of one arm in one cell."""

    name: str
    missing: str | None
    seconds: Estimate | None = None
    """Seconds per step."""
    gb_per_s: Estimate | None = None
    """The bytes that the step has to move, in 1e9 per second."""
    fraction: Estimate | None = None
    """The fraction of the probe's speed in the same rounds, over as much memory."""
    launches: int | None = None
    first_seconds: float | None = None
    """The time of its first step in this cell, which includes compilation if there is any."""
    samples: Sequence[float] = ()
    far_behind: bool = False
    """Whether it was so slow that it was timed only twice before the first look; it is shown, but not compared."""
    wrong: list[str] = dataclasses.field(default_factory=list)
    """The findings of the gates."""

    @property
    def counts(self) -> bool:
        """Whether it takes part in comparisons."""
        return self.seconds is not None and not self.wrong and not self.far_behind


@dataclasses.dataclass
class CellResult:
    """One row of a table."""

    record: CellRecord
    arms: dict[str, ArmResult]
    comparisons: dict[tuple[str, str], Comparison]
    """Pairs of arms of one optimizer."""
    corrected: dict[tuple[str, str], float]
    """p after Holm's correction over the whole table."""
    held_against: list[Cell] = dataclasses.field(default_factory=list)
    """Cells whose times contradict those of this cell; either may be wrong."""

    @property
    def cell(self) -> Cell:
        return self.record.cell

    @property
    def wrong(self) -> list[str]:
        whole = [text for text in (self.record.facts.get("wrong"), self.busy) if text]
        found = [(arm.name, text) for arm in self.arms.values() for text in arm.wrong if text != self.busy]
        return whole + [f"{name}: {text}" for name, text in found]

    @property
    def busy(self) -> str | None:
        return _busy(self.record)

    @property
    def limit(self) -> Estimate | None:
        """The speed of the probe in GB/s."""
        probe = self.record.arms.get(PROBE)
        if probe is None or not probe.seconds:
            return None
        return _per_second(self.record.facts["probe"]["bytes"], bootstrap_median(probe.seconds))

    @property
    def medians(self) -> dict[str, float]:
        """The seconds of all arms that were timed and are believed, including those far behind."""
        timed = [arm for arm in self.arms.values() if arm.seconds is not None and not arm.wrong]
        return {arm.name: statistics.median(arm.samples) for arm in timed}

    @property
    def fastest(self) -> str | None:
        able = [arm for arm in self.arms.values() if arm.counts]
        return min(able, key=lambda arm: statistics.median(arm.samples)).name if len(able) > 1 else None

    @property
    def tied(self) -> list[str]:
        """The arms that cannot be distinguished from the fastest."""
        first = self.fastest
        if first is None:
            return []
        return [name for name in self.arms if name != first and self.p(first, name) > ALPHA]

    @property
    def winner(self) -> str | None:
        """The fastest, if it is faster than all others; None for a tie, or where there is nothing to compare."""
        return self.fastest if not self.tied else None

    def compare(self, first: str, second: str) -> Comparison:
        """The comparison of two arms, of ms per step, in the order asked for."""
        found = self.comparisons.get((first, second))
        return found or _swapped(self.comparisons[second, first], self.record.facts["looks"])

    def p(self, first: str, second: str) -> float:
        """The corrected p-value; 0 for an arm that takes no part and so cannot tie."""
        for pair in ((first, second), (second, first)):
            if pair in self.corrected:
                return self.corrected[pair]
        return 0.0

    def verdict(self) -> str:
        if self.wrong:
            return "set aside"
        if self.fastest is None:
            return "–"
        return " = ".join([self.fastest, *self.tied]) if self.tied else self.fastest


@dataclasses.dataclass
class TableResult:
    title: str
    arms: list[str]
    rows: list[CellResult]
    missing: list[str]
    """Labels of cells that the file does not hold."""

    @property
    def is_grid(self) -> bool:
        """Whether rows are numbers and sizes of tensors, not models."""
        return all(row.cell.size is not None for row in self.rows)

    @property
    def decided(self) -> list[CellResult]:
        """Rows with something to compare that no gate stopped."""
        return [row for row in self.rows if row.fastest is not None and not row.wrong]

    @property
    def set_aside(self) -> list[CellResult]:
        return [row for row in self.rows if row.wrong]

    def parts(self) -> dict[str, TableResult]:
        """Optimizer → a row with its arms alone, because implementations are compared within one optimizer."""
        groups = self.rows[0].cell.groups if self.rows else {}
        return {optimizer: self._only(names) for optimizer, names in groups.items()}

    def _only(self, names: Sequence[str]) -> TableResult:
        rows = [dataclasses.replace(row, arms={name: row.arms[name] for name in names}) for row in self.rows]
        return dataclasses.replace(self, arms=list(names), rows=rows)


def analyse(plan: Plan, records: Sequence[CellRecord]) -> list[TableResult]:
    """All tables of a plan, from the records that are there."""
    by_key = {record.cell.key: record for record in records}
    found = []
    for title, cells in plan.tables.items():
        rows = [_row(by_key[cell.key]) for cell in cells if cell.key in by_key]
        names = list(dict.fromkeys(arm.label for cell in cells for arm in cell.arms))
        missing = [cell.label for cell in cells if cell.key not in by_key]
        table = TableResult(title, names, rows, missing)
        _gate_sizes(table)
        _compare(table)
        found.append(table)
    return found


def doubtful(tables: Sequence[TableResult]) -> dict[Cell, str]:
    """Cells whose times a gate set aside, and the cells that they contradict, each with the finding.

    A shared machine may have been slow or busy for a while, which one more measurement shows. Wrong values or a second
    wrong time do not become right by measuring, and measuring is useless while a machine stays busy for most cells.
    """
    found: dict[Cell, str] = {}
    rows = {row.cell: row for table in tables for row in table.rows}
    mostly_busy = 2 * sum(row.busy is not None for row in rows.values()) > len(rows)
    for row in rows.values():
        for cell in (row.cell, *row.held_against) if row.wrong and not (row.busy and mostly_busy) else ():
            if not rows[cell].record.facts.get("wrong") and "again" not in rows[cell].record.facts:
                found.setdefault(cell, f"{row.cell.label}: {row.wrong[0]}")
    return found


def _row(record: CellRecord) -> CellResult:
    probe = record.arms.get(PROBE)
    arms = {arm.label: _arm(record.arms[arm.label], record, probe) for arm in record.cell.arms}
    return CellResult(record, arms, {}, {})


def _busy(record: CellRecord) -> str | None:
    """Why a cell has no verdict, if other work on the machine took too much meanwhile."""
    reason = record.facts.get("busy")
    return f"the machine was busy: {reason}" if reason else None


def _arm(arm: ArmRecord, record: CellRecord, probe: ArmRecord | None) -> ArmResult:
    result = ArmResult(arm.name, arm.missing, launches=arm.facts.get("launches"), samples=arm.seconds)
    result.first_seconds = arm.facts.get("first_seconds")
    result.far_behind = arm.facts.get("every", 1) >= RARELY
    if not arm.seconds:
        return result
    result.wrong += [text for text in [_busy(record)] if text]
    result.seconds = bootstrap_median(arm.seconds)
    result.gb_per_s = _per_second(arm.facts["bytes_moved"], result.seconds)
    beside = _beside(arm, probe)
    if beside is not None:
        ratio = paired_ratio(beside, arm.seconds)
        result.fraction = _times(ratio, arm.facts["bytes_moved"] / record.facts["probe"]["bytes"])
        # Passes may share the contents of a cache, so only bytes that no cache can save count against the limit.
        least = arm.facts.get("bytes_once", arm.facts["bytes_moved"]) / arm.facts["bytes_moved"]
        result.wrong += [text for text in [gates.above_bandwidth(_times(result.fraction, least))] if text]
    result.wrong += [text for text in [gates.warm_up_left_in(arm.seconds, beside)] if text]
    return result


def _times(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.value * factor, estimate.low * factor, estimate.high * factor, estimate.count)


def _per_second(moved: float, seconds: Estimate) -> Estimate:
    gb = moved / 1e9
    return Estimate(gb / seconds.value, gb / seconds.high, gb / seconds.low, seconds.count)


def _beside(arm: ArmRecord, probe: ArmRecord | None) -> list[float] | None:
    """The probe's samples of the rounds in which the arm was timed."""
    if probe is None or not probe.seconds:
        return None
    step = max(1, arm.facts.get("every", 1) // probe.facts.get("every", 1))
    chosen = probe.seconds[::step]
    return chosen if len(chosen) == len(arm.seconds) else None


def _gate_sizes(table: TableResult) -> None:
    """Checks times along every line of the grid or, without a grid, along the number of elements."""
    lines: dict[object, list[CellResult]] = {}
    for row in table.rows:
        if row.busy:  # its times would only cast doubt on others
            continue
        if row.cell.size is None:
            lines.setdefault("models", []).append(row)
        else:
            lines.setdefault(("count", row.cell.tensors), []).append(row)
            lines.setdefault(("size", row.cell.size), []).append(row)
    pairs = sum(len(line) - 1 for line in lines.values()) * len(table.arms)
    for line in lines.values():
        line.sort(key=lambda row: row.cell.elements)
        for name in table.arms:
            _gate_line([row for row in line if row.arms[name].seconds is not None], name, max(1, pairs))


def _gate_line(rows: Sequence[CellResult], name: str, family: int) -> None:
    work, arms = [row.cell.elements for row in rows], [row.arms[name] for row in rows]
    times = [(float(count), arm.samples) for count, arm in zip(work, arms, strict=True)]
    for at, text in gates.falls_with_size(times, family=family):
        rows[at].held_against.append(rows[at - 1].cell)
        if text not in arms[at].wrong:
            arms[at].wrong.append(text)
    seconds = {count: statistics.median(arm.samples) for count, arm in zip(work, arms, strict=True)}
    flat = gates.changes_nothing("the axis", {count: float(count) for count in work}, seconds)
    # Tiny tensors may cost the same; more work must take longer only where memory traffic decides.
    if flat and max(work) >= 1 << 20:
        for arm in arms:
            arm.wrong.append(flat)


def _compare(table: TableResult) -> None:
    keys = [
        (row, pair)
        for row in table.rows
        for names in row.cell.groups.values()
        for pair in itertools.combinations([name for name in names if row.arms[name].counts], 2)
    ]
    for row, pair in keys:
        first, second = ([1e3 * seconds for seconds in row.arms[name].samples] for name in pair)
        looks = row.record.facts["looks"]
        row.comparisons[pair] = compare(
            first, second, paired=side_by_side(first, second), looks=looks, family=len(keys)
        )
    for (row, pair), p in zip(keys, holm([row.comparisons[pair].p for row, pair in keys]), strict=True):
        row.corrected[pair] = p


def _swapped(found: Comparison, looks: int) -> Comparison:
    second, first = found.samples
    swapped = compare(first, second, paired=side_by_side(first, second), looks=looks)
    return dataclasses.replace(swapped, repeats_needed=found.repeats_needed)
