"""``make race``: AdamW's step in every implementation that torch and fallline have, here, in a minute."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import store
from benchmarks.arms import OURS, OURS_INT8, TORCH
from benchmarks.rows import milliseconds
from benchmarks.settings import RESULTS, ROOT, Settings
from benchmarks.steps import Steps, compare
from fallline.cli.output import render
from fallline.measure.stats import in_words

SIZES = ((100, 1024), (32, 16384), (32, 1048576))
ARMS = ("torch loop", "torch foreach", TORCH, OURS, OURS_INT8)
LEVEL = 1 - 0.02 / (2 * len(SIZES))
"""Of the intervals behind the verdicts: one in fifty that any of them is wrong (Bonferroni)."""
BEGIN, END = "<!-- race:begin -->", "<!-- race:end -->"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adamw_step", description=__doc__)
    parser.add_argument("--seconds", type=float, default=12.0, help="measuring time per size (default 12)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print the result as JSON on stdout, and nothing else")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md too")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    settings = Settings(seed=chosen.seed, threads=chosen.threads, seconds=chosen.seconds, least_rounds=7)
    where = store.circumstances(settings)
    pairs = [(arm, OURS) for arm in ARMS if arm != OURS]
    found = [compare(count, elements, ARMS, pairs, settings) for count, elements in SIZES]
    data = {"circumstances": where, "sizes": {steps.shape: steps.as_json() for steps in found}}
    store.save(RESULTS / "adamw_step.json", data)
    if chosen.json:
        json.dump({**data, "verdict": verdict(found)}, sys.stdout, indent=1)
        return 0
    text = render(lambda console: show(console, found, where), 100)
    if sys.stdout.isatty():
        show(Console(highlight=False), found, where)
    else:
        print(text, end="")
    if chosen.readme:
        update_readme(ROOT / "README.md", text)
    return 0


def show(console: Console, found: Sequence[Steps], where: dict[str, Any]) -> None:
    table = Table(header_style="bold", box=None, pad_edge=False)
    for heading in ("tensors × elements", "AdamW", "ms per step", "torch fused ÷ it", "GB/s", "of the probe"):
        table.add_column(heading, justify="left" if heading in ("tensors × elements", "AdamW") else "right")
    for steps in found:
        for number, arm in enumerate(ARMS):
            ours = arm in (OURS, OURS_INT8)
            table.add_row(
                "" if number else steps.shape,
                arm,
                milliseconds(steps.samples.median(arm)).removesuffix(" ms"),
                "" if arm == TORCH else steps.samples.ratio(TORCH, arm).short("×"),
                steps.gb_per_s(arm).short(),
                steps.fraction(arm).short(),
                style="bold" if ours else "",
            )
        table.add_row()
    console.print(table)
    versions = where["versions"]
    console.print(
        f"{where['cpu']}, {where['threads']} threads, {where['instruction_set']}, torch {versions['torch']}. "
        f"GB/s are bytes that the step has to move; the probe is the fastest sweep over as many streams.",
        style="dim",
    )
    noisy = [steps.shape for steps in found if steps.samples.noise > 0.05]
    if noisy:
        console.print(f"Other work disturbed {', '.join(noisy)}: repeat on a quiet machine.", style="yellow")
    console.print()
    console.print(verdict(found))


def verdict(found: Sequence[Steps]) -> str:
    """One sentence that answers which one to take."""
    parts = []
    for steps in found:
        plain, int8 = (in_words(steps.samples.ratio(TORCH, arm, LEVEL)) for arm in (OURS, OURS_INT8))
        limit = f"{steps.fraction(OURS).short()} of the bandwidth"
        parts.append(f"{plain} on {steps.shape} ({limit}; with int8 states {int8})")
    return f"Against torch's fused AdamW, fallline's step is {', '.join(parts)}."


def update_readme(path: Path, text: str) -> None:
    page = path.read_text(encoding="utf-8")
    block = f"{BEGIN}\n```text\n$ make race\n{text.rstrip()}\n```\n{END}"
    changed, count = re.subn(f"{BEGIN}.*?{END}", lambda _: block, page, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{path.name} needs one part between {BEGIN} and {END}, found {count}")
    path.write_text(changed, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
