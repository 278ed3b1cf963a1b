"""A results file as flat tables: trials and evaluations, as CSV or Parquet."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from fallline.race.results import Results

TABLES = {
    "trials": "select kind, workload, contestant, study, number, seed, point, status, max_steps, steps,"
    " steps_to_target, seconds_to_target, training_seconds, evaluation_seconds, attempts, note from trial order by id",
    "evaluations": "select kind, workload, contestant, study, number, step, value, loss, e.training_seconds"
    " from evaluation e join trial t on t.id = e.trial order by t.id, step",
    "calibration": "select workload, contestant, step_seconds, low, high, switch_seconds, state_bytes, parameter_bytes,"
    " machine from calibration",
}


class ExportUnavailable(RuntimeError):
    """A format whose package is not installed."""


def export(results: Results, folder: Path, form: str) -> list[Path]:
    """One file per table; returns them."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, query in TABLES.items():
        rows = [dict(row) for row in results.store.rows(query)]
        columns = list(rows[0]) if rows else []
        path = folder / f"{results.path.stem}-{name}.{form}"
        if form == "csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                writer.writerows(rows)
        else:
            _parquet(path, columns, rows)
        written.append(path)
    return written


def _parquet(path: Path, columns: list[str], rows: list[dict[str, Any]]) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ExportUnavailable("Parquet needs pyarrow; pip install pyarrow, or --export csv") from None
    table = pyarrow.table({name: [row[name] for row in rows] for name in columns})
    pyarrow.parquet.write_table(table, path)
