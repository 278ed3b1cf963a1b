"""trackio: a run for each training, grouped by contestant, and one with the tables.

Where it goes follows from the user's settings: ``TRACKIO_DIR`` on this machine by default.
"""

from __future__ import annotations

from pathlib import Path

import trackio

from fallline.logs.material import Material, Run


def write(material: Material, folder: Path) -> str:
    for run in material.runs:
        _write_run(run, material.project)
    summary = trackio.init(material.project, name="result", group="result", auto_log_cpu=False, auto_log_gpu=False)
    summary.log({"result": trackio.Markdown(material.text)}, step=0)
    trackio.finish()
    return f"{len(material.runs)} runs are in the project {material.project}: trackio show --project {material.project}"


def _write_run(run: Run, project: str) -> None:
    written = trackio.init(
        project,
        name=run.name,
        group=run.group,
        config=dict(run.settings),
        auto_log_cpu=False,
        auto_log_gpu=False,
    )
    for curve in run.curves:
        for step, value, seconds in curve.points():
            written.log({curve.name: value, "seconds of training": seconds}, step=step)
    if run.outcome:
        last = max((curve.steps[-1] for curve in run.curves if curve.steps), default=0)
        written.log({f"outcome/{name}": value for name, value in run.outcome.items()}, step=last)
    trackio.finish()
