"""A page in one file: complete, harmless whatever names are in it, and without a network."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import html.parser
import json
import re
import struct
from typing import Any

import pytest

from fallline.document.blocks import Document, Paragraph, Snippet, Table, Verdict
from fallline.document.cells import Cell, Column, Missing, Number, Text
from fallline.document.figures import Axis, Bar, Chart, HeatMap, Mark, Part, Series, StackedBars, Tile
from fallline.document.html.bars import bars_figure
from fallline.document.html.charts import chart_figure
from fallline.document.html.descriptions import description
from fallline.document.html.fragment import fragment
from fallline.document.html.library import available, library
from fallline.document.html.page import Section, content, page
from fallline.document.html.tags import island
from tests.document import CHART, DOCUMENT, MAP

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\"'&lt;"
"""A name that would be code in a page that does not escape it."""

needs_library = pytest.mark.skipif(not available(), reason="plotly is not installed")


class Elements(html.parser.HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def data_of(page: str) -> dict[str, Any]:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return dict(json.loads(found))


def hostile() -> Document:
    table = Table(HOSTILE, [Column(HOSTILE, key=True)], [[Text(HOSTILE, note=HOSTILE)]])
    chart = Chart(
        HOSTILE,
        HOSTILE,
        Axis(HOSTILE, 0, 1),
        Axis(HOSTILE, 0, 1, {0.0: HOSTILE}),
        [Series(HOSTILE, [0, 1], [0, 1])],
        caption=HOSTILE,
        marks=[Mark(0.5, HOSTILE)],
    )
    tiles = {(HOSTILE, HOSTILE): Tile(HOSTILE, HOSTILE, caption=HOSTILE)}
    heat = HeatMap(HOSTILE, HOSTILE, HOSTILE, HOSTILE, [HOSTILE], [HOSTILE], tiles, [HOSTILE])
    sentences = (Paragraph(HOSTILE, lead=HOSTILE), Snippet(HOSTILE), Verdict(HOSTILE))
    found = dataclasses.replace(DOCUMENT.provenance, file=HOSTILE, facts=[(HOSTILE, HOSTILE)])
    return Document((table, chart, heat, *sentences), found)


@needs_library
def test_names_with_html_in_them_are_text() -> None:
    made = page(HOSTILE, [Section(HOSTILE, HOSTILE, hostile()), Section("b", "b", hostile())])
    elements = Elements(made)
    assert not elements.of("img") and len(elements.of("script")) == 3
    assert all(not name.startswith("on") for _, attributes in elements.found for name in attributes)
    assert HOSTILE in elements.words
    assert data_of(made)["figures"]["s0-1"]["series"][0]["name"] == HOSTILE
    assert Elements(fragment(hostile())).of("img") == []


def test_text_that_the_library_draws_has_no_tags() -> None:
    figure = chart_figure(hostile().figures[0])  # type: ignore[arg-type]
    drawn = [figure["traces"][0]["name"], *(one["text"] for one in figure["layout"]["annotations"])]
    drawn += [*figure["layout"]["yaxis"]["ticktext"], figure["layout"]["xaxis"]["title"]["text"]]
    assert all("<" not in words and "&lt;/script&gt;" in words for words in drawn)


def test_an_island_cannot_be_left() -> None:
    written = island("data", {"a": HOSTILE})
    assert written.count("<") == 2 and "\u2028" not in written
    assert json.loads(written.partition(">")[2].rpartition("<")[0]) == {"a": HOSTILE}


@needs_library
def test_only_the_scripts_of_the_page_may_run_and_nothing_is_asked_of_a_network() -> None:
    made = page("a", [Section("a", "Race", DOCUMENT)])
    elements = Elements(made)
    policy = next(one["content"] or "" for one in elements.of("meta") if "content" in one and "http-equiv" in one)
    (own,) = re.findall(r"<script>(.*?)</script>", made, re.DOTALL)
    (packed,) = re.findall(r'id="library">(.*?)</script>', made, re.DOTALL)
    scripts = [own.encode(), gzip.decompress(base64.b64decode(packed))]
    digests = [base64.b64encode(hashlib.sha256(script).digest()).decode() for script in scripts]
    assert f"script-src 'sha256-{digests[0]}' 'sha256-{digests[1]}'" in policy
    assert "default-src 'none'" in policy and "connect-src 'none'" in policy
    assert not [one for _, one in elements.found if {"src", "href", "action"} & set(one)]


def test_a_page_without_figures_needs_no_library() -> None:
    tables = Document([block for block in DOCUMENT.blocks if isinstance(block, Table)])
    made = page("a", [Section("a", "Race", tables)])
    assert len(made) < 60_000 and 'id="library"></script>' in made


@needs_library
def test_the_library_is_in_the_page_once() -> None:
    made = page("a", [Section("a", "Race", DOCUMENT), Section("b", "Race", DOCUMENT)])
    assert made.count(library().compressed) == 1
    assert library().compressed not in content("a", [Section("a", "Race", DOCUMENT)])


def test_the_verdict_comes_first_and_the_source_last() -> None:
    words = Elements(content("a", [Section("a", "Race", DOCUMENT)])).words
    places = [words.index(part) for part in ("Take adamw.", "Two contestants.", "10.8 s", "the machine was busy")]
    assert places == sorted(places) and words.index("r.sqlite") > places[-1]


def test_cells_carry_their_values_to_sort_by() -> None:
    elements = Elements(content("a", [Section("a", "Race", DOCUMENT)]))
    values = [one.get("data-value") for one in elements.of("td") if one.get("class") == "number"]
    assert values[:3] == ["10.78", "26.912", "3"] and None in values, "what is missing has no value"


def test_a_table_with_sentences_has_labels_for_cards_and_says_that_it_is_a_table() -> None:
    columns = [
        Column("change", align="left", key=True, prose=True),
        Column("saves\nGB", unit="GB", digits="three"),
        Column("cost", align="left", prose=True),
    ]
    rows: list[list[Cell]] = [[Text("int8"), Number(9.3), Text("nothing")], [Text("lion"), Missing(), Text("tuning")]]
    table = Table("t", columns, rows)
    elements = Elements(content("a", [Section("a", "Memory", Document([table]))]))
    roles = [one["role"] for tag, one in elements.found if tag in ("table", "thead", "tbody", "tr", "th", "td")]
    assert roles[:3] == ["table", "rowgroup", "row"] and roles[3:6] == ["columnheader"] * 3
    assert roles[-4:] == ["row", "rowheader", "cell", "cell"]
    labels = [(one.get("data-label"), one.get("data-unit")) for one in elements.of("td")]
    assert labels == [("saves", "GB"), ("cost", None), ("saves", None), ("cost", None)]
    plain = dataclasses.replace(table, columns=[dataclasses.replace(column, prose=False) for column in columns])
    assert "data-label" not in content("a", [Section("a", "Memory", Document([plain]))])


def test_every_figure_has_its_numbers_and_a_description() -> None:
    data = data_of(content("a", [Section("a", "Race", DOCUMENT)]))
    (chart,) = [figure for figure in data["figures"].values() if figure["kind"] == "chart"]
    packed = chart["traces"][0]["y"]["bdata"]
    assert base64.b64decode(packed) == struct.pack("<3d", 0.0, 1.0, 1.0)
    assert description(CHART) == "A curve. Step functions of y against x. a: from 0 at 0 to 1 at 2."
    assert description(MAP).endswith("A map of size by tensors: a wins 1 tile, 1 tie, 1 set aside.")


def test_a_band_is_two_lines_with_the_space_between_filled() -> None:
    band = Series("a", [0, 1], [1, 2], [0, 1], [2, 3])
    figure = chart_figure(dataclasses.replace(CHART, series=[band, Series("b", [0, 1], [1, 1])]))
    assert [trace.get("fill") for trace in figure["traces"]] == [None, "tonexty", None, None]
    assert [(one["line"], one["band"]) for one in figure["series"]] == [(2, [0, 1]), (3, None)]
    colours = [figure["traces"][at]["line"]["color"] for at in (2, 3)]
    assert colours == ["@series-1", "@series-2"]


def test_stacked_bars_have_a_trace_for_each_section_and_a_table() -> None:
    bars = [Bar("adamw", [Part("weights", 2.0), Part("states", 4.0)]), Bar("<lion>", [Part("weights", 2.0)])]
    stacked = StackedBars("memory", "Memory", "MB", bars, [Mark(5.0, "5 MB"), Mark(500.0, "far away")])
    figure = bars_figure(stacked)
    assert [(trace["x"], trace["name"]) for trace in figure["traces"]] == [
        ([2.0, 2.0], "weights"),
        ([4.0, 0], "states"),
    ]
    assert figure["traces"][0]["y"] == ["adamw", "&lt;lion&gt;"]
    assert [shape["x0"] for shape in figure["layout"]["shapes"]] == [5.0]
    words = Elements(content("a", [Section("a", "Memory", Document([stacked]))])).words
    assert "<lion>" in words and "in all" in words
    assert description(stacked).startswith("Memory. adamw, 6.00 MB: weights 2.00, states 4.00.")


def test_figures_of_one_place_are_tabs() -> None:
    charts = [dataclasses.replace(CHART, place="curves", view=view) for view in ("by steps", "by <seconds>")]
    elements = Elements(content("a", [Section("a", "Race", Document([*charts, CHART]))]))
    assert len([one for one in elements.of("button") if one.get("role") == "tab"]) == 2
    assert len([one for one in elements.of("div") if one.get("role") == "tabpanel"]) == 2
    assert "by <seconds>" in elements.words


def test_tables_of_the_appendix_are_on_the_page_alone() -> None:
    from fallline.document.markdown import markdown

    made = Document([Verdict("a")], appendix=[Table("pairs", [Column("first")], [[Text("adan")]])])
    assert "adan" in content("a", [Section("a", "Race", made)]) and "adan" not in markdown(made)
