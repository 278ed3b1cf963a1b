"""The page of steps can be written anew from results files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, writer_of

page = writer_of("step")


@pytest.mark.parametrize("name", ["step.md", "coverage.md"])
@pytest.mark.parametrize("preset", page.PRESETS)
def test_pages_have_the_marks(name: str, preset: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    changed = page.between(text, preset, "new words")
    assert f"<!-- {preset} -->\nnew words\n<!-- end of {preset} -->" in changed
    assert len(changed) < len(text)


def test_page_without_marks_is_refused() -> None:
    with pytest.raises(SystemExit, match="no marks of adam-grid"):
        page.between("a page", "adam-grid", "new")


def test_tables_are_shortened_and_sentences_kept() -> None:
    kinds = ("ms per step", "GB/s (fraction of the limit)")
    tables = [f"{title}: {kind}\n1 2 3" for title in ("a", "b", "c") for kind in kinds]
    text = "\n\n".join([*tables, "a: fused wins everywhere.\n“a claim”: holds here; 3.", "Take fused."])
    kept = page.shortened(text)
    assert [line for line in kept.splitlines() if kinds[0] in line] == ["a: ms per step", "b: ms per step"]
    assert [line for line in kept.splitlines() if kinds[1] in line] == ["a: GB/s (fraction of the limit)"]
    assert "fused wins everywhere" in kept and kept.endswith("Take fused.\n")


def test_claims_are_lines_of_a_list_that_names_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "data": "28d884ebf3",
        "machines": [{"cpu": "Some CPU", "cores": 2, "instruction_set": "avx2"}],
        "claims": ["“a claim”: holds here; 3.", "“b”: does not; 4."],
    }
    monkeypatch.setattr(page, "shown", lambda *_: json.dumps(found))
    source = "Data 28d884ebf3, Some CPU, 2 cores, avx2:"
    lines = "- “a claim”: holds here; 3.\n- “b”: does not; 4."
    assert page.claims("adam-grid", Path("r.sqlite")) == f"{source}\n\n{lines}"
