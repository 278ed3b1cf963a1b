"""``fallline race``: which optimizer trains a workload fastest, each tuned with the same care."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fallline.cli.exit_codes import BadInput, failing_with
from fallline.cli.options import grouped
from fallline.cli.output import Figures, Written, check_figures, draw, emit
from fallline.cli.race.options import Design, Entered, Retired, Running
from fallline.cli.race.request import Request, read_request
from fallline.cli.race.retired import check_retired
from fallline.cli.trackers import Log, check_log, write_log

if TYPE_CHECKING:
    from fallline.race.verdict.summary import Summary


@grouped
def race(
    *,
    entered: Entered,
    design: Design,
    running: Running,
    retired: Retired,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would run: counts, hours, memory, and end.")] = False,
    figures: Figures = None,
    log: Log = None,
    shown: Written,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress; the leaderboard and the verdict only.")
    ] = False,
) -> None:
    """Race optimizers to a target. Without arguments five of them race on `chars`, in rounds until one can be taken.

    `fallline contestants` lists those that can race; `fallline results` shows, exports or calibrates a stored race.
    """
    check_retired(retired, entered, running)
    form = shown.checked()
    check_figures(figures)
    check_log(log)
    from fallline.race.document import plan_document
    from fallline.race.ladder.document import document_of

    with race_errors():
        _check_engine(running)
        request = read_request(entered, design, running.results)
        if plan:
            from fallline.race.estimate import estimate

            jobs = _jobs(running)
            made = estimate(request.entries, request.contestants, request.rules, jobs, request.path)
            emit(plan_document(made), form, out=shown.out)
            return
        summary = _run(request, running, quiet or form == "json")
    shown_race = document_of(summary, request.path)
    if figures is not None:
        draw(shown_race.figures, figures, quiet)
    emit(shown_race, form, out=shown.out, quiet=quiet)
    if log is not None:
        from fallline.race.logged import material_of

        write_log(material_of(request.path), request.path, log)
    if summary.broken:
        raise typer.Exit(1)


def race_errors() -> failing_with:
    """Bad input ends with 2, a race that cannot be run with 1; both in one line."""
    from fallline.measure.store import StoreError
    from fallline.race.progress import RaceError
    from fallline.workloads import WorkloadError

    return failing_with(bad_input=(StoreError, WorkloadError), failed=(RaceError,))


def _check_engine(running: Running) -> None:
    if running.engine not in ("local", "ray"):
        raise BadInput(f"--engine must be local or ray, got {running.engine!r}")
    if running.engine == "local" and running.address is not None:
        raise BadInput(f"--address {running.address}: is for --engine ray; give that too, or leave the address out")


def _jobs(running: Running) -> int:
    """Trials side by side: no more than processors, which they would share, each with its own model and data."""
    from fallline.measure.machine import cores

    jobs = running.jobs
    if jobs is None or running.engine != "local" or jobs <= cores():
        return jobs or cores()
    typer.echo(f"--jobs {jobs}: there are {cores()} processors; as many trials run side by side", err=True)
    return cores()


def _engine(running: Running) -> Callable[[], Any]:
    """Makes the engine when it is needed: a cluster is not started for a file that cannot be written."""
    if running.engine == "local":
        from fallline.race.engine import LocalEngine

        return lambda: LocalEngine(_jobs(running))
    from fallline.race.engine.ray_cluster import RayEngine, RayUnavailable

    def start() -> RayEngine:
        try:
            return RayEngine(running.jobs, running.address)
        except RayUnavailable as error:
            raise BadInput(f"--engine ray: {error}") from None

    return start


def _run(request: Request, running: Running, silent: bool) -> Summary:
    from fallline.cli.race.progress import progress_of
    from fallline.race.results import Results
    from fallline.race.run import Race
    from fallline.race.verdict.summary import summarize

    with Results(request.path) as store:
        engine = _engine(running)()
        try:
            if running.anew:  # not before there is an engine to race with
                store.make_room(request.entries)
            with progress_of(silent) as progress:
                Race(
                    request.entries,
                    request.contestants,
                    request.rules,
                    store,
                    engine,
                    progress,
                    running.save_every,
                    sys.argv[1:],
                ).run()
        except KeyboardInterrupt:
            _tell_how_far(store, request.path)
            raise
        finally:
            engine.close()
        return summarize(store)


def _tell_how_far(store: Any, path: Path) -> None:
    rows = store.rows()
    done = sum(row.status is not None for row in rows)
    typer.echo(f"{done} of {len(rows)} trials are done; the same command goes on with {path}", err=True)
