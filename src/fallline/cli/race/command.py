"""``fallline race``: which optimizer trains a workload fastest, each tuned with the same care."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fallline.cli.contestants import listing, show_listing
from fallline.cli.exit_codes import BadInput
from fallline.cli.output import Json, Out, check_out, emit
from fallline.cli.race.request import (
    check_size,
    default_results,
    read_contestants,
    read_entries,
    read_rules,
    results_of,
)
from fallline.cli.score import check_figures, draw_figures

if TYPE_CHECKING:
    from rich.console import Console

    from fallline.race.contestants import Contestant
    from fallline.race.plan import Entry, Rules
    from fallline.race.summary import Summary


def race(
    workloads: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORKLOAD]...", help="Built-in names, FILE.py or FILE.py:function, or `algoperf`."),
    ] = None,
    optimizers: Annotated[
        list[str] | None,
        typer.Option(
            "--optimizer",
            "-o",
            metavar="NAME",
            help="An optimizer, AlgoPerf entry, FILE.py:Class or one of --contestants; may be repeated.",
        ),
    ] = None,
    toml: Annotated[
        str | None,
        typer.Option(
            "--contestants", metavar="FILE", help="Contestants of your own, TOML; `list` shows those there are."
        ),
    ] = None,
    ruleset: Annotated[
        str | None,
        typer.Option("--ruleset", help="external (tuned), self (untuned, 3× budget) or budget (equal time)."),
    ] = None,
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="Quasirandom trials per study.")] = None,
    studies: Annotated[
        int | None, typer.Option("--studies", min=1, help="Repetitions of the tuning; AlgoPerf: 5.")
    ] = None,
    target: Annotated[
        float | None, typer.Option("--target", help="The metric to reach, instead of the workload's.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="The budget in steps.")] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", help="With --ruleset budget: so long everybody trains, on the calibrated clock."),
    ] = None,
    self_factor: Annotated[
        float,
        typer.Option(
            "--self-factor", min=1.0, max=1000.0, help="Budget of self-tuning over the normal one; 1.5 since v0.6."
        ),
    ] = 3.0,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Race the held-out variants of the workloads too.")
    ] = False,
    clock: Annotated[
        str, typer.Option("--clock", help="calibrated, or steps: no seconds, no calibration.")
    ] = "calibrated",
    early_stop: Annotated[
        bool, typer.Option("--early-stop/--no-early-stop", help="End trials that can no longer count.")
    ] = True,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Trials side by side; default: cores.")
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="local or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="Of the Ray cluster; default: start one here.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="FILE", help="The results file; the same command goes on with it."),
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Begin anew if the race in --results has ended; an unfinished one goes on.")
    ] = False,
    save_every: Annotated[
        float | None,
        typer.Option(
            "--save-every",
            metavar="SECONDS",
            min=0.0,
            help="Between checkpoints of a trial; 0: at every evaluation. Default: 30, more where saving takes long.",
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Measure the steps of the race in --results anew, and end."),
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="Say how far the race in --results is, and end.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would run: counts, hours, memory, and end.")] = False,
    export: Annotated[
        str | None, typer.Option("--export", help="csv or parquet: write --results as tables, and end.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="DIR", help="Write profiles and scores there, as PNG and SVG.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of trial points and of trainings.")] = 0,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress; the leaderboard and the verdict only.")
    ] = False,
    out: Out = None,
) -> None:
    """Race optimizers to a target; without arguments, five of them on `chars` with three seeds each."""
    if export is None:
        check_out(out)
    check_figures(figures)
    if toml == "list":
        emit(listing(), show_listing, as_json=as_json, out=out)
        return
    from fallline.measure.store import StoreError
    from fallline.race.defaults import WORKLOAD
    from fallline.race.run import RaceError
    from fallline.workloads import WorkloadError

    silent = quiet or as_json
    try:
        if status or export or calibrate:
            path = results or results_of(workloads or [], held_out)
            if export:
                _export(path, export, out, as_json)
                return
            summary = _measure_again(path, silent) if calibrate else _read(path)
        else:
            _check_engine(engine, address)
            rules = read_rules(
                workloads, ruleset, trials, studies, seed, self_factor, clock, early_stop, seconds, max_steps
            )
            entries = read_entries(workloads or [WORKLOAD], target, max_steps, held_out)
            contestants = read_contestants(optimizers or [], toml)
            check_size(entries, contestants, rules)
            path = results or default_results(entries)
            if plan:
                _plan(entries, contestants, rules, _jobs(engine, jobs), path, as_json, out)
                return
            start = _engine(engine, jobs, address)
            summary = _run(entries, contestants, rules, path, start, anew, silent, save_every)
    except (StoreError, WorkloadError) as error:
        raise BadInput(str(error)) from None
    except RaceError as error:
        typer.echo(f"fallline: {error}", err=True)
        raise typer.Exit(1) from None
    if figures is not None:
        draw_figures(summary.board, figures, quiet)
    emit(summary.as_data(), lambda console: show(console, summary, path, quiet=quiet), as_json=as_json, out=out)
    if summary.broken:
        raise typer.Exit(1)


def _check_engine(kind: str, address: str | None) -> None:
    if kind not in ("local", "ray"):
        raise BadInput(f"--engine must be local or ray, got {kind!r}")
    if kind == "local" and address is not None:
        raise BadInput(f"--address {address}: is for --engine ray; give that too, or leave the address away")


def _jobs(engine: str, jobs: int | None) -> int:
    """Trials side by side: no more than processors, which they would share, each with its own model and data."""
    from fallline.measure.machine import cores

    if jobs is None or engine != "local" or jobs <= cores():
        return jobs or cores()
    typer.echo(f"--jobs {jobs}: there are {cores()} processors; as many trials run side by side", err=True)
    return cores()


def _engine(kind: str, jobs: int | None, address: str | None) -> Callable[[], Any]:
    """Makes the engine when it is needed: a cluster is not started for a file that cannot be written."""
    if kind == "local":
        from fallline.race.engine import LocalEngine

        return lambda: LocalEngine(_jobs(kind, jobs))
    from fallline.race.ray_engine import RayEngine, RayUnavailable

    def start() -> RayEngine:
        try:
            return RayEngine(jobs, address)
        except RayUnavailable as error:
            raise BadInput(f"--engine ray: {error}") from None

    return start


def _run(
    entries: list[Entry],
    contestants: list[Contestant],
    rules: Rules,
    path: Path,
    start_engine: Callable[[], Any],
    anew: bool,
    quiet: bool,
    save_every: float | None,
) -> Summary:
    from fallline.cli.race.progress import progress_of
    from fallline.race.results import Results
    from fallline.race.run import Race
    from fallline.race.summary import summarize

    with Results(path) as store:
        engine = start_engine()
        try:
            if anew:  # not before there is an engine to race with
                store.make_room(entries)
            with progress_of(quiet) as progress:
                Race(entries, contestants, rules, store, engine, progress, save_every, sys.argv[1:]).run()
        except KeyboardInterrupt:
            rows = store.rows()
            done = sum(row.status is not None for row in rows)
            typer.echo(f"{done} of {len(rows)} trials are done; the same command goes on with {path}", err=True)
            raise
        finally:
            engine.close()
        return summarize(store)


def _measure_again(path: Path, quiet: bool) -> Summary:
    from fallline.race.engine import LocalEngine
    from fallline.race.results import Results
    from fallline.race.run import Progress, Race
    from fallline.race.summary import summarize

    if not path.exists():
        raise BadInput(f"{path}: there is no such results file")
    with Results(path) as store:
        engine = LocalEngine(1)
        progress = Progress() if quiet else Progress(notice=lambda text: typer.echo(text, err=True))
        try:
            Race(store.entries(), store.contestants(), store.rules(), store, engine, progress).measure_again()
        finally:
            engine.close()
        return summarize(store)


def _plan(
    entries: list[Entry],
    contestants: list[Contestant],
    rules: Rules,
    jobs: int,
    path: Path,
    as_json: bool,
    out: Path | None,
) -> None:
    from fallline.race.estimate import estimate

    found = estimate(entries, contestants, rules, jobs, path)

    def show_plan(console: Console) -> None:
        for line in found.lines():
            console.print(line)

    emit(found.as_data(), show_plan, as_json=as_json, out=out)


def _read(path: Path) -> Summary:
    from fallline.race.results import Results
    from fallline.race.summary import summarize

    with Results(path, writable=False) as store:
        return summarize(store)


def _export(path: Path, form: str, folder: Path | None, as_json: bool) -> None:
    from fallline.race.export import FORMATS, ExportUnavailable, export
    from fallline.race.results import Results

    if form not in FORMATS:
        raise BadInput(f"--export must be {' or '.join(FORMATS)}, got {form!r}")
    with Results(path, writable=False) as store:
        try:
            written = export(store, folder or path.parent, form)
        except ExportUnavailable as error:
            raise BadInput(f"--export {form}: {error}") from None
        except OSError as error:
            raise BadInput(f"--export {form}: {error.filename}: {error.strerror}; name a folder with --out") from None
    names = [str(file) for file in written]
    emit(names, lambda console: console.print("\n".join(names), soft_wrap=True), as_json=as_json, out=None)


def show(console: Console, summary: Summary, path: Path, *, quiet: bool) -> None:
    from fallline.race.document import show_race

    show_race(console, summary, path, quiet=quiet)
