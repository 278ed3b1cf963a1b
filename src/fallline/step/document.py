"""The results of the measurements of a plan, as a document."""

from __future__ import annotations

from typing import Any

from fallline.document.blocks import Block, Document, Note, Paragraph, Provenance, Table, Verdict
from fallline.document.html.fragment import fragment
from fallline.measure.machine import circumstances
from fallline.measure.store import StoreError
from fallline.step import sentences
from fallline.step.analyse import analyse
from fallline.step.heatmap import can_be_drawn, heat_map
from fallline.step.implementations import named
from fallline.step.plan import Plan
from fallline.step.published import published_tables
from fallline.step.published.comparisons import comparison
from fallline.step.published.sources import Grid
from fallline.step.results import Results, data_id
from fallline.step.roofline import roofline
from fallline.step.tables import as_data, records

Against = Grid | str | None
"""A published table to compare with: a grid, or the name of the preset ``adan-gpt2``, which brings its own table."""


class Report:
    """Tables and sentences that follow from a plan's records; ``exact`` prints times in the published layout."""

    def __init__(self, plan: Plan, results: Results, against: Against = None, exact: bool = False):
        loaded = results.load(plan.cells)
        if not loaded:
            raise StoreError(f"{results.store.path}: holds nothing of what this command measures; leave --show out")
        self.plan, self.path = plan, results.store.path
        self.machines = results.machines(loaded)
        self.tables = analyse(plan, loaded)
        self.memory = results.memory() if plan.with_memory else {}
        self.comparison = comparison(plan.name)
        self.data = data_id(loaded, self.memory)
        compiles = [arm.label for arm in plan.cells[0].arms if named(arm.implementation).compiles]
        self.compiling = sentences.compile_times(self.tables, compiles)
        self.recommendations = sentences.recommendations(self.tables)
        parts = [part for table in self.tables for part in table.parts().values()]
        self.wins = [(part.title, sentences.who_wins(part)) for part in parts if part.decided]
        self.told_apart = [line for part in parts for line in sentences.told_apart(part)]
        self.regions = [*self._regions(), *(line for part in parts for line in sentences.regions(part))]
        self.claims = [answer.text() for answer in self.comparison.claims(self.tables, self.memory)]
        self.against = self._against(against)
        shown, wrong_percentages = self.comparison.tables(self.tables, self.memory, exact)
        self.shown = [*shown, *self.against]
        self.notes = [*self._notes(), *wrong_percentages]

    def _regions(self) -> list[str]:
        if "compiled" not in self.tables[0].arms or not self.tables[0].decided:
            return []
        return sentences.good_and_poor(self.tables[0], "compiled")

    def _against(self, against: Against) -> list[Table]:
        if against is None:
            return []
        first = self.tables[0]
        beside = (
            published_tables.adan_gpt2(first) if isinstance(against, str) else published_tables.grid(first, against)
        )
        return [beside]

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
                found += [f"{row.cell.label}, set aside: {text}" for text in row.wrong if text != row.busy]
            if table.missing:
                found.append(f"{table.title}: not measured yet: {', '.join(table.missing)}")
        found += [
            *sentences.measured_twice(self.tables),
            *sentences.busy(self.tables),
            *sentences.disturbed(self.tables),
        ]
        found += self.comparison.notes(self.tables, self.memory)
        return list(dict.fromkeys(_merged(found)))

    @property
    def verdict(self) -> Verdict:
        """The last line: advice, and the data from which it follows."""
        won = self.wins[0][1] if self.wins else sentences.nothing_compared(self.tables)
        return Verdict(self.comparison.verdict(self.tables, self.memory) or won, self.data, str(self.path))

    def document(self) -> Document:
        blocks: list[Block] = [*self.shown, *(heat_map(table) for table in self.tables if can_be_drawn(table))]
        won = [f"{title}: {text}" for title, text in self.wins]
        lines = [*won, *self.told_apart, *self.compiling, *self.regions, *self.claims]
        blocks += [Paragraph(line, detail=True) for line in lines]
        blocks += [Note(note) for note in self.notes]
        where = circumstances(self.machines)
        blocks.append(Paragraph(where, tone="dim", detail=True))
        blocks += [Verdict(line) for line in self.recommendations]
        blocks.append(self.verdict)
        provenance = Provenance(self.data, str(self.path), where)
        charts = (roofline(table, number) for number, table in enumerate(self.tables, 1))
        drawn = [chart for chart in charts if chart is not None]
        return Document(blocks, provenance, result=self._result(), records=records(self.tables), appendix=drawn)

    def _repr_html_(self) -> str:
        """Shown in a notebook as its tables and sentences."""
        return fragment(self.document())

    def _result(self) -> dict[str, Any]:
        return {
            "preset": self.plan.name,
            "data": self.data,
            "file": str(self.path),
            "machines": self.machines,
            "tables": [as_data(table) for table in self.tables],
            "winners": [{"table": title, "text": text} for title, text in self.wins],
            "told_apart": self.told_apart,
            "compiling": self.compiling,
            "recommendations": self.recommendations,
            "regions": self.regions,
            "claims": self.claims,
            "memory": self.memory,
            "against": [{"title": one.title, "header": one.header, "rows": one.texts} for one in self.against],
            "notes": self.notes,
            "verdict": self.verdict.sentence,
        }


def _merged(notes: list[str]) -> list[str]:
    """Joins the same reason for many cells into one line."""
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
