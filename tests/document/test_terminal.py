"""Every block has its place in a terminal, and no width hides a word or a number."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console

from fallline.document.blocks import Document, Paragraph, Table, Verdict
from fallline.document.cells import Column, Mark, Number, Text
from fallline.document.terminal import plain, show
from tests.document import DOCUMENT, MAP, TABLE

EXPECTED = """\
A race
Two contestants.

a race
       time to  ms per  studies
name    target    step  reached          range     bytes
adamw   10.8 s    26.9   3 of 3  10.10 to 10.80  8 → 2.03
a|b          –  0.33 !   0 of 3       9.50 to –        ~4

winner
 size  1     2
  100  a 3×  tie
20000  !

lr: 0.1
note: the machine was busy

x = 1
y = 2

Take adamw. (data 3ff3f2eeb0 in r.sqlite)
"""


def test_blocks_in_their_order() -> None:
    shown = plain(DOCUMENT, 100)
    assert [" ".join(line.split()) for line in shown.splitlines()] == [
        " ".join(line.split()) for line in EXPECTED.splitlines()
    ]
    assert not any(line.endswith(" ") for line in shown.splitlines())


def test_quiet_leaves_details_out() -> None:
    shown = plain(DOCUMENT.brief(), 100)
    assert "busy" not in shown and "lr" not in shown and "winner" not in shown
    assert "adamw" in shown and shown.endswith("in r.sqlite)\n")


@pytest.mark.parametrize("width", [14, 20, 30, 45])
def test_a_table_is_cut_between_columns_and_every_piece_names_its_rows(width: int) -> None:
    lines = plain(Document([TABLE]), width).splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert set(words) >= {word for row in TABLE.texts for cell in row for word in cell.split()}
    assert sum(line.startswith("adamw") for line in lines) == sum(line.startswith("a|b") for line in lines) > 1


PROSE = Table(
    "",
    (
        Column("name", align="left", key=True),
        Column("what it is", align="left", prose=True),
        Column("states", align="left", prose=True),
        Column("bytes"),
    ),
    ((Text("adamw"), Text("Adam with weight decay apart from the gradient"), Text("exp_avg exp_avg_sq"), Number(8)),),
)


def test_prose_is_wrapped_where_there_is_some_room() -> None:
    lines = plain(Document([PROSE]), 64).splitlines()
    assert max(map(len, lines)) <= 64 and lines[0].split()[0] == "name"
    assert lines[1].split()[-1] == "8" and "gradient" in lines[2], "the text goes on below, the number does not"


def test_rows_become_paragraphs_where_prose_has_no_room() -> None:
    assert plain(Document([PROSE]), 30).splitlines() == [
        "adamw",
        "Adam with weight decay apart",
        "from the gradient",
        "states: exp_avg exp_avg_sq",
        "bytes: 8",
    ]


def test_headings_keep_the_lines_that_their_authors_chose() -> None:
    columns = (Column("name", align="left", key=True), Column("a long\nheading", digits="whole"))
    lines = plain(Document([Table("", columns, [(Text("x"), Number(1))])]), 13).splitlines()
    assert [line.split() for line in lines[:2]] == [["a", "long"], ["name", "heading"]]


def test_marks_and_winners_are_coloured_in_a_terminal_only() -> None:
    marked = Table("", (Column("n", digits="whole"),), [[Number(1, mark=Mark.FASTEST)], [Number(2)]])
    text = io.StringIO()
    show(Document([marked, MAP]), Console(file=text, force_terminal=True, color_system="standard", width=80))
    assert "\x1b[1m1" in text.getvalue() and "\x1b[1;32ma 3×" in text.getvalue()
    assert "\x1b" not in plain(Document([marked, MAP]), 80)


def test_a_table_without_rows_shows_its_title_alone() -> None:
    assert plain(Document([dataclasses.replace(TABLE, rows=())]), 80) == "a race\n"


def test_sentences_wrap_and_snippets_do_not() -> None:
    from fallline.document.blocks import Snippet

    long = "word " * 10
    lines = plain(Document([Paragraph(long), Snippet(long.strip()), Verdict(long)]), 20).splitlines()
    assert long.strip() in lines and max(len(line) for line in lines if line != long.strip()) <= 20
