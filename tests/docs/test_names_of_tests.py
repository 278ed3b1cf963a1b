"""Pages that name tests or files name those that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
TESTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py")
}


def names_in(file: str) -> set[str]:
    """Names of the tests in files of that name, or in all: a page may leave folders or the file out."""
    texts = [text for path, text in TESTS.items() if not file or f"/{path}".endswith(f"/{file}")]
    return {name for text in texts for name in re.findall(r"^def (test_\w+)", text, flags=re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_exist(page: Path) -> None:
    for quoted in re.findall(r"`([^`\n]*\btest_[^`\n]*)`", page.read_text(encoding="utf-8")):
        for file, name in re.findall(r"(?:([\w/]*test_\w+\.py)(?:::)?)?(test_\w+)?", quoted):
            if file or name:
                assert {name or min(names_in(file), default="")} & names_in(file), f"{page.name} names {file} {name}"


OF_USERS = {"mine.py", "config.json"}
"""Files that readers have, not the project."""


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "optimizers.md"], ids=lambda page: page.name)
def test_named_files_exist(page: Path) -> None:
    """Paths are from the root, from the package, or from the folder that the sentence is about."""
    there = {path.as_posix() for path in ROOT.glob("*") if path.is_file()}
    for folder in ("src", "tests", "docs", "benchmarks", "examples"):
        there |= {path.as_posix() for path in (ROOT / folder).rglob("*")}
    named_files = set(re.findall(r"`([\w/]+\.(?:py|h|cpp|json|toml))`", page.read_text(encoding="utf-8")))
    for named in named_files - OF_USERS:
        assert any(path.endswith(f"/{named}") for path in there), f"{page.name} names {named}"


def test_something_is_named() -> None:
    assert "test_run.py" in "".join(page.read_text(encoding="utf-8") for page in PAGES)
