"""``--log``: a copy of results in a tracker of the user's."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fallline.cli.exit_codes import BadInput

if TYPE_CHECKING:
    from fallline.logs.material import Material

Log = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="TRACKER",
        help="Also write curves, tables and files to tensorboard, trackio, wandb or mlflow, as their own settings say.",
    ),
]


def check_log(tracker: str | None) -> None:
    """Refuses, before any work is done for it, a tracker that could not be written to."""
    if tracker is None:
        return
    from fallline.logs.sinks import SinkUnavailable, check

    try:
        check(tracker)
    except SinkUnavailable as error:
        raise BadInput(f"--log {error}") from None


def write_log(material: Material, results: Path, tracker: str) -> None:
    """Writes results, and the page of their report among their files, beside the results file."""
    from fallline.logs.sinks import SinkUnavailable, log

    with tempfile.TemporaryDirectory() as folder:
        page = _page(results, Path(folder) / "report.html")
        whole = dataclasses.replace(material, artefacts=[*material.artefacts, *page])
        try:
            told = log(whole, tracker, results.parent)
        except SinkUnavailable as error:
            # Nothing is lost: the results are in their file, and the same command logs them again.
            typer.echo(f"fallline: --log {error}; the results are in {results}", err=True)
            raise typer.Exit(1) from None
    typer.echo(told, err=True)


def _page(results: Path, path: Path) -> list[Path]:
    from fallline.document.html.library import available
    from fallline.measure.store import StoreError
    from fallline.report.composing import report

    if not available():
        return []
    try:
        page = report([results]).page()
    except StoreError:  # a report runs no file of a user's, and so has no page of a profile of one
        return []
    path.write_text(page, encoding="utf-8")
    return [path]
