"""Tables have the published layout, and percentages that follow from their cells."""

from __future__ import annotations

import csv
import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest

from fallline.document.blocks import Document, Table
from fallline.document.cells import Column, Text
from fallline.document.csv import csv_text
from fallline.document.markdown import markdown
from fallline.document.picture import save
from fallline.document.terminal import plain
from fallline.measure.gates import wrong_percentages
from fallline.step.analyse import analyse
from fallline.step.heatmap import heat_map
from fallline.step.plan import Conditions
from fallline.step.published import adan_tables
from fallline.step.published.claims import adan_claims, adan_costs
from fallline.step.published.presets import CONFIGURATIONS, adan_gpt2
from fallline.step.published.sources import ADAM_GRID, ADAN_GPT2, BadTable, agreement, read_grid
from fallline.step.tables import as_data, speeds, times
from fallline.step.tables import records as all_records
from tests.step.records import plan_of, record, records, slower_than_the_probe

CLEAR = {"compiled": 3.0, "eager": 6.0, "fused": 1.1}
ADAN = {"Adam": 5.0, "Adam fused": 1.0, "Adan loop": 20.0, "Adan multi": 18.0, "fused loop": 1.5, "fused multi": 1.4}


def memory() -> dict[str, dict[str, Any]]:
    """Adan's two more states, and activations that hide them in the seed-like figure."""
    found = {}
    for config in CONFIGURATIONS:
        held = config.parameters * 4
        for label, states in (("Adam", 2), ("FusedAdan", 4)):
            found[f"modelled {config.name} {label}"] = {
                "seed_like": max(12 * held, (2 + states) * held),
                "true": (12 + states) * held,
                "states": states * held,
                "step_extra": 0,
            }
    return found


def adan_result(noise: float = 0.03) -> Any:
    plan = adan_gpt2(Conditions(threads=(2,)))
    given = [record(c, {n: f * 36 * c.elements / 40e9 for n, f in ADAN.items()}, noise=noise) for c in plan.cells]
    return analyse(plan, given)[0]


def test_published_layout_in_markdown() -> None:
    plan = plan_of([1, 2], [65536, 1048576])
    (table,) = analyse(plan, records(plan, slower_than_the_probe(CLEAR)))
    made = times(table, exact=True)
    lines = markdown(Document([made])).splitlines()
    assert lines[2] == (
        "| Parameters | Parameter Size | `compiled_single_tensor_adam` (ms/iter) | `_single_tensor_adam` (ms/iter) "
        "| `_fused_adam` (ms/iter) |"
    )
    assert [row[:2] for row in made.texts] == [["1", "65536"], ["2", "65536"], ["1", "1048576"], ["2", "1048576"]]
    assert all(len(cell.partition(".")[2]) == 4 for row in made.texts for cell in row[2:])


def test_speeds_show_the_fraction_of_the_limit() -> None:
    plan = plan_of([1], [65536, 1048576])
    (table,) = analyse(plan, records(plan, slower_than_the_probe(CLEAR)))
    shown = speeds(table)
    assert all("(0." in cell for row in shown.texts for cell in row[2:-1])
    assert shown.header[-1] == "limit GB/s"


def test_every_number_names_its_record() -> None:
    plan = plan_of([1], [65536])
    (table,) = analyse(plan, records(plan, slower_than_the_probe(CLEAR)))
    rows = list(csv.DictReader(io.StringIO(csv_text(Document([], records=all_records([table]))))))
    assert {row["record"] for row in rows} == {plan.cells[0].key}
    assert as_data(table)["rows"][0]["record"]["key"] == plan.cells[0].key


def test_table_of_adan_has_all_rows_and_true_percentages() -> None:
    made, wrong = adan_tables.time_table(adan_result())
    assert len(made.rows) == 25 and wrong == []
    assert [row[:4] for row in made.texts] == [
        [str(r.heads), str(r.layers), str(r.width), str(r.millions)] for r in ADAN_GPT2
    ]
    assert "MB" not in " ".join(made.header)
    measured = [row for row in made.texts if adan_tables.MODELLED not in row[4]]
    assert len(measured) == 14  # up to 250 M parameters; the rest is marked
    printed = [(row[0], row[9], row[4], row[10]) for row in measured]
    assert wrong_percentages(printed) == []
    assert all(pytest.approx(float(row[10]), abs=3) == 100 * 1.4 / 5.0 for row in measured)


@pytest.mark.parametrize("noise", [0.05, 0.1, 0.2])
def test_sentences_about_adan_have_the_percentages_of_the_table(noise: float) -> None:
    """Cells have few digits on a busy machine: of the samples the percentages would be others."""
    result = adan_result(noise)
    made, _ = adan_tables.time_table(result)
    ranges = []
    for heading in ("fused multi / Adam %", "fused multi / Adam fused %"):
        shares = [float(row[made.header.index(heading)]) for row in made.texts if row[10] != "–"]
        ranges.append(f"{min(shares):.0f} to {max(shares):.0f} %")
    claimed = [a.number for a in adan_claims(result, memory()) if a.claim.startswith("FusedAdan takes")]
    assert [number.partition(" in ")[0] for number in claimed] == ranges
    cost = adan_costs(result, memory())
    assert cost is not None and all(one in cost for one in ranges)


def test_memory_table_has_two_figures() -> None:
    made = adan_tables.memory_table(memory())
    assert len(made.rows) == 25
    assert all(row[6] == "0.00" and float(row[9]) == pytest.approx(100 * 2 / 14, abs=0.1) for row in made.texts)
    assert all(cell.startswith(adan_tables.MODELLED) for cell in made.texts[0][4:6])


def test_claims_about_adan_are_answered_with_numbers() -> None:
    answers = {answer.claim: answer for answer in adan_claims(adan_result(), memory())}
    assert answers["the extra memory does not grow linearly with the model"].holds is False
    assert answers["in most cases there is no additional memory"].holds is False
    assert "25 of 25" in answers["in most cases there is no additional memory"].number
    assert answers["the additional memory does not exceed 15 %"].holds is True
    against_loop, against_fused = (a for claim, a in answers.items() if claim.startswith("FusedAdan takes"))
    assert against_loop.holds is True and against_fused.holds is False
    assert "does not hold here; 1" in against_fused.text()


def test_memory_of_a_step_stands_beside_its_own_shapes_only() -> None:
    """A file that is not finished may lack the shapes whose memory is known."""
    whole = adan_result()
    known = {f"step {CONFIGURATIONS[0].name} fused multi": {"step_extra": 2**20}}
    for rows, shapes, held in (
        (whole.rows, "6 layers × 768", "~1"),
        (whole.rows[::-1], "6 layers × 768", "~1"),
        (whole.rows[1:], "12 layers × 768", "–"),
    ):
        made = adan_tables.starts_table(dataclasses.replace(whole, rows=rows), known)
        assert shapes in made.title and made.texts[-1][-1] == held


def test_heads_are_noted_as_an_axis_without_work() -> None:
    assert any("heads does not change the work" in note for note in adan_tables.notes(memory()))


def test_published_table_beside_ours(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    lines = ["| Parameters | Parameter Size | `compiled_single_tensor_adam` (ms/iter) | other |", "|---|---|---|---|"]
    lines += [f"| {n} | {size} | {t['compiled']} | {t['fused']} |" for (n, size), t in ADAM_GRID.items()]
    path.write_text("\n".join(lines))
    found = read_grid(path)
    assert found[1, 16384] == {"compiled": 0.2226, "other": 2.0181}
    assert agreement({(1, 16384): "compiled", (32, 16384): "eager = fused"}, ADAM_GRID) == (2, 2)
    plain = tmp_path / "table.csv"
    plain.write_text("tensors,size,a,b\n1,10,0.5,0.6\n")
    assert read_grid(plain) == {(1, 10): {"a": 0.5, "b": 0.6}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hello", "no table"),
        ("a,b,c\n1,2,x\n", "row 2 of the table is not all numbers"),
        ("a,b,c\n1,2,-3\n", "not > 0"),
        (f"a,b,c\n1,2,{'9' * 200_000}\n", "cannot be read .*field larger than"),
    ],
)
def test_unreadable_tables_are_explained(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(BadTable, match=said):
        read_grid(path)


def test_heat_map_as_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plan = plan_of([1, 2], [65536, 1048576])
    tables = analyse(plan, records(plan, slower_than_the_probe(CLEAR)))
    drawn = [heat_map(table) for table in tables]
    save(drawn, tmp_path / "map.png", "data abc")
    save(drawn, tmp_path / "map.svg", "data abc")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "map.svg").read_text()
    assert drawn[0].tiles["1", "65536"].text.startswith("fused 2")


def test_a_long_tie_cuts_off_nothing_beside_it() -> None:
    plan = plan_of([1, 32], [65536])
    (table,) = analyse(plan, records(plan, slower_than_the_probe(CLEAR), rounds=5))
    text = plain(Document([times(table)]), 30)
    tie = text[text.rindex("winner") :].splitlines()[1:]
    assert tie[0].split()[:2] == ["1", "65536"], tie
    assert "".join("".join(line[16:].split()) for line in tie).count("fused=compiled=eager") == 2, tie


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_terminal_cuts_off_a_number(width: int) -> None:
    made, _ = adan_tables.time_table(adan_result())
    lines = plain(Document([made]), width).splitlines()
    assert all(len(line) <= width for line in lines)
    shown = " ".join(lines).split()
    assert "…" not in "".join(lines)
    assert set(shown) >= {cell for row in made.texts for cell in row}
    # Every piece says which row it is.
    pieces = sum(line.split()[:3] == ["heads", "layers", "width"] for line in lines)
    assert pieces == {60: 4, 80: 2, 120: 1}[width]
    assert sum(line.split()[:4] == ["16", "24", "2048", "1313"] for line in lines) == pieces


def test_headings_are_broken_only_where_there_is_no_room() -> None:
    columns = [Column("shapes", align="left", key=True), Column("time per step in all")]
    made = Document([Table("t", columns, [[Text("a"), Text("1")], [Text("b"), Text("2")]])])
    assert plain(made, 40).splitlines()[1].split() == ["shapes", "time", "per", "step", "in", "all"]
    narrow = plain(made, 20).splitlines()
    assert len(narrow) > 4 and max(map(len, narrow)) <= 20


def test_heat_map_in_a_terminal_of_80_columns() -> None:
    plan = plan_of([1, 2, 4, 8, 16, 32], [65536, 1048576])
    (table,) = analyse(plan, records(plan, slower_than_the_probe(CLEAR)))
    text = plain(Document([heat_map(table)]), 80)
    assert text.count("fused 2") == 12 and all(len(line) <= 80 for line in text.splitlines())
