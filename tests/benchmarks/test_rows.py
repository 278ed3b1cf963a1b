"""A row says reached only when it was."""

from __future__ import annotations

import pytest

from benchmarks.report import markdown, sentence
from benchmarks.rows import Row
from fallline.measure.stats import Estimate


def row(value: Estimate | None, *, at_least: bool = True, strict: bool = True, note: str = "") -> Row:
    return Row("case", "what", "peer", 2.0, value=value, at_least=at_least, strict=strict, note=note)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (row(Estimate(2.5, 2.4, 2.6, 9)), "reached"),
        (row(Estimate(2.1, 1.9, 2.3, 9)), "reached, the interval includes the bar"),
        (row(Estimate(1.9, 1.8, 2.1, 9)), "**not reached**, the interval includes the bar"),
        (row(Estimate(1.5, 1.4, 1.6, 9)), "**not reached**"),
        (row(Estimate(1.9, 1.8, 2.1, 9), strict=False), "reached"),
        (row(Estimate(1.8, 1.7, 1.9, 9), strict=False), "**not reached**"),
        (row(Estimate(1.5, 1.4, 1.6, 9), at_least=False), "reached"),
        (row(Estimate(2.5, 2.4, 2.6, 9), at_least=False), "**not reached**"),
        (row(None, note="peer: not installed"), "peer: not installed"),
    ],
)
def test_verdict(found: Row, verdict: str) -> None:
    assert found.verdict == verdict


def test_sentence_counts_what_was_measured() -> None:
    rows = [row(Estimate(2.5, 2.4, 2.6, 9)), row(Estimate(1.5, 1.4, 1.6, 9)), row(None)]
    assert sentence(rows) == "1 of 2 bars reached; not reached: what against peer; 1 not measured."


def test_page_has_every_row_and_the_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    where = {
        "cpu": "a processor",
        "cores": 2,
        "threads": 2,
        "caches": {"L2": "1M"},
        "memory_gib": 8.0,
        "instruction_set": "avx2",
        "versions": {"torch": "2.13.0"},
        "commit": "abc",
        "load_average": None,
    }
    page = markdown([row(Estimate(2.5, 2.4, 2.6, 9))], where, tmp_path_factory.getbasetemp() / "data.json")
    assert "| what | peer | 2.5× (2.4 to 2.6) | ≥ 2× | reached |" in page
    assert "a processor" in page and "commit abc" in page and "`data.json`" in page
