"""A results file as flat tables: trials, evaluations, step times and where they ran, as CSV or Parquet."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fallline.race.results.results_file import Results

_TRIAL = "kind workload contestant study number"
TABLES = {
    "workloads": ("name spec target target_from untrained problem facts", "from workload order by rowid"),
    "trials": (
        f"{_TRIAL} seed point status max_steps steps steps_to_target seconds_to_target training_seconds"
        " evaluation_seconds attempts note",
        "from trial order by id",
    ),
    "evaluations": (
        f"{_TRIAL} step value loss evaluation.training_seconds",
        "from evaluation join trial on trial.id = evaluation.trial order by trial.id, step",
    ),
    "calibration": (
        "workload contestant step_seconds low high switch_seconds state_bytes parameter_bytes scale machine",
        "from calibration order by rowid",
    ),
    "step_samples": (
        "session session.workload contestant part round wall cpu cpu_obstacle session.taken session.machine",
        "from sample join session on session.id = sample.session order by session, contestant, part, round",
    ),
    "runs": ("started ended machine command", "from run order by id"),
}
"""Name of the table → its columns, and where its rows are from."""

INTEGERS = frozenset(
    [
        "study",
        "number",
        "seed",
        "max_steps",
        "steps",
        "steps_to_target",
        "attempts",
        "step",
        "session",
        "round",
        "state_bytes",
        "parameter_bytes",
    ]
)
NUMBERS = frozenset(
    [
        "target",
        "untrained",
        "value",
        "loss",
        "seconds_to_target",
        "training_seconds",
        "evaluation_seconds",
        "step_seconds",
        "low",
        "high",
        "switch_seconds",
        "scale",
        "wall",
        "cpu",
        "taken",
        "started",
        "ended",
    ]
)
"""Columns that are not text: Parquet's types are the same for every race, also where a column is empty."""

FORMATS = ("csv", "parquet")


class ExportUnavailable(RuntimeError):
    """A format whose package is not installed."""


def export(results: Results, folder: Path, form: str) -> list[Path]:
    """One file per table; returns them."""
    write = _write_csv if form == "csv" else _parquet_writer()
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, (columns, source) in TABLES.items():
        selected = columns.split()
        rows = [tuple(row) for row in results.store.rows(f"select {', '.join(selected)} {source}")]
        path = folder / f"{results.path.stem}-{name}.{form}"
        write(path, [column.rpartition(".")[2] for column in selected], rows)
        written.append(path)
    return written


def _write_csv(path: Path, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def _parquet_writer() -> Callable[[Path, list[str], list[tuple[Any, ...]]], None]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ExportUnavailable("Parquet needs pyarrow; pip install 'fallline[parquet]', or --format csv") from None

    def kind(name: str) -> Any:
        if name in INTEGERS:
            return pyarrow.int64()
        return pyarrow.float64() if name in NUMBERS else pyarrow.string()

    def write(path: Path, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
        arrays = {name: pyarrow.array([row[i] for row in rows], kind(name)) for i, name in enumerate(columns)}
        pyarrow.parquet.write_table(pyarrow.table(arrays), path)

    return write
