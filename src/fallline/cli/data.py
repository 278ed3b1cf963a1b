"""``fallline data``: finds, checks or downloads the real data sets that workloads use when they are there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fallline.cli.exit_codes import FAILED, BadInput
from fallline.cli.options import grouped
from fallline.cli.output import Written, emit

if TYPE_CHECKING:
    from fallline.document.blocks import Document

DATA_SETS = ("fashion-mnist",)


@grouped
def data(
    *,
    name: Annotated[str, typer.Argument(help="The data set: fashion-mnist.")] = "fashion-mnist",
    download: Annotated[bool, typer.Option(help="Fetch it when it is missing or damaged.")] = True,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Look here, and download to here, not in the usual places.")
    ] = None,
    mirror: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="Fetch from there instead of from its authors.")
    ] = None,
    shown: Written,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing while downloading.")] = False,
) -> None:
    """Find, check or download a real data set.

    Workloads run without: they use generated data then, and every result names the data it used.
    """
    form = shown.checked()
    if name.replace("_", "-").lower() not in DATA_SETS:
        raise BadInput(f"there is no data set {name!r}; there is {', '.join(DATA_SETS)}")
    from fallline.workloads.data import fashion_mnist
    from fallline.workloads.data.idx import BadFile

    found = folder if folder is not None else fashion_mnist.installed()
    problem = _problem(found)
    if problem and download:
        found = folder or fashion_mnist.cache_folder()
        base = fashion_mnist.AUTHORS if mirror is None else mirror.rstrip("/") + "/"
        try:
            fashion_mnist.download(found, base, say=_silent if quiet else _say)
            problem = _problem(found)
        except BadFile as error:
            problem = str(error)
        except OSError as error:
            problem = f"{found}: cannot be written ({error.strerror}); name another folder with --folder"
    if problem:
        typer.echo(f"fallline: {problem}", err=True)
        raise typer.Exit(FAILED)
    counts = {" ".join(key): file.shape[0] for key, file in fashion_mnist.FILES.items()}
    emit(document(fashion_mnist.NAME, str(found), counts), form, out=shown.out)


def _problem(folder: Path | None) -> str | None:
    """The first problem with the data there, in one line; None if there is none."""
    from fallline.workloads.data import fashion_mnist
    from fallline.workloads.data.idx import BadFile

    if folder is None:
        return (
            f"{fashion_mnist.NAME} is not on this machine; leave out --no-download to fetch it, or on Debian: "
            f"apt install {fashion_mnist.DEBIAN_PACKAGE}"
        )
    try:
        fashion_mnist.check(folder)
    except BadFile as error:
        return str(error)
    return None


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _silent(text: str) -> None:
    pass


def document(name: str, folder: str, counts: Mapping[str, int]) -> Document:
    from fallline.document.blocks import Document, Table, Verdict
    from fallline.document.cells import Column, Number, Text

    columns = (
        Column("", name="file", align="left", key=True),
        Column("", name="samples", digits="thousands"),
    )
    rows = [(Text(part), Number(count)) for part, count in counts.items()]
    sentence = f"{name} is in {folder}, whole: sizes and checksums are right."
    result = {"data": name, "folder": folder, "files": dict(counts), "checked": True}
    return Document((Table("", columns, rows), Verdict(sentence)), result=result)
