"""CSV and JSON have raw values: full precision, bounds, marks, reasons."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

from fallline.document.blocks import Document, Table
from fallline.document.cells import Column, Number, Text
from fallline.document.csv import csv_text
from fallline.document.json import json_text
from tests.document import DOCUMENT, TABLE


def rows(document: Document) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(document))))


def test_csv_has_every_number_of_a_cell_in_full() -> None:
    first, second = rows(DOCUMENT)
    assert first["ms per step [ms]"] == "26.912" and first["ms per step [ms], high"] == "27.1"
    assert (first["studies reached"], first["studies reached, of"]) == ("3", "3")
    assert (first["bytes [bytes]"], first["bytes [bytes], after"]) == ("8.0", "2.03125")
    assert float(second["ms per step [ms]"]) == 1 / 3 and second["ms per step [ms], mark"] == "suspect"
    assert second["time to target [s]"] == "" and second["bytes [bytes], mark"] == "modelled"
    assert (first["range"], second["range"]) == ("10.1 to 10.8", "9.5 to ")


def test_csv_of_several_tables_names_them() -> None:
    other = Table("other", (Column("name"), Column("x", unit="s")), [(Text("adamw"), Number(1.5))])
    found = rows(Document([TABLE, other]))
    assert [row["table"] for row in found] == ["a race", "a race", "other"]
    assert found[2]["x [s]"] == "1.5" and found[0]["x [s]"] == "" and found[2]["studies reached"] == ""


def test_csv_prefers_the_table_of_all_records() -> None:
    records = Table("", (Column("x", name="raw_x"),), [(Number(0.1 + 0.2),)])
    assert csv_text(dataclasses.replace(DOCUMENT, records=records)) == "raw_x\n0.30000000000000004\n"


def test_json_has_the_promised_result_or_every_block() -> None:
    assert json.loads(json_text(dataclasses.replace(DOCUMENT, result={"kept": [1]}))) == {"kept": [1]}
    data = json.loads(json_text(DOCUMENT))
    assert data["provenance"]["data"] == "3ff3f2eeb0"
    assert [block["kind"] for block in data["blocks"]] == [
        "heading", "paragraph", "table", "heatmap", "chart", "paragraph", "note", "snippet", "verdict",
    ]  # fmt: skip
    table = data["blocks"][2]
    assert table["columns"][2]["unit"] == "ms" and table["rows"][1][1] == {
        "kind": "missing",
        "reason": "no study reached it",
    }
    assert table["rows"][1][4]["high"] is None, "JSON has no infinity"
    assert data["blocks"][3]["tiles"]["1 × 100"]["winner"] == "a"


def test_rows_of_another_length_are_refused() -> None:
    try:
        Table("t", (Column("a"), Column("b")), [(Number(1),)])
    except ValueError as error:
        assert "'t' has 2 columns" in str(error)
    else:
        raise AssertionError("a row of one cell was taken")
