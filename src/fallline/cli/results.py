"""``fallline results``: what a race that is stored says, its tables, and its clock measured again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fallline.cli.exit_codes import BadInput
from fallline.cli.options import grouped
from fallline.cli.output import Figures, Written, check_figures, draw, emit
from fallline.cli.race.command import race_errors
from fallline.cli.race.request import file_of, files_that_would_run, read_share, results_of

if TYPE_CHECKING:
    from fallline.race.results import Results
    from fallline.race.verdict.summary import Summary

app = typer.Typer(
    help="Show, ask, export or calibrate a stored race.",
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
)

File = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="The results file; by default the only race-*.sqlite here.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="The leaderboard and the verdict only.")]


@app.command("status")
@grouped
def status(*, file: File = None, figures: Figures = None, shown: Written, quiet: Quiet = False) -> None:
    """Say how far a race is. What is known so far is shown, also while it runs."""
    form = shown.checked()
    check_figures(figures)
    from fallline.race.results import Results
    from fallline.race.verdict.summary import summarize

    path = file or results_of([], held_out=False)
    with race_errors(), Results(path, writable=False) as store:
        summary = summarize(store)
    _show(summary, path, form, figures, quiet, shown.out)


@app.command("ask")
@grouped
def ask_race(
    *,
    file: File = None,
    between: Annotated[
        str | None, typer.Option("--between", metavar="NAMES", help="These contestants alone: adan,adamw.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="NAME", help="Compare with this one: is any better than it?")
    ] = None,
    within: Annotated[
        str | None, typer.Option("--within", metavar="SHARE", help="Another loss to accept: 2% or 0.02.")
    ] = None,
    in_advance: Annotated[
        bool,
        typer.Option("--in-advance", help="The question was fixed before anybody saw results: intervals are narrower."),
    ] = False,
    shown: Written,
) -> None:
    """Ask a stored race about some contestants. Nothing runs: the studies that there are answer."""
    form = shown.checked()
    from fallline.document.blocks import Document, Verdict
    from fallline.race.results import Results
    from fallline.race.verdict.asking import ask

    names = [] if between is None else [name.strip() for name in between.split(",")]
    if between is not None and not all(names):
        raise BadInput(f"--between {between!r}: give names with commas between them, such as adan,adamw")
    share = None if within is None else read_share("--within", within)
    path = file or results_of([], held_out=False)
    with race_errors(), Results(path, writable=False) as store:
        answer = ask(store, names, against, share, in_advance=in_advance)
    emit(Document([Verdict(line) for line in answer.lines], result=answer.as_data()), form, out=shown.out)


@app.command("export")
@grouped
def export(
    *,
    file: File = None,
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="csv or parquet.")] = "csv",
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write there; by default beside the results file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the names of the files as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Write a race as tables. One each for workloads, trials, evaluations, step times, their samples and runs."""
    from fallline.document.blocks import Document, Snippet
    from fallline.race.results import Results
    from fallline.race.results.export import FORMATS, ExportUnavailable
    from fallline.race.results.export import export as write_tables

    if form not in FORMATS:
        raise BadInput(f"--format must be {' or '.join(FORMATS)}, got {form!r}")
    path = file or results_of([], held_out=False)
    with race_errors(), Results(path, writable=False) as store:
        try:
            written = write_tables(store, folder or path.parent, form)
        except ExportUnavailable as error:
            raise BadInput(f"--format {form}: {error}") from None
        except OSError as error:
            raise BadInput(f"{error.filename}: {error.strerror}; name a folder with --out") from None
    if as_json or not quiet:
        names = [str(one) for one in written]
        emit(Document([Snippet("\n".join(names))], result=names), "json" if as_json else "text")


@app.command("calibrate")
@grouped
def calibrate(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The results file.")],
    code: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE.py",
            help="Workloads and optimizers of yours that were raced: their code runs again only if you name them.",
        ),
    ] = None,
    figures: Figures = None,
    shown: Written,
    quiet: Quiet = False,
) -> None:
    """Measure steps again. On a quiet machine, for trials that ran in a busy hour; the race is shown with them."""
    form = shown.checked()
    check_figures(figures)
    if not file.exists():
        raise BadInput(f"{file}: there is no such results file")
    with race_errors():
        summary = _measure_again(file, code or [], quiet or form == "json")
    _show(summary, file, form, figures, quiet, shown.out)


def _show(summary: Summary, path: Path, form: str, figures: Path | None, quiet: bool, out: Path | None) -> None:
    from fallline.race.ladder.document import document_of

    made = document_of(summary, path)
    if figures is not None:
        draw(made.figures, figures, quiet)
    emit(made, form, out=out, quiet=quiet)
    if summary.broken:
        raise typer.Exit(1)


def _measure_again(path: Path, code: Sequence[str], silent: bool) -> Summary:
    from fallline.race.engine import LocalEngine
    from fallline.race.progress import Progress
    from fallline.race.results import Results, resume
    from fallline.race.run import Race
    from fallline.race.verdict.summary import summarize

    with Results(path) as store:
        _check_consent(store, path, code)
        engine = LocalEngine(1)
        progress = Progress() if silent else Progress(notice=lambda text: typer.echo(text, err=True))
        try:
            entries = resume.entries_again(store, [row["spec"] for row in store.workloads().values()])
            Race(entries, store.contestants(), store.rules(), store, engine, progress).measure_again()
        finally:
            engine.close()
        return summarize(store)


def _check_consent(store: Results, path: Path, code: Sequence[str]) -> None:
    """A results file may come from anybody, and names files to run: only those that the user names too are run."""
    from fallline.race.results.resume import calibrate_command

    wanted, named = files_that_would_run(store), {file_of(name) for name in code}
    strange = sorted(str(name) for name in named - set(wanted))
    if strange:
        raise BadInput(f"{strange[0]}: was not raced in {path}; leave it out")
    if not set(wanted) <= named:
        files = ", ".join(map(str, wanted))
        again = calibrate_command(path, wanted)
        raise BadInput(f"{path}: would run the code in {files}; if you trust it, name it: `{again}`")
