"""``fallline gallery``: the figures of a lecture on optimizers, computed here, on one page."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fallline.cli.exit_codes import BadInput, failing_with
from fallline.cli.options import grouped
from fallline.cli.output import NotWritten, Shown, emit

if TYPE_CHECKING:
    from fallline.document.blocks import Document
    from fallline.gallery.catalogue import Entry
    from fallline.gallery.exhibit import Exhibit

PAGE = "index.html"


@grouped
def gallery(
    *,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Figures of --list; all of them by default.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the figures, and end.")] = False,
    optimizers: Annotated[
        list[str] | None,
        typer.Option("--optimizer", "-o", metavar="NAME", help="For rosenbrock, instead of the lecture's four."),
    ] = None,
    lr: Annotated[float | None, typer.Option("--lr", min=0.0, help="For rosenbrock; 0.003 by default.")] = None,
    logs: Annotated[
        Path | None,
        typer.Option(
            "--logs", metavar="DIR|ARCHIVE", help="For algoperf: its logs, instead of the project's own leaderboard."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The first seed of trainings and draws.")] = 0,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where figures go, as PNG and SVG, and the page of them.")
    ] = Path("gallery"),
    shown: Shown,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the names of the files only.")] = False,
) -> None:
    """Draw the figures of a lecture on optimizers, each computed here, with a caption from its own numbers.

    They go to a folder as PNG and SVG, with one page that shows all of them.
    """
    form = shown.chosen
    from fallline.gallery.catalogue import ENTRIES, entry, make
    from fallline.gallery.exhibit import NoExhibit, Wishes

    if listed:
        emit(_list(), form, quiet=quiet)
        return
    with failing_with(bad_input=(NoExhibit,)):
        wanted = [entry(name) for name in dict.fromkeys(names or ())] or list(ENTRIES)
    _check_folder(out)
    wishes = Wishes(_optimizers(optimizers or []), lr, logs, seed)
    made: dict[str, Exhibit] = {}
    files: dict[str, list[Path]] = {}
    for number, one in enumerate(wanted, 1):
        if not quiet:
            typer.echo(f"{number} of {len(wanted)}: {one.name}: {one.title}", err=True)
        since = time.monotonic()
        with failing_with(bad_input=(NoExhibit,)):
            made[one.name] = make(one.name, wishes)
        # Each is written when it is made: whoever ends the command keeps what is there.
        files[one.name] = _drawn(made[one.name], out)
        if not quiet:
            typer.echo(f"  {time.monotonic() - since:.1f} s", err=True)
    from fallline.gallery.page import document

    emit(document([(one, made[one.name]) for one in wanted], files, _page(wanted, made, out)), form, quiet=quiet)


def _list() -> Document:
    from fallline.document.blocks import Document, Table
    from fallline.document.cells import Column, Text
    from fallline.gallery.catalogue import ENTRIES

    columns = (
        Column("figure", name="name", align="left", key=True),
        Column("what it shows", name="title", align="left", prose=True),
    )
    rows = [(Text(one.name), Text(one.title)) for one in ENTRIES]
    return Document([Table("", columns, rows)], result=[{"name": one.name, "title": one.title} for one in ENTRIES])


def _optimizers(names: list[str]) -> tuple[str, ...]:
    """Known ones; an average of weights or a misspelled name is refused before anything is drawn."""
    import fallline

    try:
        return tuple(fallline.info(name).name for name in dict.fromkeys(names))
    except ValueError as error:
        raise BadInput(f"--optimizer: {error}") from None


def _check_folder(folder: Path) -> None:
    """Makes the folder, before any work is done for it."""
    from fallline.document import picture
    from fallline.document.html import library

    for needed in (picture, library):
        if not needed.available():
            raise BadInput(needed.UNAVAILABLE)
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out {folder}: this is a file; name a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out {folder}: {error.strerror}; name another folder") from None
    if not os.access(folder, os.W_OK):
        raise BadInput(f"--out {folder}: not writable; name another folder")


def _drawn(exhibit: Exhibit, folder: Path) -> list[Path]:
    from fallline.document.picture import save_all

    try:
        return save_all(exhibit.figures, folder)
    except OSError as error:
        raise NotWritten(f"--out {folder}: could not be written ({error.strerror or error})") from error


def _page(wanted: list[Entry], made: Mapping[str, Exhibit], folder: Path) -> Path:
    """One page with all figures, in one file."""
    from fallline.document.html.page import Section, page
    from fallline.gallery.page import section

    sections = [Section(one.title, one.name, section(one, made[one.name])) for one in wanted]
    file = folder / PAGE
    try:
        file.write_text(page("The gallery", sections, together=True), encoding="utf-8")
    except OSError as error:
        raise NotWritten(f"--out {folder}: could not be written ({error.strerror or error})") from error
    return file
