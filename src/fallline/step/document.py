"""Shows what ``fallline step`` measured, from the results file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fallline.cli.exit_codes import BadInput
from fallline.cli.output import NotWritten, check_out, emit, write

if TYPE_CHECKING:
    from rich.console import Console

    from fallline.step.plan import Plan
    from fallline.step.published.sources import Grid
    from fallline.step.results import Results


@dataclasses.dataclass(frozen=True)
class Format:
    kind: str
    """text, json, csv or md."""
    quiet: bool
    against: str | None
    figure: Path | None

    def check(self, plan: Plan) -> None:
        """Refuses what could not be shown at the end, before anything is measured."""
        from fallline.step.published.presets import ADAN_GPT2

        if self.figure is not None:
            self._check_figure(plan)
        if self.against is not None and self.kind == "csv":
            raise BadInput("--against: has no place among the lines of --csv; use --json or --md")
        if self.against == ADAN_GPT2 and plan.name != ADAN_GPT2:
            raise BadInput("--against adan-gpt2: compares with --preset adan-gpt2 only; name that preset")
        grid = self.grid()
        if grid is not None and not any((cell.tensors, cell.size) in grid for cell in plan.cells):
            raise BadInput(
                f"--against {self.against}: has none of the numbers and sizes of tensors that this command measures"
            )

    def _check_figure(self, plan: Plan) -> None:
        check_out(self.figure, "--figure")
        assert self.figure is not None
        if self.figure.suffix not in (".png", ".svg"):
            raise BadInput(f"--figure {self.figure}: must end in .png or .svg")
        if len(plan.cells) < 2 or any(cell.size is None for cell in plan.cells):
            raise BadInput(f"--figure {self.figure}: there is no grid to draw; give several --tensors or --sizes")
        try:
            import matplotlib  # noqa: F401
        except ImportError as error:
            raise BadInput("--figure: needs matplotlib; pip install 'fallline[bench]'") from error

    def grid(self) -> Grid | None:
        """The published grid to compare with."""
        from fallline.step.published import presets, sources

        if self.against is None or self.against == presets.ADAN_GPT2:
            return None
        if self.against == presets.ADAM_GRID:
            return sources.ADAM_GRID
        try:
            return sources.read_grid(Path(self.against))
        except sources.BadTable as error:
            raise BadInput(str(error)) from error


class Report:
    """Everything there is to say about a plan's records."""

    def __init__(self, plan: Plan, results: Results, chosen: Format):
        from fallline.step import sentences
        from fallline.step.analyse import analyse
        from fallline.step.implementations import named
        from fallline.step.published.comparisons import comparison
        from fallline.step.results import data_id

        records = results.load(plan.cells)
        if not records:
            raise BadInput(f"{results.store.path}: holds nothing of what this command measures; leave --show out")
        self.plan, self.chosen, self.path = plan, chosen, results.store.path
        self.machines = results.machines(records)
        self.tables = analyse(plan, records)
        self.memory = results.memory() if plan.with_memory else {}
        self.comparison = comparison(plan.name)
        self.data = data_id(records, self.memory)
        compiles = [arm.label for arm in plan.cells[0].arms if named(arm.implementation).compiles]
        self.compiling = sentences.compile_times(self.tables, compiles)
        self.recommendations = sentences.recommendations(self.tables)
        parts = [part for table in self.tables for part in table.parts().values()]
        self.wins = [(part.title, sentences.who_wins(part)) for part in parts if part.decided]
        self.told_apart = [line for part in parts for line in sentences.told_apart(part)]
        self.regions = [*self._regions(), *(line for part in parts for line in sentences.regions(part))]
        self.claims = [answer.text() for answer in self.comparison.claims(self.tables, self.memory)]
        self.against = self._against()
        shown, wrong_percentages = self.comparison.tables(self.tables, self.memory, exact=chosen.kind == "md")
        self.shown = [*shown, *self.against]
        self.notes = [*self._notes(), *wrong_percentages]

    def _regions(self) -> list[str]:
        from fallline.step.sentences import good_and_poor

        if "compiled" not in self.tables[0].arms or not self.tables[0].decided:
            return []
        return good_and_poor(self.tables[0], "compiled")

    def _notes(self) -> list[str]:
        from fallline.step import sentences

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
        found += [*sentences.measured_twice(self.tables), *sentences.disturbed(self.tables)]
        found += self.comparison.notes(self.tables, self.memory)
        return list(dict.fromkeys(_merged(found)))

    def sentence(self) -> str:
        """The last line: what to do, and from which data that follows."""
        winner = self.wins[0][1] if self.wins else self._nothing_compared()
        verdict = self.comparison.verdict(self.tables, self.memory) or winner
        return f"{verdict} (data {self.data} in {self.path})"

    def _nothing_compared(self) -> str:
        timed = {name for table in self.tables for row in table.rows for name in row.medians}
        if not timed:
            return "Nothing could be timed; the notes say why."
        if len(timed) == 1:
            return f"{timed.pop()} alone was timed: there is nothing to compare it with."
        return "Nothing could be compared; the notes say why."

    def as_json(self) -> dict[str, Any]:
        from fallline.step.tables import as_data

        words = [{"table": title, "text": text} for title, text in self.wins]
        return {
            "preset": self.plan.name,
            "data": self.data,
            "file": str(self.path),
            "machines": self.machines,
            "tables": [as_data(table) for table in self.tables],
            "winners": words,
            "told_apart": self.told_apart,
            "compiling": self.compiling,
            "recommendations": self.recommendations,
            "regions": self.regions,
            "claims": self.claims,
            "memory": self.memory,
            "against": [{"title": one.title, "header": one.header, "rows": one.rows} for one in self.against],
            "notes": self.notes,
            "verdict": self.sentence(),
        }

    # ------------------------------------------------------------------ text

    def show(self, console: Console) -> None:
        if not self.chosen.quiet:
            self._show_all(console)
        for line in (*self.recommendations, self.sentence()):
            console.print(line)

    def _show_all(self, console: Console) -> None:
        from fallline.step import heatmap

        for table in self.shown:
            table.show(console)
        for result in self.tables:
            if heatmap.can_be_drawn(result):
                heatmap.show(console, result)
        for line in self._lines():
            console.print(line)
        for note in (*(f"note: {note}" for note in self.notes), circumstances(self.machines)):
            console.print(note, style="dim")
        console.print()

    def _lines(self) -> list[str]:
        won = [f"{title}: {text}" for title, text in self.wins]
        return [*won, *self.told_apart, *self.compiling, *self.regions, *self.claims]

    def _against(self) -> list[Any]:
        if self.chosen.against is None:
            return []
        from fallline.step.published import published_tables

        grid = self.chosen.grid()
        first = self.tables[0]
        return [published_tables.adan_gpt2(first) if grid is None else published_tables.grid(first, grid)]

    def markdown(self) -> str:
        parts = [table.markdown() for table in self.shown]
        lines = [*self._lines(), *self.notes, circumstances(self.machines), *self.recommendations, self.sentence()]
        return "\n".join(parts) + "\n" + "\n".join(f"- {line}" for line in lines) + "\n"


def present(plan: Plan, results: Results, chosen: Format) -> None:
    report = Report(plan, results, chosen)
    there = f"the samples are in {report.path}: make room and give the same command again"
    if chosen.figure is not None:
        from fallline.step import heatmap

        try:
            heatmap.save(report.tables, chosen.figure, report.data)
        except OSError as error:
            raise BadInput(f"--figure {chosen.figure}: {error.strerror or error}; {there}") from error
    try:
        _print(report, chosen)
    except NotWritten as error:
        raise BadInput(f"{error}; {there}") from error


def _print(report: Report, chosen: Format) -> None:
    if chosen.kind == "csv":
        from fallline.step.tables import as_csv

        write(as_csv(report.tables))
    elif chosen.kind == "md":
        write(report.markdown())
    else:
        as_json = chosen.kind == "json"
        emit(report.as_json() if as_json else None, report.show, as_json=as_json, out=None)


def circumstances(machines: Sequence[Mapping[str, Any]]) -> str:
    """What the numbers were taken on, in one line; one file holds one machine, and maybe several runs."""
    last = machines[-1]
    versions = last.get("versions", {})
    caches = ", ".join(f"{level} {size}" for level, size in last.get("caches", {}).items())
    commits = dict.fromkeys(str(one.get("commit") or "installed") for one in machines)
    loads = dict.fromkeys(f"{one['load_average']:.2f}" for one in machines if one.get("load_average") is not None)
    parts = [
        str(last.get("cpu")),
        f"{last.get('cores')} cores",
        caches,
        f"{last.get('memory_gib') or 0:.0f} GiB",
        f"{last.get('instruction_set')}",
        f"torch {versions.get('torch')}",
        f"fallline {versions.get('fallline')} ({'; '.join(commits)})",
        f"{len(machines)} runs" if len(machines) > 1 else "",
        f"load at the start {', '.join(loads)}" if loads else "",
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
