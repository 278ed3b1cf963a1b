"""Shows what ``fallline step`` measured, from the results file, in the form that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fallline.cli.exit_codes import BadInput
from fallline.cli.output import NotWritten, check_out, emit
from fallline.cli.step.options import Showing

if TYPE_CHECKING:
    from fallline.document.blocks import Document
    from fallline.step.document import Against
    from fallline.step.plan import Plan
    from fallline.step.results import Results


def check(showing: Showing, plan: Plan) -> None:
    """Refuses what could not be shown at the end, before anything is measured."""
    from fallline.step.published.presets import ADAN_GPT2

    form = showing.chosen
    if showing.figure is not None:
        _check_figure(showing.figure, plan)
    if showing.against is None:
        return
    if form == "csv":
        raise BadInput("--against: has no place among the lines of --csv; use --json or --md")
    if showing.against == ADAN_GPT2 and plan.name != ADAN_GPT2:
        raise BadInput("--against adan-gpt2: compares with --preset adan-gpt2 only; name that preset")
    grid = against(showing)
    if not isinstance(grid, str) and not any((cell.tensors, cell.size) in (grid or {}) for cell in plan.cells):
        raise BadInput(
            f"--against {showing.against}: has none of the numbers and sizes of tensors that this command measures"
        )


def _check_figure(path: Path, plan: Plan) -> None:
    from fallline.document.picture import available

    check_out(path, "--figure")
    if path.suffix not in (".png", ".svg"):
        raise BadInput(f"--figure {path}: must end in .png or .svg")
    if len(plan.cells) < 2 or any(cell.size is None for cell in plan.cells):
        raise BadInput(f"--figure {path}: there is no grid to draw; give several --tensors or --sizes")
    if not available():
        raise BadInput("--figure: needs matplotlib; pip install 'fallline[bench]'")


def against(showing: Showing) -> Against:
    """The published table to compare with."""
    from fallline.step.published import presets, sources

    if showing.against is None or showing.against == presets.ADAN_GPT2:
        return showing.against
    if showing.against == presets.ADAM_GRID:
        return sources.ADAM_GRID
    try:
        return sources.read_grid(Path(showing.against))
    except sources.BadTable as error:
        raise BadInput(str(error)) from error


def present(plan: Plan, results: Results, showing: Showing, quiet: bool) -> None:
    from fallline.step.document import Report

    form = showing.chosen
    made = Report(plan, results, against(showing), exact=form == "markdown").document()
    there = f"the samples are in {made.provenance.file}: make room and give the same command again"
    if showing.figure is not None:
        _draw(made, showing.figure, there)
    try:
        emit(made, form, quiet=quiet and form == "text")
    except NotWritten as error:
        raise BadInput(f"{error}; {there}") from error


def _draw(made: Document, path: Path, there: str) -> None:
    from fallline.document.picture import save

    footer = f"fallline step, data {made.provenance.data}; the stronger the colour, the larger the lead"
    try:
        save(made.figures, path, footer)
    except OSError as error:
        raise BadInput(f"--figure {path}: {error.strerror or error}; {there}") from error
