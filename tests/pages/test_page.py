"""The actions of a reader on a page: looks, sorts, filters, switches lines, changes tabs, saves, prints."""

from __future__ import annotations

import csv
import dataclasses
import io
import random
from pathlib import Path
from typing import Any

import pytest

from fallline.document.blocks import Document, Paragraph, Snippet, Table, Verdict
from fallline.document.cells import Column, Missing, Number, Range, Text
from fallline.document.figures import Axis, Chart, Mark, Series
from tests.document import DOCUMENT, MAP
from tests.document.test_html import HOSTILE, hostile
from tests.pages.conftest import Show, page_of

BOARD = Table(
    "",
    (
        Column("#", key=True, digits="whole"),
        Column("contestant", align="left", key=True),
        Column("time", unit="s", digits="three"),
        Column("interval", align="left", digits=2),
    ),
    [
        [Number(1), Text("adan"), Number(9.5), Range(9.0, 9.9)],
        [Number(2), Text("adamw"), Number(10.25), Range(9.5, 11.0)],
        [Number(3), Text("lion"), Number(100.0), Range(90.0, 120.0)],
        [Number(4), Text("sgd"), Missing("no study reached it"), Range(200.0, float("inf"))],
    ],
    name="Leaderboard",
)
CHANGES = Table(
    "Changes that save memory",
    (
        Column("change", align="left", key=True, prose=True),
        Column("enough", align="left"),
        Column("saves\nGB", unit="GB", digits="three"),
        Column("cost", align="left", prose=True),
    ),
    [
        [Text("--shard zero3 --ranks 8"), Text("yes"), Number(16.6), Text("8 devices, each of which sends 18.7 GB")],
        [Text("--precision mixed"), Text("no"), Number(0.322), Text("no more operations, and faster ones in hardware")],
    ],
)
STEPS = [float(step) for step in range(20)]


def chart_of(samples: int) -> Chart:
    """Five noisy lines with bands."""
    generator = random.Random(0)
    x = [float(step) for step in range(samples // 5)]
    series = []
    for at in range(5):
        y = [3.0 / (1 + step / 1000) + 0.05 * at + generator.gauss(0, 0.02) for step in x]
        series.append(Series(f"c{at}", x, y, [one - 0.1 for one in y], [one + 0.1 for one in y]))
    return Chart("samples", "Samples", Axis("step", 0, len(x)), Axis("loss", 0, 3.5), series)


def curve(name: str, offset: float) -> Series:
    y = [3.0 - 0.1 * step + offset for step in STEPS]
    return Series(name, STEPS, y, [one - 0.1 for one in y], [one + 0.1 for one in y], ends=True)


CURVES = Chart(
    name="curves",
    title="chars: loss against steps",
    x=Axis("training steps", 0, 19),
    y=Axis("loss", 0.8, 3.5),
    series=[curve("adan", 0.0), curve("adamw", 0.2), curve("lion", 0.4)],
    caption="median of 3 studies",
    marks=(Mark(1.2, "target 1.2"),),
    place="curves",
    view="by steps",
)
RACE = Document(
    [
        Paragraph("chars: target loss 1.2"),
        BOARD,
        CURVES,
        dataclasses.replace(CURVES, title="chars: loss against seconds", view="by seconds"),
        MAP,
        Snippet("opt = fallline.Adan(model.parameters())", "python"),
        Verdict("Take adan."),
    ]
)


def drawn(opened: Any, number: int = 1) -> None:
    """Waits until so many figures are there."""
    opened.locator(".plot[data-drawn=true]").nth(number - 1).wait_for()


def names(opened: Any) -> list[str]:
    found: list[str] = opened.locator(".block.table").first.locator("tbody tr:visible th").all_inner_texts()
    return found


def lines(opened: Any) -> int:
    """Lines of the visible chart, bands left out."""
    count: int = opened.locator(
        ".plot:visible .scatterlayer .trace .lines path.js-line[style*='stroke-width: 2']"
    ).count()
    return count


def test_a_page_opens_without_a_request_and_without_an_error(show: Show) -> None:
    opened = show(page_of(RACE, DOCUMENT))
    drawn(opened)
    assert opened.locator("h2:visible").inner_text() == "Take adan."
    assert lines(opened) == 3


def test_tables_sort_both_ways_and_missing_values_stay_last(show: Show) -> None:
    opened = show(page_of(RACE))
    heading = opened.get_by_role("button", name="time", exact=True)
    orders = []
    for _ in range(3):
        heading.click()
        orders.append(names(opened))
    assert orders == [
        ["adan", "adamw", "lion", "sgd"],
        ["lion", "adamw", "adan", "sgd"],
        ["adan", "adamw", "lion", "sgd"],
    ]
    opened.get_by_role("button", name="contestant").click()
    assert names(opened) == ["adamw", "adan", "lion", "sgd"]
    assert opened.locator("th[aria-sort=ascending]").inner_text() == "contestant"


def test_rows_with_sentences_are_cards_on_a_phone_and_still_rows_of_a_table(show: Show) -> None:
    for width, display in ((375, "flex"), (1440, "table-row")):
        opened = show(page_of(Document([CHANGES, Verdict("a")])), width=width)
        first = opened.get_by_role("row").nth(1)
        assert first.evaluate("(row) => getComputedStyle(row).display") == display
        assert first.get_by_role("rowheader").inner_text() == "--shard zero3 --ranks 8"
        cost = first.get_by_role("cell", name="8 devices")
        box = cost.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width, "the cost is in sight without scrolling"
        label = cost.evaluate("(cell) => getComputedStyle(cell, '::before').content")
        assert ("cost" in label) == (width == 375)
    opened.get_by_role("button", name="saves GB").click()
    assert names(opened) == ["--precision mixed", "--shard zero3 --ranks 8"]


def test_tables_filter_by_words(show: Show) -> None:
    opened = show(page_of(RACE))
    field = opened.get_by_role("searchbox", name="Filter the rows of Leaderboard")
    field.fill("ADA")
    assert names(opened) == ["adan", "adamw"]
    assert opened.locator(".count").first.inner_text() == "2 of 4"
    field.fill("")
    assert len(names(opened)) == 4


def test_a_legend_switches_lines_off_and_on_and_shows_one_alone(show: Show) -> None:
    opened = show(page_of(RACE))
    drawn(opened)
    button = opened.locator(".legend:visible button").nth(1)
    button.click()
    opened.wait_for_timeout(100)
    assert (button.get_attribute("aria-pressed"), lines(opened)) == ("false", 2)
    button.click()
    opened.wait_for_timeout(100)
    assert (button.get_attribute("aria-pressed"), lines(opened)) == ("true", 3)


def test_tabs_open_by_click_and_by_arrow_keys(show: Show) -> None:
    opened = show(page_of(RACE, DOCUMENT))
    drawn(opened)
    opened.get_by_role("tab", name="by seconds").click()
    assert opened.get_by_role("heading", name="chars: loss against seconds").is_visible()
    opened.keyboard.press("ArrowLeft")
    assert opened.get_by_role("heading", name="chars: loss against steps").is_visible()
    opened.get_by_role("tab", name="result 0").press("End")
    assert opened.get_by_role("heading", name="Take adamw.").is_visible()
    assert not opened.get_by_role("heading", name="Take adan.").is_visible()


def saved(opened: Any, button: Any, folder: Path) -> bytes:
    with opened.expect_download() as waiting:
        button.click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path.read_bytes()


def test_figures_and_tables_are_saved_as_files(show: Show, tmp_path: Path) -> None:
    opened = show(page_of(RACE))
    drawn(opened)

    def save(name: str) -> bytes:
        return saved(opened, opened.get_by_role("button", name=name), tmp_path)

    assert save("Save chars: loss against steps as PNG").startswith(b"\x89PNG")
    svg = save("Save chars: loss against steps as SVG").decode()
    assert svg.startswith("<svg") and "adamw" in svg and "chars: loss against steps" in svg
    rows = list(csv.DictReader(io.StringIO(save("Save chars: loss against steps as CSV").decode())))
    assert len(rows) == 60 and float(rows[1]["y"]) == 3.0 - 0.1 and float(rows[1]["low"]) == 2.9 - 0.1
    board = list(csv.DictReader(io.StringIO(save("Save Leaderboard as CSV").decode())))
    assert [row["time [s]"] for row in board] == ["9.5", "10.25", "100.0", ""]


def test_names_with_html_and_script_are_text(show: Show) -> None:
    opened = show(page_of(hostile()))
    drawn(opened, 2)
    assert opened.locator("img").count() == 0
    shown = " ".join(HOSTILE.split())
    assert " ".join(opened.locator("h2").inner_text().split()) == shown
    words = opened.locator(".plot svg text").all_text_contents()
    assert any("</script><script>alert(1)</script><img src=x onerror=alert(2)>" in text for text in words)


def test_a_hundred_thousand_samples_are_drawn_by_the_points_that_a_screen_can_show(show: Show, tmp_path: Path) -> None:
    """Time depends on the machine (``python -m benchmarks.page_speed``); the number of points does not."""
    chart = chart_of(100_000)
    opened = show(page_of(Document([chart, Verdict("a")])))
    drawn(opened)
    columns = opened.evaluate("() => document.querySelector('.plot').clientWidth")
    shown = drawn_lines(opened)
    assert len(shown) == 15, "five lines, each with the edges of its band"
    assert all(len(y) <= 4 * columns + 8 for y in shown)
    lines = [y for at, y in enumerate(shown) if at % 3 == 2]
    for series, y in zip(chart.series, lines, strict=True):
        assert (min(y), max(y), y[0], y[-1]) == (min(series.y), max(series.y), series.y[0], series.y[-1])
    rows = saved(opened, opened.get_by_role("button", name="Save Samples as CSV"), tmp_path).decode().splitlines()
    assert len(rows) == 1 + 100_000


def test_a_reader_who_zooms_sees_every_point(show: Show) -> None:
    chart = chart_of(100_000)
    opened = show(page_of(Document([chart, Verdict("a")])))
    drawn(opened)
    opened.evaluate("() => Plotly.relayout(document.querySelector('.plot'), {'xaxis.range': [1000, 1200]})")
    opened.wait_for_function("() => document.querySelector('.plot').data[2].x[0] > 0")
    assert drawn_lines(opened)[2] == chart.series[0].y[999:1202], "one more on either side"
    opened.locator(".legend:visible button").nth(1).click()
    opened.wait_for_function("() => document.querySelector('.plot').data[5].visible === false")
    assert opened.evaluate("() => document.querySelector('.plot').layout.xaxis.range") == [1000, 1200]
    opened.evaluate("() => Plotly.relayout(document.querySelector('.plot'), {'xaxis.range': [0, 20000]})")
    opened.wait_for_function("() => document.querySelector('.plot').data[2].x[0] === 0")
    assert max(drawn_lines(opened)[2]) == max(chart.series[0].y)


def drawn_lines(opened: Any) -> list[list[float]]:
    """The heights of the points that the library was given."""
    found: list[list[float]] = opened.evaluate("() => document.querySelector('.plot').data.map((one) => [...one.y])")
    return found


@pytest.mark.parametrize("width", [375, 1440, 3840])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window(show: Show, width: int, scheme: str) -> None:
    opened = show(page_of(dataclasses.replace(RACE, appendix=[CHANGES]), DOCUMENT), width=width, scheme=scheme)
    drawn(opened)
    assert opened.evaluate("() => document.documentElement.scrollWidth") == width
    background = opened.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) > 380) == (scheme == "light")


def test_colours_follow_the_button_and_are_kept(show: Show) -> None:
    opened = show(page_of(RACE))
    drawn(opened)
    opened.get_by_role("button", name="Use dark colours").click()
    assert opened.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(19, 21, 25)"
    opened.reload()
    assert opened.get_by_role("button", name="Use light colours").is_visible()


def test_printed_paper_has_every_figure_and_no_buttons(show: Show) -> None:
    opened = show(page_of(RACE, DOCUMENT))
    opened.emulate_media(media="print")
    opened.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    drawn(opened, opened.locator(".plot").count())
    assert opened.locator(".tool:visible").count() == 0
    assert opened.locator("h2:visible").count() == 2, "both results"


def test_paper_is_light_and_as_wide_as_its_charts_and_then_the_screen_comes_back(show: Show) -> None:
    opened = show(page_of(RACE, DOCUMENT), scheme="light")
    drawn(opened)
    opened.get_by_role("button", name="Use dark colours").click()
    opened.emulate_media(media="print")
    opened.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    width = "(one) => Math.round(one.querySelector('.main-svg')?.getBoundingClientRect().width ?? 0)"
    widths = f"[...document.querySelectorAll('.plot')].map({width})"
    opened.wait_for_function(f"() => {widths}.every((width) => width === 660)")
    assert opened.evaluate("() => getComputedStyle(document.body).color") == "rgb(28, 31, 36)"
    ink = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    assert sum(map(int, opened.evaluate(f"() => {ink}")[4:-1].split(","))) < 380, "dark on white"
    opened.emulate_media(media="screen")
    opened.evaluate("() => dispatchEvent(new Event('afterprint'))")
    opened.wait_for_function(f"() => {widths}[0] > 900")
    assert sum(map(int, opened.evaluate(f"() => {ink}")[4:-1].split(","))) > 380
    assert opened.locator(".result:visible").count() == 1
    opened.get_by_role("tab", name="by seconds").click()
    opened.wait_for_function(f"() => {widths}[1] > 900")


@pytest.mark.parametrize("width", [375, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_keeps_anybody_out(show: Show, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="axe is not installed: make test-pages")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    race = dataclasses.replace(RACE, appendix=[CHANGES])
    opened = show(page_of(race, DOCUMENT), scheme=scheme, width=width)
    drawn(opened)
    opened.evaluate(script)
    found = opened.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    told = [(one["id"], one["impact"], [node["html"][:160] for node in one["nodes"]]) for one in found["violations"]]
    assert told == []
