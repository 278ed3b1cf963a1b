"""``fallline step``: the time of an optimizer's step in every implementation, and which one to take."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fallline.cli.exit_codes import BadInput
from fallline.cli.output import Json, emit
from fallline.cli.step.progress import Progress

if TYPE_CHECKING:
    from fallline.step.plan import Plan
    from fallline.step.results import Results
    from fallline.step.run import Limits

DEFAULT_OUT = Path("fallline-step.sqlite")


def step(
    optimizer: Annotated[str, typer.Option(help="Registry name; `fallline optimizers` lists them.")] = "adamw",
    impl: Annotated[
        str, typer.Option("--impl", metavar="A,B,…", help="Implementations; see --list.")
    ] = "eager,foreach,compiled,fused,torch-fused",
    tensors: Annotated[str, typer.Option(metavar="N,…", help="Numbers of tensors.")] = "1,4,16,64",
    sizes: Annotated[str, typer.Option(metavar="N,…", help="Elements of each tensor.")] = "16384,262144,1048576",
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Shapes of a model instead: gpt2-small, gpt2-12x12x768, FILE.py:FN, or PACKAGE:NAME of torchvision, "
            "timm or transformers.",
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(metavar="NAME", help="A published comparison: adam-grid or adan-gpt2.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="Of parameters and gradients: float32, bfloat16 or float16.")] = "float32",
    state_dtype: Annotated[str, typer.Option(help="Of states: float32, bfloat16, int8 or int4.")] = "float32",
    amsgrad: Annotated[bool, typer.Option("--amsgrad/--no-amsgrad", help="Adam's running maximum.")] = False,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="Another hyperparameter; repeatable.")
    ] = None,
    threads: Annotated[str | None, typer.Option(metavar="N,…", help="Threads; all processors by default.")] = None,
    pin: Annotated[bool, typer.Option("--pin", help="Keep N threads on the first N processors.")] = False,
    flush: Annotated[
        bool | None,
        typer.Option(
            "--flush/--no-flush",
            help="Empty the caches before every step, outside the clock. By default all cells are flushed, and those "
            "that fit the cache are shown without as well.",
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Exactly so many timed steps of each arm.")] = None,
    seconds: Annotated[float, typer.Option(min=0.0, help="Measuring time per cell, after 18 rounds.")] = 20.0,
    up_to: Annotated[float, typer.Option(metavar="M", help="adan-gpt2: million parameters that are measured.")] = 250.0,
    memory_seconds: Annotated[
        float, typer.Option(min=0.0, help="adan-gpt2: time for measuring memory; the rest is modelled.")
    ] = 240.0,
    against: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Compare with a published table: adam-grid, adan-gpt2, a file."),
    ] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="The heat map as .png or .svg.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what the results file holds.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Measure nothing: show what the results file holds.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the implementations and stop.")] = False,
    as_json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print every number as CSV.")] = False,
    markdown: Annotated[bool, typer.Option("--md", help="Print the tables in Markdown.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, and the closing sentences only.")] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Of values and of the order of measuring.")] = 0,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The results file; the same command again goes on with it.")
    ] = DEFAULT_OUT,
) -> None:
    """Time an optimizer's step: which implementation, from which size, how far from the limit.

    Raw samples go to a results file first (--out); tables, winners and sentences are computed from there.
    """
    from fallline.cli.step.request import Request, implementations_listed, plan_of
    from fallline.step.document import Format, present

    if list_:
        _list(implementations_listed(), as_json)
        return
    if sum((as_json, csv, markdown)) > 1:
        raise BadInput("--json, --csv and --md exclude each other; choose one")
    request = Request(
        optimizer, impl, tensors, sizes, model, preset, dtype, state_dtype, amsgrad, tuple(option or ()), threads,
        flush, steps, pin, up_to,
    )  # fmt: skip
    plan = plan_of(request, sys.argv[1:])
    chosen = Format("json" if as_json else "csv" if csv else "md" if markdown else "text", quiet, against, figure)
    chosen.check(plan)
    from fallline.measure.store import StoreError
    from fallline.step.results import Results
    from fallline.step.run import Limits

    limits = Limits(seconds=seconds, seed=seed)
    try:
        with Results(out, writable=not show) as results:
            if not show:
                _measure(plan, results, limits, fresh, quiet, memory_seconds)
            present(plan, results, chosen)
    except StoreError as error:
        raise BadInput(str(error)) from error


def _list(found: list[dict[str, str]], as_json: bool) -> None:
    width = max(len(one["name"]) for one in found)
    text = "\n".join(f"{one['name']:{width}}  {one['what']}" for one in found)
    emit(found, lambda console: console.print(text, soft_wrap=True), as_json=as_json, out=None)


def _measure(plan: Plan, results: Results, limits: Limits, fresh: bool, quiet: bool, memory_seconds: float) -> None:
    from fallline.step.analyse import analyse, doubtful
    from fallline.step.plan import DoesNotFit, check_memory
    from fallline.step.run import measure_all, measure_cells

    done: set[str] = set() if fresh else results.done(plan.cells)
    left = [cell for cell in plan.cells if cell.key not in done]
    if not plan.with_memory:
        try:
            check_memory(left)
        except DoesNotFit as error:
            raise BadInput(str(error)) from error
    command = {"arguments": sys.argv[1:]}
    if left or plan.with_memory:
        results.begin(command)
    if fresh:  # only now that nothing refuses to measure again
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

        measure_memory(results, memory_seconds, limits.seed, lambda text: None if quiet else typer.echo(text, err=True))
