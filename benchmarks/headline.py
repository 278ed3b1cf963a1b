"""The README's rows of ``docs/benchmarks.md``: ``python -m benchmarks.headline``."""

from __future__ import annotations

from benchmarks.settings import ROOT

README = ROOT / "README.md"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench:begin -->\n", "<!-- bench:end -->"

BEST = ""
"""The fastest of the peers, which the page has first: another one on another machine."""

ROWS = (
    ("AdamW 100 × 1,024, float32", "torch fused"),
    ("AdamW 32 × 16,384, float32", "torch fused"),
    ("AdamW 32 × 4,194,304, float32", "torch fused"),
    ("AdamW 32 × 4,194,304, float32", "DeepSpeed CPUAdam"),
    ("AdamW 32 × 4,194,304, int8 states", "torch fused"),
    ("AdamW 32 × 1,048,576, int8 states", "bitsandbytes AdamW8bit"),
    ("AdamW 32 × 1,048,576, int8 states", "torchao AdamW8bit"),
    ("Adan, 92 M parameters, float32", BEST),
    ("AdamP, 92 M parameters, float32", BEST),
    ("ScheduleFreeAdamW, 92 M parameters, float32", BEST),
    ("NAdam, 92 M parameters, float32", BEST),
)


def block(page: str) -> str:
    """The choice is fixed, the numbers are the page's; a peer that was not installed has no row."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]
    lines = ["| one step, two threads | against | times as fast (95 %) |", "|---|---|---|"]
    for wanted, peer in ROWS:
        found = [(against, ratio) for what, against, ratio, *_ in cells if what == wanted and peer in (BEST, against)]
        lines += [f"| {wanted} | {against} | {ratio} |" for against, ratio in found[:1]]
    return "\n".join(lines) + "\n"


def updated(readme: str, page: str) -> str:
    start, end = readme.index(BEGIN) + len(BEGIN), readme.index(END)
    return readme[:start] + block(page) + readme[end:]


def write() -> None:
    README.write_text(updated(README.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def is_current() -> bool:
    readme = README.read_text(encoding="utf-8")
    return updated(readme, PAGE.read_text(encoding="utf-8")) == readme


if __name__ == "__main__":
    write()
