"""The display in a notebook of results and of an optimizer, by the method that it asks objects for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fallline
from fallline.document.html.library import available
from fallline.measure.store import StoreError
from fallline.optim.explain import Explanation, SteppedBy
from fallline.step.document import Report
from fallline.step.results import Results
from fallline.step.stored_plan import stored_plan
from tests.document.test_html import HOSTILE, Elements
from tests.report import stored_race, stored_steps


def test_a_race_shows_its_tables_and_its_verdict(tmp_path: Path) -> None:
    shown = fallline.results(stored_race(tmp_path))
    elements = Elements(shown._repr_html_())
    assert len(elements.of("table")) >= 3 and not elements.of("script")
    assert "Take a" in elements.words and "Take a" in repr(shown)
    assert shown.kind == "Race" and shown.data["choice"] == "a"


def test_steps_show_themselves_stored_or_fresh(tmp_path: Path) -> None:
    path = stored_steps(tmp_path)
    with Results(path, writable=False) as stored:
        fresh = Report(stored_plan(stored), stored)
    assert Elements(fresh._repr_html_()).words == Elements(fallline.results(str(path))._repr_html_()).words
    assert "fused" in Elements(fresh._repr_html_()).words


@pytest.mark.skipif(not available(), reason="plotly is not installed")
def test_results_are_saved_as_a_page(tmp_path: Path) -> None:
    fallline.results(stored_race(tmp_path)).save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_files_that_are_no_results_raise_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no such results file"):
        fallline.results(tmp_path / "nothing")


def test_explain_is_a_table_in_a_notebook_and_text_elsewhere() -> None:
    model = torch.nn.Linear(3, 2)
    told = fallline.AdamW(model.parameters(), lr=1e-3).explain()
    elements = Elements(told._repr_html_())
    assert len(elements.of("tr")) == 1 + len(told.parts)
    assert all(part.lowering in elements.words and part.reason in elements.words for part in told.parts)
    assert "2 parameters have had no gradient yet" in elements.words and repr(told) == str(told)


def test_reasons_are_text_in_a_notebook() -> None:
    part = SteppedBy(rule="adamw", groups=(0,), tensors=1, elements=1, lowering="eager", reason=HOSTILE)
    told = Explanation.of((part,), ["a line"])
    told.waiting = 0
    assert Elements(told._repr_html_()).of("img") == []


def test_the_package_is_as_quick_to_import_as_before() -> None:
    code = "import sys, fallline; fallline.AdamW; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    assert "fallline.optim.explain" in loaded
    assert not [name for name in loaded if name.startswith(("fallline.document", "fallline.report", "plotly"))]
