"""MLflow: an experiment with a run for each training, and one with tables and files.

Where it goes follows from the user's settings: ``MLFLOW_TRACKING_URI``, or MLflow's own default.
"""

from __future__ import annotations

from pathlib import Path

import mlflow
from mlflow.entities import Metric, Param, RunTag

from fallline.document.blocks import Document
from fallline.document.csv import csv_text
from fallline.document.html.tags import file_name
from fallline.logs.material import Material, Run

BATCH = 1000
"""Metrics that one call may bring."""


def write(material: Material, folder: Path) -> str:
    client = mlflow.MlflowClient()
    found = client.get_experiment_by_name(material.project)
    experiment = client.create_experiment(material.project) if found is None else found.experiment_id
    for run in material.runs:
        _write_run(client, experiment, run)
    summary = client.create_run(experiment, run_name="result").info.run_id
    client.log_text(summary, material.text, "result.md")
    for table in material.document.tables:
        client.log_text(summary, csv_text(Document([table])), f"tables/{file_name(table.name or table.title)}.csv")
    for path in material.artefacts:
        client.log_artifact(summary, str(path))
    client.set_terminated(summary)
    return f"{len(material.runs)} runs are in the experiment {material.project} at {mlflow.get_tracking_uri()}"


def _write_run(client: mlflow.MlflowClient, experiment: str, run: Run) -> None:
    number = client.create_run(experiment, run_name=run.name).info.run_id
    metrics = [
        Metric(curve.name, value, round(1000 * seconds), step)
        for curve in run.curves
        for step, value, seconds in curve.points()
    ]
    metrics += [Metric(f"outcome/{name}", value, 0, 0) for name, value in run.outcome.items()]
    params = [Param(name, str(value)) for name, value in run.settings.items()]
    client.log_batch(number, params=params, tags=[RunTag("group", run.group)])
    for start in range(0, len(metrics), BATCH):
        client.log_batch(number, metrics=metrics[start : start + BATCH])
    client.set_terminated(number)
