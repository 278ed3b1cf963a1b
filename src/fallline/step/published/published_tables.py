"""Results of this machine beside a published table."""

from __future__ import annotations

from fallline.document.blocks import Table
from fallline.document.cells import Cell, Column, Number, Text
from fallline.step.analyse import TableResult
from fallline.step.published.adan_tables import PLACE, time_table
from fallline.step.published.presets import ADAM, ADAM_FUSED, FUSED
from fallline.step.published.sources import ADAN_GPT2, Grid, agreement, rows_of, winner


def grid(table: TableResult, published: Grid) -> Table:
    """The winners of both, cell by cell."""
    ours = {(row.cell.tensors, row.cell.size): row.verdict() for row in table.decided if row.cell.size is not None}
    same, common = agreement(ours, published)
    rows: list[list[Cell]] = []
    for key in rows_of(published):
        if key in ours:
            theirs = winner(published[key])
            agrees = "" if theirs in ours[key].split(" = ") else "differs"
            rows.append([Number(key[0]), Number(key[1]), Text(theirs), Text(ours[key]), Text(agrees)])
    title = f"winners, published and here: the same in {same} of {common} cells ({table.title})"
    columns = [
        Column("tensors", key=True, digits="whole"),
        Column("size", key=True, digits="whole"),
        Column("published"),
        Column("here"),
        Column("", name="agreement"),
    ]
    return Table(title, columns, rows, detail=True)


def adan_gpt2(table: TableResult) -> Table:
    """The share of time as published, as computed from the published times, and as measured here."""
    made = time_table(table)[0]
    mine = {tuple(text[:3]): row for text, row in zip(made.texts, made.rows, strict=True)}
    shares = [made.header.index(f"{FUSED} / {base} %") for base in (ADAM, ADAM_FUSED)]
    rows: list[list[Cell]] = []
    for row in ADAN_GPT2:
        place = (row.heads, row.layers, row.width)
        true = 100 * float(row.adan_ms) / float(row.adam_ms)
        ours = mine[tuple(map(str, place))]
        printed = [Number(value) for value in (*place, row.millions, float(row.printed_percent), true)]
        rows.append([*printed, *(ours[at] for at in shares)])
    columns = [
        *PLACE,
        Column("printed %", unit="%", digits=1),
        Column("from its cells %", unit="%", digits=1),
        Column("here %", unit="%"),
        Column("here, both fused %", unit="%"),
    ]
    return Table("FusedAdan / Adam in %, published and here", columns, rows, detail=True)
