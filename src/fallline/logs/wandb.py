"""Weights & Biases: a run for each training, grouped by contestant, and one with tables and files.

Where it goes follows from the user's settings: ``WANDB_MODE=offline`` keeps everything in ``wandb/``.
"""

from __future__ import annotations

from pathlib import Path

import wandb

from fallline.document.blocks import Table
from fallline.document.html.tags import file_name
from fallline.logs.material import Material, Run

QUIET = wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True)
"""Its summary of every run would bury the result."""


def write(material: Material, folder: Path) -> str:
    for run in material.runs:
        _write_run(run, material.project, folder)
    with wandb.init(project=material.project, name="result", job_type="result", dir=folder, settings=QUIET) as summary:
        summary.log({file_name(table.name or table.title): _table(table) for table in material.document.tables})
        summary.summary["result"] = material.text
        files = wandb.Artifact(f"{file_name(material.project)}-files", type="results")
        for path in material.artefacts:
            files.add_file(str(path))
        summary.log_artifact(files)
        place = f"{summary.dir} (offline)" if summary.offline else summary.url
    return f"{len(material.runs)} runs are in the project {material.project} of wandb: {place}"


def _write_run(run: Run, project: str, folder: Path) -> None:
    with wandb.init(
        project=project, name=run.name, group=run.group, config=dict(run.settings), dir=folder, settings=QUIET
    ) as written:
        points: dict[int, dict[str, float]] = {}
        for curve in run.curves:
            for step, value, seconds in curve.points():
                points.setdefault(step, {"seconds of training": seconds})[curve.name] = value
        for step, values in sorted(points.items()):
            written.log(values, step=step)
        written.summary.update(dict(run.outcome))


def _table(table: Table) -> wandb.Table:
    return wandb.Table(columns=[*table.header], data=table.texts)
