"""Stacked bars in a terminal, in Markdown and in a picture show the same sections and sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fallline.document import picture
from fallline.document.blocks import Document, bars_table
from fallline.document.drawing.bars import draw_bars
from fallline.document.figures import Bar, Mark, Part, StackedBars
from fallline.document.markdown import markdown
from fallline.document.stacked import lines
from fallline.document.terminal import plain

HERE = Bar("here", [Part("weights", 3.0), Part("states", 6.0), Part("rest", 0.5)])
THERE = Bar("there", [Part("weights", 1.0), Part("buffers", 2.0)])
LIMITS = [Mark(8.0, "8 GB"), Mark(80.0, "80 GB")]
ONE = StackedBars("memory", "Memory", "GB", [HERE], LIMITS, caption="An example.")
TWO = StackedBars("memory", "Memory", "GB", [HERE, THERE], LIMITS)


def drawn(line: str) -> tuple[int, int]:
    """First and last column of the blocks in a line."""
    cells = [at for at, sign in enumerate(line) if sign in "█▏▎▍▌▋▊▉"]
    return min(cells), max(cells)


def test_each_section_begins_where_the_last_one_ended() -> None:
    weights, states, rest, _, _ = lines(ONE, 80)
    assert 0 <= drawn(states)[0] - drawn(weights)[1] <= 1
    assert 0 <= drawn(rest)[0] - drawn(states)[1] <= 1
    assert drawn(states)[1] - drawn(states)[0] == pytest.approx(2 * (drawn(weights)[1] - drawn(weights)[0]), abs=2)


def test_a_limit_stands_below_its_size_and_one_out_of_reach_is_left_out() -> None:
    *_, total, names = lines(ONE, 80)
    weights, _, rest, *_ = lines(ONE, 80)
    first, last = drawn(weights)[0], drawn(rest)[1]
    assert (total.index("╎") - first) / (last - first) == pytest.approx(8.0 / 9.5, abs=0.03)
    assert "8 GB" in names and "80 GB" not in names


def test_several_bars_have_a_line_each_and_a_legend() -> None:
    here, there, _, _, legend = lines(TWO, 80)
    assert here.startswith("here  9.50 GB") and there.startswith("there 3.00 GB")
    assert here.count("█") == pytest.approx(3 * there.count("█"), abs=2)
    assert [entry.split()[1] for entry in legend.split("   ")] == ["weights", "states", "rest", "buffers"]


def test_no_width_makes_a_bar_of_nothing() -> None:
    empty = StackedBars("memory", "Memory", "GB", [Bar("here", [Part("weights", 0.0)])])
    assert lines(empty, 10)[0].split() == ["weights", "0", "GB"]
    for width in (1, 20, 40, 200):
        assert all(len(line) >= 10 for line in lines(ONE, width)[:3])


def test_terminal_and_markdown_show_title_sections_and_sum() -> None:
    text = plain(Document([ONE]), 80)
    assert text.startswith("Memory\n") and text.endswith("An example.\n") and "in all" in text
    table = bars_table(TWO)
    assert table.texts[-1] == ["in all", "9.50", "3.00"] and table.texts[1] == ["states", "6.00", "0"]
    assert "| in all | 9.50 | 3.00 |" in markdown(Document([TWO]))


def test_a_picture_has_every_section_its_size_and_its_limits(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    made: Any = Figure().add_subplot()
    draw_bars(made, TWO)
    heights = [patch.get_height() for patch in made.patches]
    assert heights == [3.0, 6.0, 0.5, 1.0, 2.0]
    assert made.patches[0].get_facecolor() == made.patches[3].get_facecolor(), "one name, one colour"
    texts = {text.get_text() for text in made.texts}
    assert {"3.00", "6.00", "9.50 GB", "3.00 GB", "8 GB"} <= texts and "80 GB" not in texts
    assert [text.get_text() for text in made.get_legend().get_texts()] == ["buffers", "rest", "states", "weights"]
    picture.save([ONE, TWO], tmp_path / "bars.svg")
    assert "<svg" in (tmp_path / "bars.svg").read_text()
