"""Shows what ``fallline step`` measured, from the results file."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fallline.cli.exits import BadInput
from fallline.cli.output import check_out, emit

if TYPE_CHECKING:
    from rich.console import Console

    from fallline.step.analyse import TableResult
    from fallline.step.plan import Plan
    from fallline.step.published import Grid
    from fallline.step.results import Results

BUILT_IN = ("adam-grid", "adan-gpt2")


@dataclasses.dataclass(frozen=True)
class Format:
    kind: str
    """text, json, csv or md."""
    quiet: bool
    against: str | None
    figure: Path | None

    def check(self) -> None:
        """Refuses what could not be shown at the end, before anything is measured."""
        if self.figure is not None:
            check_out(self.figure)
            if self.figure.suffix not in (".png", ".svg"):
                raise BadInput(f"--figure {self.figure}: must end in .png or .svg")
            try:
                import matplotlib  # noqa: F401
            except ImportError as error:
                raise BadInput("--figure: needs matplotlib; pip install 'fallline[bench]'") from error
        if self.against is not None and self.against not in BUILT_IN:
            self.grid()

    def grid(self) -> Grid | None:
        """The published grid to compare with."""
        from fallline.step.published import ADAM_GRID, BadTable, read_grid

        if self.against is None or self.against == "adan-gpt2":
            return None
        if self.against == "adam-grid":
            return ADAM_GRID
        try:
            return read_grid(Path(self.against))
        except BadTable as error:
            raise BadInput(str(error)) from error


class Report:
    """Everything there is to say about a plan's records."""

    def __init__(self, plan: Plan, results: Results, chosen: Format):
        from fallline.step import words
        from fallline.step.analyse import analyse
        from fallline.step.implementations import named
        from fallline.step.results import data_id

        records = results.load(plan.cells)
        if not records:
            raise BadInput(f"{results.store.path}: holds nothing of what this command measures; leave --show out")
        self.plan, self.chosen, self.path = plan, chosen, results.store.path
        self.machine = results.machine()
        self.data = data_id(records)
        self.tables = analyse(plan, records)
        self.memory = results.memory() if plan.name == "adan-gpt2" else {}
        compiles = [arm.label for arm in plan.cells[0].arms if named(arm.implementation).compiles]
        self.compiling = words.compile_times(self.tables, compiles)
        self.recommendations = words.recommendations(self.tables)
        self.wins = {table.title: words.who_wins(table) for table in self.tables if table.decided}
        self.regions = self._regions()
        self.claims = self._claims()
        self.notes = self._notes()

    def _regions(self) -> list[str]:
        from fallline.step.words import good_and_poor

        if "compiled" not in self.tables[0].arms or not self.tables[0].decided:
            return []
        return good_and_poor(self.tables[0], "compiled")

    def _claims(self) -> list[str]:
        from fallline.step.claims import adan_claims, grid_claims

        if self.plan.name == "adan-gpt2":
            return [answer.text() for answer in adan_claims(self.tables[0], self.memory)]
        if self.plan.name == "adam-grid":
            return [answer.text() for answer in grid_claims(self.tables[0])]
        return []

    def _notes(self) -> list[str]:
        found = list(self.plan.notes)
        for table in self.tables:
            for row in table.rows:
                found += [f"{row.cell.label}, {name}: {arm.missing}" for name, arm in row.arms.items() if arm.missing]
                found += [
                    f"{row.cell.label}, {name}: far behind, timed {len(arm.samples)} times and not compared"
                    for name, arm in row.arms.items()
                    if arm.far_behind
                ]
                found += [f"{row.cell.label}, set aside: {text}" for text in row.wrong]
            if table.missing:
                found.append(f"{table.title}: not measured yet: {', '.join(table.missing)}")
        return list(dict.fromkeys(_merged(found)))

    def sentence(self) -> str:
        """The last line: what to do, and from which data that follows."""
        first = next(iter(self.wins.values()), "nothing could be compared.")
        return f"{first} (data {self.data} in {self.path})"

    def as_json(self) -> dict[str, Any]:
        from fallline.step.tables import as_data

        return {
            "preset": self.plan.name,
            "data": self.data,
            "file": str(self.path),
            "machine": self.machine,
            "tables": [{**as_data(table), "words": self.wins.get(table.title)} for table in self.tables],
            "compiling": self.compiling,
            "recommendations": self.recommendations,
            "regions": self.regions,
            "claims": self.claims,
            "memory": self.memory,
            "notes": self.notes,
            "verdict": self.sentence(),
        }

    # ------------------------------------------------------------------ text

    def show(self, console: Console) -> None:
        if not self.chosen.quiet:
            self._show_tables(console)
        for line in (*self.compiling, *self.regions, *self.claims):
            if not self.chosen.quiet:
                console.print(line)
        if not self.chosen.quiet:
            for note in self.notes:
                console.print(f"note: {note}", style="dim")
            console.print(circumstances(self.machine), style="dim")
            console.print()
        for line in self.recommendations:
            console.print(line)
        console.print(self.sentence())

    def _show_tables(self, console: Console) -> None:
        from fallline.step import heatmap

        for table in self.all_tables():
            table.show(console)
        for result in self.tables:
            if heatmap.is_grid(result):
                heatmap.show(console, result)
        for title, text in self.wins.items():
            console.print(f"{title}: {text}")

    def all_tables(self, exact: bool = False) -> list[Any]:
        from fallline.step import adan_tables, tables

        if self.plan.name == "adan-gpt2":
            first, wrong = adan_tables.time_table(self.tables[0])
            self.notes = list(dict.fromkeys([*self.notes, *wrong, *adan_tables.notes(self.tables[0], self.memory)]))
            found = [
                first,
                adan_tables.memory_table(self.memory),
                adan_tables.starts_table(self.tables[0], self.memory),
            ]
            found += [tables.speeds(table) for table in self.tables]
        else:
            found = [made(table) for table in self.tables for made in (lambda t: tables.times(t, exact), tables.speeds)]
        return found + self._against()

    def _against(self) -> list[Any]:
        if self.chosen.against is None:
            return []
        grid = self.chosen.grid()
        return [_beside_grid(self.tables[0], grid)] if grid is not None else [_beside_adan(self.tables[0])]

    def markdown(self) -> str:
        parts = [table.markdown() for table in self.all_tables(exact=True)]
        lines = [*self.wins.values(), *self.compiling, *self.regions, *self.claims, *self.notes]
        lines += [circumstances(self.machine), *self.recommendations, self.sentence()]
        return "\n".join(parts) + "\n" + "\n".join(f"- {line}" for line in lines) + "\n"


def present(plan: Plan, results: Results, chosen: Format) -> None:
    report = Report(plan, results, chosen)
    if chosen.figure is not None:
        from fallline.step import heatmap

        if not any(map(heatmap.is_grid, report.tables)):
            raise BadInput(f"--figure {chosen.figure}: there is no grid to draw; give several --tensors or --sizes")
        heatmap.save(report.tables, chosen.figure, report.data)
    if chosen.kind in ("csv", "md"):
        from fallline.step.tables import as_csv

        text = as_csv(report.tables) if chosen.kind == "csv" else report.markdown()
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    emit(report.as_json() if chosen.kind == "json" else None, report.show, as_json=chosen.kind == "json", out=None)


def circumstances(machine: dict[str, Any]) -> str:
    """What the numbers were taken on, in one line."""
    versions = machine.get("versions", {})
    caches = ", ".join(f"{level} {size}" for level, size in machine.get("caches", {}).items())
    load = machine.get("load_average")
    parts = [
        str(machine.get("cpu")),
        f"{machine.get('cores')} cores",
        caches,
        f"{machine.get('memory_gib') or 0:.0f} GiB",
        f"{machine.get('instruction_set')}",
        f"torch {versions.get('torch')}",
        f"fallline {versions.get('fallline')} ({machine.get('commit') or 'installed'})",
        f"load at the start {load:.2f}" if load is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _merged(notes: list[str]) -> list[str]:
    """The same reason for many cells in one line."""
    by_reason: dict[str, list[str]] = {}
    for note in notes:
        place, separator, reason = note.partition(", ")
        by_reason.setdefault(reason if separator and " × " in place else note, []).append(place)
    merged = []
    for reason, places in by_reason.items():
        where = list(dict.fromkeys(places))
        if len(where) == 1:
            merged.append(reason if reason.startswith(where[0]) else f"{where[0]}, {reason}")
        else:
            merged.append(f"{len(where)} cells, {reason}")
    return merged


def _beside_grid(table: TableResult, grid: Grid) -> Any:
    from fallline.step.published import agreement, rows_of, winner
    from fallline.step.tables import Table

    ours = {(row.cell.tensors, row.cell.size): row.verdict() for row in table.decided if row.cell.size is not None}
    same, common = agreement(ours, grid)
    rows = []
    for key in rows_of(grid):
        if key in ours:
            theirs = winner(grid[key])
            agrees = "" if theirs in ours[key].split(" = ") else "differs"
            rows.append([str(key[0]), str(key[1]), theirs, ours[key], agrees])
    title = f"winners, published and here: the same in {same} of {common} cells ({table.title})"
    return Table(title, ["tensors", "size", "published", "here", ""], rows, 0)


def _beside_adan(table: TableResult) -> Any:
    from fallline.step.adan_tables import time_table
    from fallline.step.published import ADAN_GPT2
    from fallline.step.tables import Table

    mine = {tuple(row[:3]): row for row in time_table(table)[0].rows}
    rows = []
    for row in ADAN_GPT2:
        key = (str(row.heads), str(row.layers), str(row.width))
        true = 100 * float(row.adan_ms) / float(row.adam_ms)
        rows.append([*key, str(row.millions), row.printed_percent, f"{true:.1f}", *mine[key][-3:-1]])
    header = [
        "heads",
        "layers",
        "width",
        "M parameters",
        "printed %",
        "from its cells %",
        "here %",
        "here, both fused %",
    ]
    return Table("FusedAdan / Adam in %, published and here", header, rows, 0)
