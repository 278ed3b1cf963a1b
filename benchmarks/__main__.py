"""``python -m benchmarks``: everything that must hold, measured on this machine."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any

import torch
from rich.console import Console

from benchmarks import report
from benchmarks.cases import CASES
from benchmarks.rows import FAILED, Result, Row, failed
from benchmarks.settings import RESULTS, ROOT, Settings


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small and short: shows that all works, proves nothing")
    parser.add_argument("--only", action="append", choices=list(CASES), metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--build", action="store_true", help="also time a build from a clean clone (minutes)")
    parser.add_argument("--threads", type=int, default=2, help="threads of every arm (default 2)")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def main() -> int:
    chosen = parse()
    options = {"build": chosen.build, "seed": chosen.seed, "threads": chosen.threads}
    settings = Settings.for_quick(**options) if chosen.quick else Settings(**options)
    torch.set_num_threads(settings.threads)
    where = report.circumstances(settings)
    kind = "quick-" if settings.quick else ""
    data = RESULTS / f"{kind}{time.strftime('%Y%m%d-%H%M%S')}.json"
    raw: dict[str, Any] = {"circumstances": where, "cases": {}}
    rows: list[Row] = []
    for name in chosen.only or CASES:
        try:
            result = CASES[name](settings)
        except Exception as error:  # the other cases still count
            traceback.print_exc()
            result = Result([failed(name, error)], {"error": repr(error)})
        rows += result.rows
        raw["cases"][name] = result.raw
        report.save(data, raw)
    console = Console(width=None if sys.stdout.isatty() else 180, highlight=False)
    report.show(rows, console, settings.quick)
    console.print(f"Raw samples: {data.relative_to(ROOT)}")
    failures = sum(row.note.startswith(FAILED) for row in rows)
    if settings.quick or chosen.only:
        return int(failures > 0)
    page = ROOT / "docs" / "benchmarks.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(report.markdown(rows, where, data), encoding="utf-8")
    console.print(f"Written: {page.relative_to(ROOT)}")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
