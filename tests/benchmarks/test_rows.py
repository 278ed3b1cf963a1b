"""A row says reached only when it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import store
from benchmarks.report import markdown, sentence
from benchmarks.rows import Result, Row, failed
from benchmarks.settings import Settings
from benchmarks.store import Run
from fallline.measure.stats import Estimate

WHERE: dict[str, Any] = {
    "cpu": "a processor",
    "cores": 2,
    "threads": 2,
    "caches": {"L2": "1M"},
    "memory_gib": 8.0,
    "instruction_set": "avx2",
    "versions": {"torch": "2.13.0"},
    "commit": "abc",
    "measured": "0123456789ab",
    "load_average": None,
}


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
    page = markdown([row(Estimate(2.5, 2.4, 2.6, 9))], WHERE, tmp_path_factory.getbasetemp() / "data.json")
    assert "| what | peer | 2.5× (2.4 to 2.6) | ≥ 2× | reached |" in page
    assert "a processor" in page and "commit abc" in page and "`data.json`" in page


def test_rows_survive_their_file(tmp_path: Path) -> None:
    rows = [row(Estimate(2.5, 2.4, 2.6, 9)), row(None, note="peer: not installed")]
    run = Run(tmp_path / "full-1.json", WHERE)
    run.add("case", Result(rows, {}))
    stored = json.loads(run.path.read_text())
    assert Run(run.path, stored["circumstances"], stored["cases"]).rows() == rows


def test_resuming_leaves_out_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "RESULTS", tmp_path)
    run = store.new_run(Settings())
    run.add("good", Result([row(Estimate(2.5, 2.4, 2.6, 9))], {}))
    run.add("bad", Result([failed("bad", RuntimeError("broken"))], {}))
    found = store.last_run(Settings())
    assert found is not None and list(found.cases) == ["good"]
    assert store.last_run(Settings(seed=1)) is None
