"""``python -m benchmarks``: everything that must hold, measured on this machine."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import traceback
from collections.abc import Sequence

import torch
from rich.console import Console

from benchmarks import report, store
from benchmarks.cases import CASES
from benchmarks.rows import FAILED, Result, failed
from benchmarks.settings import ROOT, Settings


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small and short: all works, nothing is proved")
    parser.add_argument("--only", action="append", choices=list(CASES), metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--resume", action="store_true", help="go on with the last run, if it was stopped")
    parser.add_argument("--build", action="store_true", help="also time a build from a clean clone (minutes)")
    parser.add_argument("--compiled", action="store_true", help="also time peers through torch.compile (half an hour)")
    parser.add_argument("--threads", type=int, default=2, help="threads of every arm (default 2)")
    parser.add_argument("--seconds", type=float, help="at most so long per comparison (default 60)")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def main() -> int:
    chosen = parse()
    options = {"build": chosen.build, "compiled": chosen.compiled, "seed": chosen.seed, "threads": chosen.threads}
    settings = Settings.for_quick(**options) if chosen.quick else Settings(**options)
    if chosen.seconds:
        settings = dataclasses.replace(settings, seconds=chosen.seconds)
    torch.set_num_threads(settings.threads)
    run = (store.last_run(settings) if chosen.resume else None) or store.new_run(settings)
    for name in chosen.only or CASES:
        if name not in run.cases:
            run.add(name, measured(name, settings))
    rows = run.rows(order=list(CASES))
    console = Console(width=None if sys.stdout.isatty() else 180, highlight=False)
    report.show(rows, console, settings.quick)
    console.print(f"Raw samples: {run.path.relative_to(ROOT)}")
    if not settings.quick and set(CASES) <= set(run.cases):
        page = report.write_page(rows, run)
        console.print(f"Written: {page.relative_to(ROOT)}")
    return int(any(row.note.startswith(FAILED) for row in rows))


def measured(name: str, settings: Settings) -> Result:
    try:
        return CASES[name](settings)
    except Exception as error:  # the other cases still count
        traceback.print_exc()
        return Result([failed(name, error)], {"error": repr(error)})


if __name__ == "__main__":
    sys.exit(main())
