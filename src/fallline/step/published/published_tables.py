"""Our results beside a published table."""

from __future__ import annotations

from fallline.step.analyse import TableResult
from fallline.step.layout import Table
from fallline.step.published.adan_tables import time_table
from fallline.step.published.presets import ADAM, ADAM_FUSED, FUSED
from fallline.step.published.sources import ADAN_GPT2, Grid, agreement, rows_of, winner


def grid(table: TableResult, published: Grid) -> Table:
    """The winners of both, cell by cell."""
    ours = {(row.cell.tensors, row.cell.size): row.verdict() for row in table.decided if row.cell.size is not None}
    same, common = agreement(ours, published)
    rows = []
    for key in rows_of(published):
        if key in ours:
            theirs = winner(published[key])
            agrees = "" if theirs in ours[key].split(" = ") else "differs"
            rows.append([str(key[0]), str(key[1]), theirs, ours[key], agrees])
    title = f"winners, published and here: the same in {same} of {common} cells ({table.title})"
    return Table(title, ["tensors", "size", "published", "here", ""], rows, 0, keys=2)


def adan_gpt2(table: TableResult) -> Table:
    """The share of time as published, as it follows from the published times, and ours."""
    made = time_table(table)[0]
    mine = {tuple(row[:3]): row for row in made.rows}
    shares = [f"{FUSED} / {base} %" for base in (ADAM, ADAM_FUSED)]
    rows = []
    for row in ADAN_GPT2:
        key = (str(row.heads), str(row.layers), str(row.width))
        true = 100 * float(row.adan_ms) / float(row.adam_ms)
        rows.append(
            [
                *key,
                str(row.millions),
                row.printed_percent,
                f"{true:.1f}",
                *(mine[key][made.header.index(name)] for name in shares),
            ]
        )
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
    return Table("FusedAdan / Adam in %, published and here", header, rows, 0, keys=4)
