"""Shows the rows of a run: as a table in the terminal and as the page of its machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import overview
from benchmarks.rows import Row
from benchmarks.store import Run


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
    """The result of the run, in one sentence."""
    measured = [row for row in rows if row.reached is not None]
    missed = [row for row in measured if not row.reached]
    if quick:
        return f"A quick run, {len(measured)} of {len(rows)} rows measured: the numbers mean nothing."
    text = f"{len(measured) - len(missed)} of {len(measured)} bars reached"
    if missed:
        text += "; not reached: " + "; ".join(f"{row.what} against {row.against}" for row in missed)
    if absent := sum(row.value is None for row in rows):
        text += f"; {absent} not measured"
    return text + "."


def write_page(rows: Sequence[Row], run: Run) -> Path:
    """Writes the page of this machine, and brings what is taken from it up to date."""
    page = overview.page_of(overview.machine_name(run.circumstances))
    page.parent.mkdir(exist_ok=True)
    page.write_text(markdown(rows, run.circumstances, run.path), encoding="utf-8")
    overview.write()
    return page


def markdown(rows: Sequence[Row], where: Mapping[str, Any], data: Path) -> str:
    """A page of ``docs/benchmarks``."""
    lines = [
        f"# Benchmarks: {overview.machine_name(where)}",
        "",
        "Written by `make bench`; every number is computed from the raw samples of one run, as",
        "[the overview](../benchmarks.md) says.",
        "",
        f"**{sentence(rows)}**",
        "",
        "| what | against | peer ÷ ours (95 %) | bar | | ours | theirs |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        value = row.value.text(row.unit) if row.value else "–"
        cells = (row.what, row.against, value, row.bar_text, row.verdict, row.ours, row.theirs)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", "## Machine", "", *_machine(where), f"- raw samples: `{data.name}`", ""]
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
