"""One document of a page: its answer, its first table, its figures, further tables, notes, and provenance."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fallline.document.blocks import (
    Block,
    Document,
    Heading,
    Note,
    Paragraph,
    Provenance,
    Snippet,
    Table,
    Verdict,
    bars_table,
    map_table,
)
from fallline.document.csv import csv_text
from fallline.document.figures import Chart, Figure, HeatMap, Panels, StackedBars
from fallline.document.html.bars import bars_figure
from fallline.document.html.charts import chart_figure
from fallline.document.html.descriptions import description
from fallline.document.html.fragment import sentence
from fallline.document.html.maps import map_figure
from fallline.document.html.stills import STILLS, still
from fallline.document.html.tables import table_element
from fallline.document.html.tags import element, file_name, opening, prose, text

FEW_ROWS = 4
"""A table with fewer rows needs no filter."""
LONG = 110
"""Characters of a verdict from which on it is no headline."""


class Islands:
    """The data of all figures and tables of a page, by the names that their elements have."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, Any]] = {}
        self.tables: dict[str, dict[str, str]] = {}

    def data(self) -> dict[str, Any]:
        return {"figures": self.figures, "tables": self.tables}


def section(identity: str, kind: str, document: Document, islands: Islands) -> str:
    blocks = [*document.blocks, *document.appendix]
    tables = [block for block in blocks if isinstance(block, Table) and block.rows]
    figures = [block for block in blocks if isinstance(block, Figure)]
    names = (f"{identity}-{number}" for number in itertools.count())
    parts = [_answer(kind, document.blocks)]
    parts += [_table(next(names), table, islands) for table in tables[:1]]
    parts += [_place(next(names), place, islands) for place in _places(figures)]
    parts += [_table(next(names), table, islands) for table in tables[1:]]
    parts += [_notes(document.blocks), _provenance(document.provenance)]
    return element("article", "".join(parts), id=identity, class_="result")


# ------------------------------------------------------------------ sentences


def _answer(kind: str, blocks: Sequence[Block]) -> str:
    """The verdict on top, then what was asked and code to paste."""
    first, *others = [verdict.text for verdict in verdicts(blocks)] or [""]
    parts = [element("p", text(kind), class_="kind")]
    parts += [element("h2", prose(first), class_="long" if len(first) > LONG else None)] if first else []
    parts += [element("p", prose(line)) for line in others]
    asked = [block for block in blocks if _is_sentence(block) and not block.detail]
    parts += [element("div", "".join(map(sentence, asked)), class_="asked")] if asked else []
    parts += [_snippet(block) for block in blocks if isinstance(block, Snippet)]
    return element("section", "".join(parts), class_="answer")


def verdicts(blocks: Sequence[Block]) -> list[Verdict]:
    """The headline, then the others as they stand."""
    return sorted((block for block in blocks if isinstance(block, Verdict)), key=lambda one: not one.headline)


def _is_sentence(block: Block) -> bool:
    return isinstance(block, (Heading, Paragraph, Note))


def _snippet(block: Snippet) -> str:
    code = element("pre", element("code", text(block.text)), tabindex="0")
    tools = element("button", "Copy", type="button", class_="tool copy")
    return element("div", code + tools, class_="snippet")


def _notes(blocks: Iterable[Block]) -> str:
    said = [block for block in blocks if _is_sentence(block) and block.detail]
    if not said:
        return ""
    items = "".join(element("li", sentence(block)) for block in said)
    return element("section", element("h3", "Notes") + element("ul", items), class_="notes")


def _provenance(provenance: Provenance) -> str:
    facts = [("data", provenance.data), ("file", provenance.file), ("machine", provenance.machine), *provenance.facts]
    rows = "".join(element("dt", text(name)) + element("dd", text(value)) for name, value in facts if value)
    if not rows:
        return ""
    return element("section", element("h3", "Where this comes from") + element("dl", rows), class_="provenance")


# ------------------------------------------------------------------ tables


def _table(identity: str, table: Table, islands: Islands) -> str:
    name = table.name or table.title or "Table"
    islands.tables[identity] = {"name": file_name(name), "csv": csv_text(Document([table]))}
    tools = ""
    if len(table.rows) >= FEW_ROWS:
        tools = opening("input", type="search", placeholder="Filter", aria_label=f"Filter the rows of {name}")
        tools += element("span", "", class_="count", role="status")
    tools += element("button", "CSV", type="button", class_="tool csv", aria_label=f"Save {name} as CSV")
    head = element("h3", text(name), id=f"{identity}-name") + element("div", tools, class_="tools")
    around = element(
        "div",
        table_element(table, identity),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_labelledby=f"{identity}-name",
    )
    return element("section", element("div", head, class_="bar") + around, class_="block table")


# ------------------------------------------------------------------ figures


def _places(figures: Iterable[Figure]) -> Iterator[list[Figure]]:
    """Figures that stand in one place; those without a place have one each."""
    numbers = itertools.count()
    return (list(group) for _, group in itertools.groupby(figures, lambda one: _place_of(one) or next(numbers)))


def _place_of(figure: Figure) -> str:
    return figure.place if isinstance(figure, Chart) else ""


def _view_of(figure: Figure) -> str:
    return figure.view if isinstance(figure, Chart) else ""


def _place(identity: str, figures: Sequence[Figure], islands: Islands) -> str:
    if len(figures) == 1:
        return _figure(identity, figures[0], islands)
    names = [f"{identity}-{at}" for at in range(len(figures))]
    tabs = "".join(
        element(
            "button", text(_view_of(figure)), type="button", role="tab", id=f"{name}-tab", aria_controls=f"{name}-panel"
        )
        for name, figure in zip(names, figures, strict=True)
    )
    panels = "".join(
        element(
            "div", _figure(name, figure, islands), role="tabpanel", id=f"{name}-panel", aria_labelledby=f"{name}-tab"
        )
        for name, figure in zip(names, figures, strict=True)
    )
    return element("div", tabs, class_="tabs views", role="tablist", aria_label=_place_of(figures[0])) + panels


def _made(figure: Chart | HeatMap | StackedBars) -> dict[str, Any]:
    if isinstance(figure, HeatMap):
        return map_figure(figure)
    return bars_figure(figure) if isinstance(figure, StackedBars) else chart_figure(figure)


def _figure(identity: str, figure: Figure, islands: Islands) -> str:
    if isinstance(figure, STILLS):
        return still(figure)
    if isinstance(figure, Panels):
        return _panels(identity, figure, islands)
    is_map = isinstance(figure, HeatMap)
    made = _made(figure)
    title, caption = (figure.caption or figure.title, "") if is_map else (figure.title, figure.caption)
    islands.figures[identity] = {**made, "name": file_name(figure.name), "title": title}
    saves = "".join(
        element("button", form.upper(), type="button", class_="tool save", data_form=form, aria_label=label)
        for form in ("png", "svg", "csv")
        for label in [f"Save {title} as {form.upper()}"]
    )
    head = element("h3", text(title)) + element("div", saves, class_="tools")
    caption = element("p", text(caption), class_="caption") if caption else ""
    hint = element("p", "Bands are shown for six lines at most.", class_="caption hint", hidden="")
    legend = element("div", "", class_="legend", role="group", aria_label=f"Shown in {title}")
    plot = element("div", "", class_="plot", id=identity, role="img", aria_label=description(figure))
    table = ""
    if not isinstance(figure, Chart):
        shown = map_table(figure) if isinstance(figure, HeatMap) else bars_table(figure)
        table = element("summary", "The same as a table") + table_element(shown)
        table = element("details", table, class_="scroll")
    inner = element("div", head, class_="bar") + caption + hint + legend + plot + table
    return element("section", inner, class_="block figure")


def _panels(identity: str, figure: Panels, islands: Islands) -> str:
    """Its charts beside each other where there is room, each with a legend of its own."""
    caption = element("p", text(figure.caption), class_="caption") if figure.caption else ""
    charts = "".join(_figure(f"{identity}-{at}", chart, islands) for at, chart in enumerate(figure.charts))
    inner = element("h3", text(figure.title)) + caption + element("div", charts, class_="panels")
    return element("section", inner, class_="block")
