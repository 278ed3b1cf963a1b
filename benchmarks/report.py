"""Shows the rows of a run: as a table in the terminal and as ``docs/benchmarks.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import headline
from benchmarks.headline import PAGE
from benchmarks.rows import Row
from benchmarks.store import Run

BY_HAND = "\n## What was learned"
"""From this heading on the page is written by people, and stays."""


def show(rows: Sequence[Row], console: Console, quick: bool) -> None:
    table = Table(header_style="bold")
    for heading in ("what", "against", "peer ÷ ours, 95 %", "bar", "", "ours", "theirs"):
        table.add_column(heading)
    for row in rows:
        style = {True: "green", False: "red", None: "yellow"}[row.reached]
        value = row.value.text(row.unit) if row.value else "–"
        verdict = row.verdict.replace("**", "")
        table.add_row(row.what, row.against, value, row.bar_text, f"[{style}]{verdict}[/]", row.ours, row.theirs)
    console.print(table)
    console.print(sentence(rows, quick))


def sentence(rows: Sequence[Row], quick: bool = False) -> str:
    """What the run says, in one sentence."""
    measured = [row for row in rows if row.reached is not None]
    missed = [row for row in measured if not row.reached]
    if quick:
        return f"A quick run, {len(measured)} of {len(rows)} rows measured: the numbers mean nothing."
    text = f"{len(measured) - len(missed)} of {len(measured)} bars reached"
    if missed:
        text += "; not reached: " + "; ".join(f"{row.what} against {row.against}" for row in missed)
    if len(measured) < len(rows):
        text += f"; {len(rows) - len(measured)} not measured"
    return text + "."


METHOD = """\
Ratios are time of the peer ÷ time of ours. All arms of a case run in one process on the same tensors (states
too, where both store float32), one sample of each per round in random order; a sample repeats short steps
until it lasts 5 ms. Times are medians, ratios are medians of the ratios within rounds, and intervals are 95 %
bootstrap intervals of those medians. Rounds go on until half the interval of every ratio is below 1 % of it,
or the time is over. The first calls and the rounds in which some arm still became faster are left out. A run may be
resumed while the kernels' sources stay the same, so cases may be hours apart; the arms of a case never are.

"Of the probe" is the part of the machine's bandwidth that a step uses: its bytes per second over those of a
hand-written sweep with as many streams over as many elements, which is one more arm of the same rounds.

Allocations are everything that is asked of malloc and mmap during a step, in a process of its own. Bytes of
states are those of all storages that the states lie in.
"""


def write_page(rows: Sequence[Row], run: Run) -> Path:
    """Writes the page, keeps what people have added to the one before, and brings the README's rows up to date."""
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    kept = before[before.index(BY_HAND) :] if BY_HAND in before else ""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(markdown(rows, run.circumstances, run.path) + kept, encoding="utf-8")
    headline.write()
    return PAGE


def markdown(rows: Sequence[Row], where: Mapping[str, Any], data: Path) -> str:
    """The page ``docs/benchmarks.md``."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; every number is computed from the raw samples of one run.",
        "",
    ]
    lines += [f"**{sentence(rows)}**", ""]
    lines += [
        "| what | against | peer ÷ ours (95 %) | bar | | ours | theirs |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        value = row.value.text(row.unit) if row.value else "–"
        cells = (row.what, row.against, value, row.bar_text, row.verdict, row.ours, row.theirs)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += [
        "",
        "## Machine",
        "",
        *_machine(where),
        f"- raw samples: `{data.name}`",
        "",
        "## Method",
        "",
        METHOD,
    ]
    return "\n".join(lines)


def _machine(where: Mapping[str, Any]) -> list[str]:
    caches = ", ".join(f"{level} {size}" for level, size in where["caches"].items())
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    load = where["load_average"]
    return [
        f"- {where['cpu']}, {where['cores']} cores, {where['threads']} threads, {caches}, "
        f"{where['memory_gib']:.0f} GiB, kernels for {where['instruction_set']}",
        f"- {versions}",
        f"- commit {where['commit']}; the sources of the kernels are {where['measured']}",
        f"- load average at the start {load:.2f}" if load is not None else "- load unknown",
    ]
