"""Figures are drawn from their data alone, the same data to the same file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from fallline.document import picture
from fallline.document.drawing.inks import line_style
from fallline.document.drawing.lines import draw_chart
from fallline.document.drawing.map import HATCH, draw_map
from fallline.document.figures import Axis, Chart, Mark, Series
from tests.document import CHART, DOCUMENT, MAP

pytest.importorskip("matplotlib")


def axes() -> Any:
    from matplotlib.figure import Figure

    return Figure().add_subplot()


def test_every_figure_of_a_document_gets_two_files(tmp_path: Path) -> None:
    written = picture.save_all(DOCUMENT.figures, tmp_path / "figures")
    assert [path.name for path in written] == ["winners.png", "winners.svg", "curve.png", "curve.svg"]
    assert written[0].read_bytes().startswith(b"\x89PNG") and "<svg" in written[1].read_text()


def test_a_chart_has_its_lines_bands_axes_and_ticks() -> None:
    made = axes()
    band = Series("b", [0, 1, 2], [0, 0.5, 1], low=[0, 0.4, 0.9], high=[0, 0.6, 1.1])
    ticks = Axis("share", -0.01, 1.01, {0.0: "0/2", 0.5: "1/2", 1.0: "2/2"})
    draw_chart(made, Chart("c", "A title", Axis("x", 0, 2), ticks, [*CHART.series, band]))
    assert [line.get_label() for line in made.get_lines()] == ["a", "b"]
    assert made.get_lines()[1].get_xydata().tolist() == [[0, 0], [1, 0.5], [2, 1]]
    assert len(made.collections) == 1, "one series has a band"
    assert made.get_xlim() == (0, 2) and made.get_ylim() == (-0.01, 1.01)
    assert [text.get_text() for text in made.get_yticklabels()] == ["0/2", "1/2", "2/2"]
    assert made.get_xlabel() == "x" and made.get_title(loc="left") == "A title"


def test_a_chart_has_its_caption_its_marks_the_ends_of_lines_and_a_logarithmic_axis() -> None:
    made = axes()
    arrived = Series("a", [0, 1], [9.0, 2.0], ends=True)
    chart = Chart(
        "c", "A title", Axis("x", 0, 2), Axis("loss", 1, 10, log=True), [arrived, Series("b", [0, 2], [9.0, 3.0])],
        caption="median of 3 studies", marks=[Mark(2.0, "target 2")],
    )  # fmt: skip
    draw_chart(made, chart)
    assert {text.get_text() for text in made.texts} == {"median of 3 studies", "target 2"}
    assert made.get_yscale() == "log" and made.get_xscale() == "linear" and made.get_ylim() == (1, 10)
    dots = [line for line in made.get_lines() if line.get_marker() == "o"]
    assert [dot.get_xydata().tolist() for dot in dots] == [[[1, 2.0]]], "only of the one that has arrived"
    assert [text.get_text() for text in made.get_legend().get_texts()] == ["a", "b"]
    assert any(set(line.get_ydata()) == {2.0} and len(line.get_ydata()) == 2 for line in made.get_lines())


def test_steps_hold_their_value_until_the_next_point() -> None:
    made = axes()
    draw_chart(made, CHART)
    assert made.get_lines()[0].get_drawstyle() == "steps-post"


def test_tiles_have_words_and_what_was_set_aside_is_hatched() -> None:
    made = axes()
    draw_map(made, MAP)
    assert [text.get_text() for text in made.texts] == ["a 3×\n1 ms", "tie", ""]
    assert [patch.get_hatch() for patch in made.patches] == [None, None, HATCH, None]
    assert [text.get_text() for text in made.get_yticklabels()] == ["100", "20,000"]


def test_of_44_lines_no_two_look_alike() -> None:
    styles = [line_style(index) for index in range(44)]
    assert len({(style["color"], style["linestyle"]) for style in styles}) == 44
    assert len({style["color"] for style in styles[:11]}) == 11


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    assert not picture.available()
    with pytest.raises(picture.FiguresUnavailable, match="pip install"):
        picture.save([MAP], tmp_path / "map.png")
