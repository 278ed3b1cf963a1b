"""Measures five models, predicts them, asks other estimators, and writes docs/memory.md's tables."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.memory import estimators, page
from benchmarks.memory.cases import CASES, MODELS, RESULTS, measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anew", action="store_true", help="measure everything again")
    parser.add_argument("--most", type=int, default=len(CASES), metavar="N", help="measure at most N cases, then stop")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS, help="measure only these")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page from the stored results")
    chosen = parser.parse_args()
    stored = read() if not chosen.anew else {}
    if not chosen.page:
        missing = [case for case in CASES if case.name not in stored and case.model in chosen.models]
        for case in missing[: chosen.most]:
            stored = (read() if not chosen.anew else stored) | {case.name: measured(case)}
            write(stored)
            print(case.name, flush=True)
        estimate_all(stored)
    if chosen.page or all(case.name in stored for case in CASES):
        page.write(stored)


def estimate_all(stored: dict[str, dict[str, float]]) -> None:
    """Asks the other estimators that are installed."""
    for name, model in estimators.MODELS.items():
        for estimator, estimate in estimators.ESTIMATORS.items():
            key = f"{estimator} {name}"
            if key not in stored and (found := estimate(model)) is not None:
                stored[key] = found
                write(stored)


def read() -> dict[str, dict[str, float]]:
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}


def write(stored: dict[str, dict[str, float]]) -> None:
    """Whole or not at all."""
    new = Path(f"{RESULTS}.new")
    new.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    new.replace(RESULTS)


if __name__ == "__main__":
    main()
