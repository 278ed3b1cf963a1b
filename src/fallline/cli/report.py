"""``fallline report``: stored results as one page to look at and to mail."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fallline.cli.exit_codes import BadInput, failing_with
from fallline.cli.options import grouped
from fallline.cli.output import NotWritten, Shown, check_out, emit

if TYPE_CHECKING:
    from fallline.document.blocks import Document
    from fallline.report.composing import Report

DEFAULT = Path("report.html")


@grouped
def report(
    *,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS...",
            help="Results files of race, step, profile and memory, and folders or archives of AlgoPerf's logs.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Write the page there.")] = DEFAULT,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Show the page on this machine instead; it follows the files until Ctrl-C."),
    ] = False,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port of --serve; 0 takes one that is free.")
    ] = 0,
    shown: Shown,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Make one page of stored results. It has verdicts, tables and figures, and needs no network.

    A race may still run; with --serve the page follows it.
    """
    form = shown.chosen
    if serve:
        _serve(files, port, quiet)
        return
    if port:
        raise BadInput("--port: is for --serve; give that too, or leave the port out")
    check_out(out)
    _keep_results(files, out)
    with _reading():
        from fallline.report.composing import report as read_report

        made = read_report(files)
        page = made.page()
    _write(out, page)
    for remark in made.remarks:
        typer.echo(f"note: {remark}", err=True)
    if not quiet:
        emit(_told(made, out, len(page.encode("utf-8"))), form)


def _reading() -> failing_with:
    from fallline.document.html.library import LibraryUnavailable
    from fallline.measure.store import StoreError

    return failing_with(bad_input=(StoreError, LibraryUnavailable))


def _keep_results(files: Sequence[Path], out: Path) -> None:
    for path in files:
        if out.exists() and path.exists() and out.samefile(path):
            raise BadInput(f"--out {out}: is one of the results files; name another file")


def _told(made: Report, out: Path, size: int) -> Document:
    """Where the page is, and what it says first."""
    from fallline.document.blocks import Document, Paragraph

    results = [
        {"file": str(path), "kind": section.kind, "data": section.document.provenance.data, "verdicts": verdicts}
        for path, section, verdicts in zip(made.paths, made.sections, made.verdicts, strict=True)
    ]
    lines = [
        Paragraph(verdicts[0], lead=section.name)
        for section, verdicts in zip(made.sections, made.verdicts, strict=True)
        if verdicts
    ]
    lines.append(Paragraph(f"{out}, {size / 1e6:.1f} MB: open it in a browser."))
    return Document(lines, result={"page": str(out), "bytes": size, "results": results, "notes": list(made.remarks)})


def _write(out: Path, page: str) -> None:
    """Writes the file whole or not at all: a page that was there stays until the new one is complete."""
    try:
        with _beside(out) as path:
            path.write_text(page, encoding="utf-8")
            os.replace(path, out)
    except OSError as error:
        raise NotWritten(f"--out {out}: could not be written ({error.strerror or error})") from error


@contextlib.contextmanager
def _beside(out: Path) -> Iterator[Path]:
    """A name for a file in the same folder, of which nothing is left."""
    handle, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.parent)
    os.close(handle)
    try:
        # mkstemp lets nobody else read; a page is as readable as any other file.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        yield Path(name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _serve(files: Sequence[Path], port: int, quiet: bool) -> None:
    import asyncio

    with _reading():
        from fallline.report.server import serve

        def ready(address: str) -> None:
            # On stdout, because scripts wait for it.
            typer.echo(address if quiet else f"{address} follows {', '.join(map(str, files))} until Ctrl-C")

        try:
            asyncio.run(serve(files, port, ready, lambda text: typer.echo(text, err=True)))
        except OSError as error:
            raise BadInput(f"--port {port}: cannot be used ({error.strerror}); name another, or 0 for any") from None
