"""Pages of several machines stand side by side, each number where it was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import overview, report
from benchmarks.rows import Row
from benchmarks.store import Run
from fallline.measure.stats import Estimate
from tests.benchmarks.test_rows import WHERE


def row(what: str, against: str, ratio: float) -> Row:
    return Row("case", what, against, 2.0, value=Estimate(ratio, ratio - 0.1, ratio + 0.1, 9))


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two machines; NAdam has another best peer on each, and one row was measured on the second alone."""
    page, readme = tmp_path / "benchmarks.md", tmp_path / "README.md"
    page.write_text("# Benchmarks\n\n<!-- machines:begin -->\nold\n<!-- machines:end -->\n\nby hand\n")
    readme.write_text("<!-- bench:begin -->\nold\n<!-- bench:end -->\nby hand\n")
    monkeypatch.setattr(overview, "PAGES", tmp_path / "benchmarks")
    blocks = ((page, "machines", overview.overview), (readme, "bench", overview.headlines))
    monkeypatch.setattr(overview, "TARGETS", blocks)
    nadam = "NAdam, 92 M parameters, float32"
    first = [row(nadam, "torch", 4.0), row(nadam, "other", 5.0)]
    second = [row(nadam, "other", 1.5), row("something else", "torch", 3.0)]
    report.write_page(first, Run(tmp_path / "1.json", WHERE))
    other = WHERE | {"cpu": "Intel(R) Xeon(R) Processor @ 2 GHz", "instruction_set": "avx512"}
    report.write_page(second, Run(tmp_path / "2.json", other))
    return tmp_path


def test_every_machine_has_a_page_of_its_own(docs: Path) -> None:
    assert sorted(path.name for path in (docs / "benchmarks").iterdir()) == [
        "a-processor-avx2.md",
        "intel-xeon-avx512.md",
    ]


def test_rows_stand_side_by_side_with_what_was_not_reached(docs: Path) -> None:
    text = (docs / "benchmarks.md").read_text()
    assert "[Intel Xeon, avx512](benchmarks/intel-xeon-avx512.md): 1 of 2 bars reached\n" in text
    assert "| what | against | bar | a processor, avx2 | Intel Xeon, avx512 |" in text
    assert "| torch | ≥ 2× | 4.00× (3.90 to 4.10) | – |" in text
    assert "| other | ≥ 2× | 5.00× (4.90 to 5.10) | 1.5× (1.4 to 1.6), **not reached** |" in text
    assert "old" not in text and text.endswith("\n\nby hand\n")


def test_readme_has_the_best_peer_of_each_machine(docs: Path) -> None:
    text = (docs / "README.md").read_text()
    assert "| torch or other | 4.00× (3.90 to 4.10) | 1.5× (1.4 to 1.6) |" in text
    assert text.endswith("<!-- bench:end -->\nby hand\n")


def test_a_page_that_changed_is_noticed(docs: Path) -> None:
    assert overview.is_current()
    page = docs / "benchmarks" / "a-processor-avx2.md"
    page.write_text(page.read_text().replace("4.00×", "9.00×"))
    assert not overview.is_current()
