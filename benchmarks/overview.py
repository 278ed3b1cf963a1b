"""The pages of all machines side by side: ``python -m benchmarks.overview``.

A run writes the page of its machine (``docs/benchmarks/``); from these come the overview in ``docs/benchmarks.md`` and
the README's rows, so that no number is typed and none of another machine is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.rows import NO_BAR
from benchmarks.settings import ROOT

README = ROOT / "README.md"
OVERVIEW = ROOT / "docs" / "benchmarks.md"
PAGES = ROOT / "docs" / "benchmarks"

BEST = ""
"""The fastest of the peers, which a page has first: another one on another machine."""

HEADLINES = (
    ("AdamW 100 × 1,024, float32", "torch fused"),
    ("AdamW 32 × 4,194,304, float32", "torch fused"),
    ("AdamW 32 × 4,194,304, int8 states", "torch fused"),
    ("AdamW 32 × 1,048,576, int8 states", "bitsandbytes AdamW8bit"),
    ("Adan, 92 M parameters, float32", BEST),
    ("ScheduleFreeAdamW, 92 M parameters, float32", BEST),
    ("NAdam, 92 M parameters, float32", BEST),
    ("Muon, 8 matrices of width 768", BEST),
    ("Muon, 8 matrices of width 768", "its loop in float32"),
    ('Muon, variant="zolotarev", 8 matrices of width 768', BEST),
    ("SOAP, 16 matrices of width 256, mean of 10 steps", "pytorch_optimizer"),
)
"""The rows of the README."""


class Cell(NamedTuple):
    ratio: str
    bar: str
    verdict: str


class Page(NamedTuple):
    machine: str
    verdict: str
    """How many bars were reached."""
    name: str
    """The name of the file."""
    rows: Mapping[tuple[str, str], Cell]
    """By what was measured and against what."""


def machine_name(where: Mapping[str, Any]) -> str:
    """``Intel Xeon, avx512``: what decides about the kernels' speed."""
    processor = re.sub(r"\((R|TM)\)|\bProcessor\b|\bCPU\b|@.*", "", where["cpu"])
    return f"{' '.join(processor.split())}, {where['instruction_set']}"


def page_of(machine: str) -> Path:
    return PAGES / (re.sub(r"[^a-z0-9]+", "-", machine.lower()) + ".md")


def read(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    rows = {(what, against): Cell(*rest[:3]) for what, against, *rest in table[2:]}
    verdict = next(line.strip("*").rstrip(".").split(";")[0] for line in lines if line.startswith("**"))
    return Page(lines[0].removeprefix("# Benchmarks: "), verdict, path.name, rows)


def pages() -> list[Page]:
    return [read(path) for path in sorted(PAGES.glob("*.md"))]


def overview(pages: Sequence[Page]) -> str:
    """Every row on every machine, and what each machine's run says as a whole."""
    lines = [f"- [{page.machine}](benchmarks/{page.name}): {page.verdict}" for page in pages]
    lines += ["", *_heading("what", "against", "bar", *(page.machine for page in pages))]
    for key in dict.fromkeys(key for page in pages for key in page.rows):
        cells = [page.rows.get(key) for page in pages]
        bar = next(cell.bar for cell in cells if cell)
        lines.append(_line(*key, bar, *(_with_verdict(cell) for cell in cells)))
    return "\n".join(lines) + "\n"


def _with_verdict(cell: Cell | None) -> str:
    if cell is None or cell.ratio == "–":
        return "–"
    return cell.ratio if cell.verdict.startswith(("reached", NO_BAR)) else f"{cell.ratio}, **not reached**"


def headlines(pages: Sequence[Page]) -> str:
    """The choice is fixed, the numbers are the pages'; a peer that was installed nowhere has no row."""
    lines = _heading("one step, two threads", "times as fast as", *(page.machine for page in pages))
    for what, peer in HEADLINES:
        found = [next((key for key in page.rows if key[0] == what and peer in (BEST, key[1])), None) for page in pages]
        peers = list(dict.fromkeys(key[1].removesuffix(" as it comes") for key in found if key))
        ratios = [page.rows[key].ratio if key else "–" for page, key in zip(pages, found, strict=True)]
        if peers:
            lines.append(_line(what, " or ".join(peers), *ratios))
    return "\n".join(lines) + "\n"


def _heading(*cells: str) -> list[str]:
    return [_line(*cells), "|" + "---|" * len(cells)]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


TARGETS: tuple[tuple[Path, str, Callable[[Sequence[Page]], str]], ...] = (
    (OVERVIEW, "machines", overview),
    (README, "bench", headlines),
)
"""Which file has which block."""


def updated(text: str, name: str, block: str) -> str:
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
    start, stop = text.index(begin) + len(begin), text.index(end)
    return text[:start] + block + text[stop:]


def write() -> None:
    for path, name, block in TARGETS:
        path.write_text(updated(path.read_text(encoding="utf-8"), name, block(pages())), encoding="utf-8")


def is_current() -> bool:
    texts = {path: path.read_text(encoding="utf-8") for path, _, _ in TARGETS}
    return all(updated(texts[path], name, block(pages())) == texts[path] for path, name, block in TARGETS)


if __name__ == "__main__":
    write()
