"""The parts that make the site of the pages; `make site` builds it and fails on a link that leads nowhere."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import fallline
from tests.docs.pages import DOCS

SITE = DOCS / "site"


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the folder, found as mkdocs finds it."""
    monkeypatch.syspath_prepend(str(DOCS))
    monkeypatch.syspath_prepend(str(SITE))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    yield load
    for path in SITE.glob("*.py"):
        sys.modules.pop(path.stem, None)


def listed(pages: list[Any]) -> Iterator[str]:
    for entry in pages:
        if isinstance(entry, str):
            yield entry
        else:
            for inner in entry.values():
                yield from listed(inner if isinstance(inner, list) else [inner])


def test_every_page_has_its_place(part: Any) -> None:
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"optimizers.md"}
    assert there <= set(listed(part("navigation").PAGES)), "add new pages to docs/site/navigation.py"


def test_pages_that_are_not_there_are_left_out(part: Any) -> None:
    found = part("navigation").navigation(lambda page: page in ("step.md", "race.md"), ["optimizers/index.md"])
    assert [page for page in listed(found) if page != "index.md"] == ["optimizers/index.md", "race.md", "step.md"]


def test_every_optimizer_has_a_page_whose_links_lead_to_pages(part: Any) -> None:
    pages = part("optimizer_pages").pages()
    assert {f"{name}.md" for name in fallline.list_optimizers()} == set(pages) - {"index.md", "around.md"}
    for file, text in pages.items():
        assert text.startswith("# "), file
        for target in re.findall(r"\]\((?!\w+:)([^)]+)\)", text):
            path, _, anchor = target.partition("#")
            if path.startswith("../"):
                assert (DOCS / path[3:]).exists(), (file, target)
            else:
                linked = pages[path or file]
                assert not anchor or f'<a id="{anchor}">' in linked, (file, target)


def test_equations_are_found_but_not_in_code_and_come_back_as_html(part: Any) -> None:
    equations = part("equations")
    page = "a $`x_1`$ b\n\n```math\ny^2\n```\n\n```text\nno $`z`$\n```\n"
    found = equations.found_in(page)
    assert found == [("y^2", True), ("x_1", False)]
    places = equations.with_places(page)
    assert "no $`z`$" in places and "x_1" not in places and "```math" not in places
    html = equations.filled(places, {("y^2", True): "<b>Y</b>", ("x_1", False): "<i>X</i>"})
    assert "a <i>X</i> b" in html and "<b>Y</b>" in html
