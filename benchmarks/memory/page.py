"""Writes the tables of docs/memory.md between their marks, from stored results."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from benchmarks.memory.cases import MODELS, OPTIMIZERS, Case
from benchmarks.memory.estimators import ESTIMATORS
from fallline.footprint.lecture import GB, example
from fallline.footprint.prediction import Prediction, Predictor
from fallline.footprint.setting import Setting
from fallline.footprint.trainees import trainee

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
Stored = Mapping[str, Mapping[str, float]]
COLUMNS = 110
"""The width of the terminal that the page shows."""


def write(stored: Stored) -> None:
    """Writes the tables, and runs the commands whose output the page shows."""
    page = re.sub(r"<!-- run: (.*?) -->\n.*?<!-- end of run -->", _shown, PAGE.read_text(encoding="utf-8"), flags=re.S)
    PAGE.write_text(page, encoding="utf-8")
    write_tables(stored, TABLES)


def write_tables(stored: Stored, names: Iterable[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in names:
        before, begin, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- end of {name} -->")
        if not begin or not end:
            raise SystemExit(f"{PAGE}: has no marks of {name}")
        page = f"{before}{begin}{TABLES[name](stored)}\n{end}{after}"
    PAGE.write_text(page, encoding="utf-8")


def _shown(found: re.Match[str]) -> str:
    command = found[1]
    arguments = [sys.executable, "-m", *command.split()]
    terminal = {**os.environ, "COLUMNS": str(COLUMNS)}
    text = subprocess.run(arguments, capture_output=True, text=True, check=True, env=terminal).stdout
    return f"<!-- run: {command} -->\n```text\n$ {command}\n{text}```\n<!-- end of run -->"


def _cases(stored: Stored) -> list[tuple[Case, Mapping[str, float]]]:
    cases = [Case(m, o, again) for m in MODELS for o in OPTIMIZERS for again in (False, True)]
    return [(case, stored[case.name]) for case in cases if case.name in stored]


def _off(predicted: float, measured: float) -> float:
    return 100 * (predicted / measured - 1)


def _resident(row: Mapping[str, float]) -> float:
    """The predicted memory of the process: that of its libraries, of tensors at their peak, and of the results of
    reductions, which kernels keep; a row without the last is of an optimizer that reduces nothing."""
    return row["libraries"] + row["predicted peak"] + row.get("workspace", 0)


def accuracy(stored: Stored) -> str:
    lines = [
        "| model | optimizer | checkpointing | parameters, gradients, states off by | peak of tensors, MB: predicted | "
        "measured | off by | process, MB: predicted | measured | off by |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for case, row in _cases(stored):
        held = [abs(row[f"predicted {n}"] - row[f"measured {n}"]) for n in ("parameters", "gradients", "states")]
        lines.append(
            f"| {case.model} | {case.optimizer} | {'yes' if case.checkpointing else 'no'} | {sum(held):.0f} bytes | "
            f"{row['predicted peak'] / 1e6:.3f} | {row['measured peak'] / 1e6:.3f} | "
            f"{_off(row['predicted peak'], row['measured peak']):+.3f} % | {_resident(row) / 1e6:.0f} | "
            f"{row['resident'] / 1e6:.0f} | {_off(_resident(row), row['resident']):+.1f} % |"
        )
    return "\n".join(lines)


def summary(stored: Stored) -> str:
    rows = [row for _, row in _cases(stored)]
    if not rows:
        return "Nothing has been measured yet."
    held = max(
        abs(row[f"predicted {n}"] - row[f"measured {n}"]) for row in rows for n in ("parameters", "gradients", "states")
    )
    peak = max(abs(_off(row["predicted peak"], row["measured peak"])) for row in rows)
    process = max(abs(_off(_resident(row), row["resident"])) for row in rows)
    missing = len(MODELS) * len(OPTIMIZERS) * 2 - len(rows)
    rest = f" {missing} more are not measured yet." if missing else ""
    return (
        f"In {len(rows)} trainings, parameters, gradients and states are off by {held:.0f} bytes at most, the peak of "
        f"tensors by {peak:.3f} %, and the memory of the process by {process:.1f} %.{rest}"
    )


def malloc(stored: Stored) -> str:
    lines = ["| model | checkpointing | threshold fixed, MB | usual, MB | kept |", "|---|---|--:|--:|--:|"]
    for model in MODELS:
        for again in (False, True):
            fixed, usual = (stored.get(Case(model, "adamw", again, one).name) for one in (True, False))
            if fixed and usual:
                kept = usual["resident"] - fixed["resident"]
                lines.append(
                    f"| {model} | {'yes' if again else 'no'} | {fixed['resident'] / 1e6:.0f} | "
                    f"{usual['resident'] / 1e6:.0f} | {kept / 1e6:.0f} |"
                )
    return "\n".join(lines) if len(lines) > 2 else "Not measured yet."


def recomputation(stored: Stored) -> str:
    lines = [
        "| model | activations kept, MB | with checkpointing | saved | peak of tensors, MB | with checkpointing | "
        "more operations | more time, measured |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for model in MODELS:
        plain, again = (stored.get(Case(model, "adamw", one).name) for one in (False, True))
        if plain and again:
            kept = [row["activations"] for row in (plain, again)]
            lines.append(
                f"| {model} | {kept[0] / 1e6:.0f} | {kept[1] / 1e6:.0f} | {1 - kept[1] / kept[0]:.0%} | "
                f"{plain['measured peak'] / 1e6:.0f} | {again['measured peak'] / 1e6:.0f} | "
                f"{again['recomputed'] / plain['flops']:.0%} | {_slower(stored, model)} |"
            )
    return "\n".join(lines)


def _slower(stored: Stored, model: str) -> str:
    row = stored.get(f"{model} time")
    if row is None:
        return "–"
    return f"{row['ratio'] - 1:.0%} ({row['plain']:.2f} to {row['checkpointed']:.2f} s)"


def estimators(stored: Stored) -> str:
    lines = [
        f"| model | measured peak, MB | fallline | {' | '.join(ESTIMATORS)} |",
        "|---|--:|--:|" + "--:|" * len(ESTIMATORS),
    ]
    for model in MODELS:
        row = stored.get(Case(model, "adamw", False).name)
        if row is None:
            continue
        others = []
        for name in ESTIMATORS:
            found = stored.get(f"{name} {model}")
            off = _off(found["bytes"], row["measured peak"]) if found else 0.0
            others.append(f"{found['bytes'] / 1e6:.0f} ({off:+.0f} %)" if found else "not installed")
        mine = _off(row["predicted peak"], row["measured peak"])
        lines.append(
            f"| {model} | {row['measured peak'] / 1e6:.0f} | {row['predicted peak'] / 1e6:.0f} ({mine:+.2f} %) | "
            f"{' | '.join(others)} |"
        )
    return "\n".join(lines)


def lecture() -> str:
    """The published numbers beside those of the formula and of a trace of the released model."""
    formula = example()
    predictor = Predictor(trainee("gpt2-xl"))
    base = Setting(precision="mixed", batch=32)
    plain, again = (predictor.predict(base.replace(checkpointing=one)) for one in (False, True))
    rows = [
        ("weights, 2 bytes", "3 GB", formula.model.parameters, plain.in_full["parameters"]),
        ("weights, gradients and states, 16 bytes", "24 GB", formula.held, plain.optimizer.held),
        ("activations, 1K × 32", "~60 GB", formula.activations, _kept(plain)),
        ("activations with checkpointing", "8 GB", None, _kept(again)),
        ("gradients in one float32 buffer", "6 GB", formula.buffer, 4 * plain.parameters),
        ("fragmentation", "3 GB", None, again.replayed().reserved - again.peak),
        ("in all", "41 GB", formula.total, None),
    ]
    lines = ["| | published | 1.5 G parameters, computed | gpt2-xl (1.56 G), traced |", "|---|--:|--:|--:|"]
    for name, published, computed, traced in rows:
        cells = ["–" if size is None else f"{size / GB:.1f} GB" for size in (computed, traced)]
        lines.append(f"| {name} | {published} | {' | '.join(cells)} |")
    saved = 1 - _kept(again) / _kept(plain)
    more = again.trace.recomputed_flops / plain.trace.flops
    lines += [
        "",
        f"The formula counts 12 elements per token, layer and unit of width; the trace of the released model finds "
        f"{_kept(plain) / formula.activations * 12:.0f}, logits included. Checkpointing saves {saved:.0%} of them for "
        f"{more:.0%} more operations.",
    ]
    return "\n".join(lines)


def _kept(prediction: Prediction) -> int:
    return sum(one.bytes for one in prediction.trace.kept)


TABLES: Mapping[str, Callable[[Stored], str]] = {
    "accuracy": accuracy,
    "summary": summary,
    "malloc": malloc,
    "recomputation": recomputation,
    "estimators": estimators,
    "lecture": lambda stored: lecture(),
}
