"""TensorBoard: a folder of events for each run, written by torch's own writer; tables are text, files lie beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from fallline.logs.material import Material, Run

FOLDER = "runs"
"""The folder that ``tensorboard --logdir runs`` and torch's writer take by default."""
SUMMARY = "summary"


def write(material: Material, folder: Path) -> str:
    place = folder / FOLDER / material.project
    for run in material.runs:
        _write_run(run, place)
    with SummaryWriter(str(_emptied(place / SUMMARY))) as writer:
        writer.add_text("result", material.text)
        for path in material.artefacts:
            shutil.copy(path, place / SUMMARY)
    return f"{len(material.runs)} runs are in {place}: tensorboard --logdir {place}"


def _write_run(run: Run, place: Path) -> None:
    with SummaryWriter(str(_emptied(place / run.name))) as writer:
        for curve in run.curves:
            for step, value, seconds in curve.points():
                # Its relative axis then shows seconds of training.
                writer.add_scalar(curve.name, value, step, walltime=seconds)
        writer.add_hparams(
            {"contestant": run.group, **run.settings}, {f"outcome/{k}": v for k, v in run.outcome.items()}, run_name="."
        )


def _emptied(place: Path) -> Path:
    """Without events of an earlier call, which TensorBoard would draw once more."""
    for old in place.glob("events.out.tfevents.*") if place.is_dir() else ():
        old.unlink()
    return place
