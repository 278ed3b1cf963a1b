"""``fallline step``: the time of an optimizer's step in every implementation, and which one to take."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from fallline.cli.exit_codes import BadInput, failing_with
from fallline.cli.options import grouped
from fallline.cli.output import emit
from fallline.cli.step.options import PLAN_OPTIONS, Measuring, Request, Showing

if TYPE_CHECKING:
    from fallline.step.plan import Plan
    from fallline.step.results import Results


@grouped
def step(
    *,
    request: Request,
    measuring: Measuring,
    list_: Annotated[bool, typer.Option("--list", help="List the implementations and stop.")] = False,
    showing: Showing,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, and the closing sentences only.")] = False,
) -> None:
    """Time an optimizer's step. Which implementation is fastest, from which size, how far from the limit?

    Raw samples go to a results file first (--out); tables, winners and sentences are computed from there.
    """
    form = showing.chosen
    if list_:
        _list(form)
        return
    from fallline.cli.step.request import given, plan_of
    from fallline.cli.step.showing import check, present
    from fallline.measure.store import StoreError
    from fallline.step.results import Results
    from fallline.step.stored_plan import stored_plan

    with failing_with(bad_input=(StoreError,)):
        if measuring.show and not any(given(option, sys.argv[1:]) for option in PLAN_OPTIONS):
            with Results(measuring.out, writable=False) as results:
                plan = stored_plan(results)
                check(showing, plan)
                present(plan, results, showing, quiet)
            return
        plan = plan_of(request, sys.argv[1:])
        check(showing, plan)
        with Results(measuring.out, writable=not measuring.show) as results:
            if not measuring.show:
                _measure(plan, results, measuring, quiet)
            present(plan, results, showing, quiet)


def _list(form: str) -> None:
    from fallline.document.blocks import Document, Table
    from fallline.document.cells import Column, Text
    from fallline.step.implementations import IMPLEMENTATIONS

    found = [{"name": one.name, "what": one.what} for one in IMPLEMENTATIONS.values()]
    columns = (
        Column("", name="name", align="left", key=True),
        Column("", name="what", align="left", prose=True),
    )
    table = Table("", columns, [(Text(one["name"]), Text(one["what"])) for one in found])
    emit(Document([table], result=found), form)


def _measure(plan: Plan, results: Results, measuring: Measuring, quiet: bool) -> None:
    from fallline.cli.step.progress import Progress
    from fallline.step.analyse import analyse, doubtful
    from fallline.step.plan import DoesNotFit, check_memory
    from fallline.step.run import Limits, measure_all, measure_cells
    from fallline.step.stored_plan import as_command

    limits = Limits(seconds=measuring.seconds, seed=measuring.seed)
    done: set[str] = set() if measuring.fresh else results.done(plan.cells)
    left = [cell for cell in plan.cells if cell.key not in done]
    if not plan.with_memory:
        try:
            check_memory(left)
        except DoesNotFit as error:
            raise BadInput(str(error)) from error
    command = as_command(plan, sys.argv[1:])
    if left or plan.with_memory:
        results.begin(command)
    if measuring.fresh:  # only now that nothing refuses to measure again
        results.forget(plan.cells)
        if plan.with_memory:
            results.forget_memory()
    if done and not quiet:
        there = f"{len(done)} of {len(plan.cells)} cells are in {results.store.path}"
        typer.echo(f"{there}; --fresh measures them again", err=True)
    with Progress(left, quiet) as progress:
        measure_all(plan, results, dataclasses.replace(limits, told=progress.tell_round), progress.tell)
    if again := doubtful(analyse(plan, results.load(plan.cells))):
        if results.run is None:
            results.begin(command)
        if not quiet:
            typer.echo(f"{len(again)} cells contradict themselves or each other; measuring them once more", err=True)
        with Progress(list(again), quiet) as progress:
            measure_cells(plan, again, results, dataclasses.replace(limits, told=progress.tell_round), progress.tell)
    if plan.with_memory:
        from fallline.step.published.memory_table import measure_memory

        measure_memory(
            results,
            measuring.memory_seconds,
            measuring.seed,
            lambda text: None if quiet else typer.echo(text, err=True),
        )
