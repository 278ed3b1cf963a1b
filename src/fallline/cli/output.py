"""Where a verb's result goes: stdout or a file, as text or as JSON; everything else goes to stderr."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fallline.cli.exit_codes import BadInput

if TYPE_CHECKING:
    from rich.console import Console

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else, on stdout.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the result there instead of stdout.")]

PIPED_WIDTH = 10_000
"""Columns of text that goes to a file or a pipe: lines there are not broken, for grep."""


class NotWritten(BadInput):
    """A result that could not go where it was meant to, for want of room for instance."""


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


def emit(data: Any, show: Callable[[Console], None], *, as_json: bool, out: Path | None) -> None:
    """Writes a result: the data itself as JSON, or what ``show`` prints."""
    from rich.console import Console

    if as_json:
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    elif out is None and (console := Console(highlight=False, markup=False)).is_terminal:
        show(console)
        return
    else:
        text = render(show, _columns() or PIPED_WIDTH)
    if out is None:
        write(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise NotWritten(f"--out {out}: could not be written ({error.strerror or error})") from error


def write(text: str) -> None:
    """To stdout, as far as somebody reads it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What did not go out would be tried again at the end of the process, with a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # A reader that has enough, as in `fallline optimizers | head -1`, is no error.
        if not isinstance(error, BrokenPipeError):
            raise NotWritten(f"the output could not be written ({error.strerror or error})") from error


def render(show: Callable[[Console], None], width: int) -> str:
    """The same as plain text, without the blanks that pad tables to their width."""
    from rich.console import Console

    text = io.StringIO()
    show(Console(file=text, highlight=False, markup=False, width=width, force_terminal=False, color_system=None))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _columns() -> int | None:
    wanted = os.environ.get("COLUMNS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) > 0 else None
