"""Guides run: their Python blocks in order, in one namespace, and print the text that stands below them."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS

GUIDES = [
    DOCS / f"{name}.md" for name in ("rules", "library", "quick_start", "coming_from", "own_workload", "distributed")
]
OTHERS = (
    "glossary",
    "formats",
    "elsewhere",
    "choose",
    "commands",
    "gallery",
    "measuring",
    "index",
    "first_race",
    "race",
)
PAGES = [*GUIDES, *(DOCS / f"{name}.md" for name in OTHERS)]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def blocks(page: str) -> list[tuple[str, str]]:
    """Every Python block with the output that the page promises, empty if it promises none."""
    found = list(FENCE.finditer(page))
    promised = {
        one.end(): two[2]
        for one, two in itertools.pairwise(found)
        if two[1] == "text" and not page[one.end() : two.start()].strip()
    }
    return [(one[2], promised.get(one.end(), "")) for one in found if one[1] == "python"]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.name)
def test_blocks_run_and_print_what_the_page_says(guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": f"guide_{guide.stem}"}
    pairs = blocks(guide.read_text(encoding="utf-8"))
    assert len(pairs) > 2 and any(output for _, output in pairs)
    for number, (block, output) in enumerate(pairs):
        file = tmp_path / f"block_{number}.py"  # a file, so that errors in rules can quote their line
        file.write_text(block, encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(block, str(file), "exec"), names)
        assert printed.getvalue() == output, f"block {number} of {guide.name}:\n{block}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        linked = page if not path else page.parent / path
        assert "://" in target or linked.exists(), target
        if anchor and "://" not in target:
            text = linked.read_text(encoding="utf-8")
            headings = {
                re.sub(r"[^\w\- ]", "", line).strip().lower().replace(" ", "-")
                for line in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
            }
            assert anchor in headings or f'<a id="{anchor}">' in text, target


def test_the_first_race_shows_the_file_that_it_races() -> None:
    page, example = DOCS / "first_race.md", DOCS.parent / "examples" / "digits.py"
    ((shown, _),) = blocks(page.read_text(encoding="utf-8"))
    assert shown == example.read_text(encoding="utf-8")


def test_output_is_the_text_right_below_a_block() -> None:
    page = "```python\nprint(1)\n```\n\n```text\n2\n```\n\n```python\nx = 1\n```\n\nwords\n\n```text\nno output\n```\n"
    assert blocks(page) == [("print(1)\n", "2\n"), ("x = 1\n", "")]
