"""A document with every kind of block."""

from __future__ import annotations

import math

from fallline.document.blocks import Document, Heading, Note, Paragraph, Provenance, Snippet, Table, Verdict
from fallline.document.cells import Cell, Change, Column, Mark, Missing, Number, Range, Text
from fallline.document.figures import Axis, Chart, HeatMap, Series, Tile

COLUMNS = (
    Column("name", align="left", key=True),
    Column("time to\ntarget", unit="s", digits="seconds"),
    Column("ms per\nstep", unit="ms", digits="supported"),
    Column("studies\nreached", digits="whole"),
    Column("range", digits=2),
    Column("bytes", unit="bytes"),
)


def row(name: str, *cells: Cell) -> tuple[Cell, ...]:
    return (Text(name), *cells)


TABLE = Table(
    "a race",
    COLUMNS,
    (
        row(
            "adamw", Number(10.78), Number(26.912, 26.7, 27.1), Number(3, of=3), Range(10.1, 10.8), Change(8.0, 2.03125)
        ),
        row(
            "a|b",
            Missing("no study reached it"),
            Number(1 / 3, 0.3, 0.4, Mark.SUSPECT),
            Number(0, of=3),
            Range(9.5, math.inf),
            Number(4.0, mark=Mark.MODELLED),
        ),
    ),
)
CHART = Chart("curve", "A curve", Axis("x", 0, 2), Axis("y", 0, 1), [Series("a", [0, 1, 2], [0, 1, 1])], steps=True)
MAP = HeatMap(
    name="winners",
    title="winner",
    x_label="tensors",
    y_label="size",
    columns=["1", "2"],
    rows=["100", "20000"],
    tiles={
        ("1", "100"): Tile("a 3×", "a", 3.0, caption="1 ms"),
        ("2", "100"): Tile("tie", tied=True),
        ("1", "20000"): Tile("!", set_aside=True),
    },
    contestants=["a", "b"],
)
DOCUMENT = Document(
    (
        Heading("A race"),
        Paragraph("Two contestants."),
        TABLE,
        MAP,
        CHART,
        Paragraph("0.1", lead="lr", detail=True),
        Note("the machine was busy"),
        Snippet("x = 1\ny = 2", "python"),
        Verdict("Take adamw.", "3ff3f2eeb0", "r.sqlite"),
    ),
    Provenance("3ff3f2eeb0", "r.sqlite", "a machine"),
)
