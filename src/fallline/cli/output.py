"""Where a verb's result goes, and in which form: to stdout or a file; everything else goes to stderr."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fallline.cli.exit_codes import BadInput

if TYPE_CHECKING:
    from fallline.document.blocks import Document
    from fallline.document.figures import Figure

FORMS = ("text", "json", "csv", "markdown", "html")

PIPED_WIDTH = 10_000
"""Columns of text that goes to a file or a pipe: lines there are not broken, for grep."""


class NotWritten(BadInput):
    """A result that could not go where it was meant to, for want of room for instance."""


@dataclasses.dataclass(frozen=True)
class Shown:
    """The form in which a result is shown."""

    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, on stdout.")] = (
        False
    )
    form: Annotated[
        str | None, typer.Option("--format", metavar="FORM", help="text, markdown, csv, json or html; text by default.")
    ] = None

    @property
    def chosen(self) -> str:
        """One of ``FORMS``; :class:`BadInput` where several are asked for."""
        wanted = {form: option for option, form in self._asked()}
        if len(wanted) > 1:
            raise BadInput(f"{' and '.join(wanted.values())} exclude each other; choose one")
        chosen = next(iter(wanted), "text")
        if chosen not in FORMS:
            raise BadInput(f"--format {chosen}: must be one of {', '.join(FORMS)}")
        if chosen == "html":
            _check_pages()
        return chosen

    def _asked(self) -> list[tuple[str, str]]:
        """Options that name a form, with the form."""
        found = [("--json", "json")] if self.as_json else []
        return found + ([(f"--format {self.form}", self.form)] if self.form is not None else [])


@dataclasses.dataclass(frozen=True)
class ShownShort(Shown):
    """The same with two shorter options."""

    as_csv: Annotated[bool, typer.Option("--csv", help="Print every number as CSV.")] = False
    as_md: Annotated[bool, typer.Option("--md", help="Print the tables in Markdown.")] = False

    def _asked(self) -> list[tuple[str, str]]:
        short = (("--csv", "csv", self.as_csv), ("--md", "markdown", self.as_md))
        return [*super()._asked(), *((option, form) for option, form, wanted in short if wanted)]


@dataclasses.dataclass(frozen=True)
class Written(Shown):
    """The form of a result, and the file that it may go to instead of stdout."""

    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the result there instead of stdout.")
    ] = None

    def checked(self) -> str:
        """The form, once it is known that the file can be written."""
        form = self.chosen
        check_out(self.out)
        return form


@dataclasses.dataclass(frozen=True)
class WrittenShort(Written, ShownShort):
    """The same with two shorter options."""


NamesOnly = Annotated[bool, typer.Option("--quiet", "-q", help="Print the names only.")]


def check_out(out: Path | None, option: str = "--out") -> None:
    """Refuses a file that cannot be written, before any work is done for it."""
    if out is None:
        return
    if out.is_dir():
        raise BadInput(f"{option} {out}: this is a directory; name a file")
    if not out.parent.is_dir():
        raise BadInput(f"{option} {out}: there is no directory {out.parent}; make it first")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise BadInput(f"{option} {out}: not writable; name another file")


def emit(document: Document, form: str = "text", *, out: Path | None = None, quiet: bool = False) -> None:
    """Writes a document, or what ``--quiet`` leaves of it, in one of ``FORMS``."""
    from rich.console import Console

    from fallline.document import terminal

    shown = document.brief() if quiet else document
    if form == "text" and out is None and (console := Console(highlight=False, markup=False)).is_terminal:
        terminal.show(shown, console)
        return
    text = _rendered(shown, form)
    if out is None:
        write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise NotWritten(f"--out {out}: could not be written ({error.strerror or error})") from error


def _rendered(document: Document, form: str) -> str:
    if form == "json":
        from fallline.document.json import json_text

        return json_text(document)
    if form == "csv":
        from fallline.document.csv import csv_text

        return csv_text(document)
    if form == "markdown":
        from fallline.document.markdown import markdown

        return markdown(document)
    if form == "html":
        return _page(document)
    from fallline.document.terminal import plain

    return plain(document, _columns() or PIPED_WIDTH)


def _check_pages() -> None:
    """Refuses a page whose figures could not be drawn, before any work is done for it."""
    from fallline.document.html.library import UNAVAILABLE, available

    if not available():
        raise BadInput(f"--format html: {UNAVAILABLE}")


def _page(document: Document) -> str:
    from fallline.document.html.page import Section, page

    return page("fallline", [Section("result", "Result", document)])


def write(text: str) -> None:
    """Writes to stdout, as far as somebody reads it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Python would try to write the rest at the end of the process, with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # A reader that has enough, as in `fallline optimizers | head -1`, is no error.
        if not isinstance(error, BrokenPipeError):
            raise NotWritten(f"the output could not be written ({error.strerror or error})") from error


def _columns() -> int | None:
    wanted = os.environ.get("COLUMNS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) > 0 else None


# ------------------------------------------------------------------ figures

Figures = Annotated[
    Path | None, typer.Option("--figures", metavar="DIR", help="Write the figures there, as PNG and SVG.")
]


def check_figures(folder: Path | None) -> None:
    """Refuses, before any work is done for them, figures that could not be written."""
    if folder is None:
        return
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--figures {folder}: this is a file; name a folder")
    from fallline.document.picture import UNAVAILABLE, available

    if not available():
        raise BadInput(f"--figures {folder}: {UNAVAILABLE}")


def draw(figures: list[Figure], folder: Path, quiet: bool) -> None:
    """Writes every figure of a document to a folder."""
    from fallline.document.picture import FiguresUnavailable, save_all

    try:
        written = save_all(figures, folder)
    except FiguresUnavailable as error:
        raise BadInput(f"--figures {folder}: {error}") from None
    except OSError as error:
        raise BadInput(f"--figures {folder}: {error.strerror}; name another folder") from None
    if not quiet:
        typer.echo(f"Figures: {', '.join(map(str, written)) or 'none, there is nothing to draw'}", err=True)
