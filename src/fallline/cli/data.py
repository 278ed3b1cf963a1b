"""``fallline data``: finds, checks or downloads the real data sets that workloads use when they are there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fallline.cli.exit_codes import FAILED, BadInput
from fallline.cli.output import Json, Out, check_out, emit

if TYPE_CHECKING:
    from rich.console import Console

DATA_SETS = ("fashion-mnist",)


def data(
    name: Annotated[str, typer.Argument(help="The data set: fashion-mnist.")] = "fashion-mnist",
    download: Annotated[bool, typer.Option(help="Fetch it when it is missing or damaged.")] = True,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Look here, and download to here, not in the usual places.")
    ] = None,
    mirror: Annotated[
        str | None, typer.Option("--from", metavar="URL", help="Fetch from there instead of from its authors.")
    ] = None,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing while downloading.")] = False,
    out: Out = None,
) -> None:
    """Find, check or download a real data set.

    Workloads run without: they use generated data then, and every result names the data it used.
    """
    check_out(out)
    if name.replace("_", "-").lower() not in DATA_SETS:
        raise BadInput(f"there is no data set {name!r}; there is {', '.join(DATA_SETS)}")
    from fallline.workloads import fashion_mnist
    from fallline.workloads.idx import BadFile

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
    result: dict[str, Any] = {"data": fashion_mnist.NAME, "folder": str(found), "files": counts, "checked": True}
    emit(result, lambda console: _show(console, result), as_json=as_json, out=out)


def _problem(folder: Path | None) -> str | None:
    """What is wrong with the data there, in one line; None if nothing is."""
    from fallline.workloads import fashion_mnist
    from fallline.workloads.idx import BadFile

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


def _show(console: Console, result: dict[str, Any]) -> None:
    for part, count in result["files"].items():
        console.print(f"  {part}: {count:,}")
    console.print(f"{result['data']} is in {result['folder']}, whole: sizes and checksums are right.", soft_wrap=True)
