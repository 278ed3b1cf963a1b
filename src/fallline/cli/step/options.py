"""The options of ``fallline step``, in groups."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from fallline.cli.output import ShownShort

DEFAULT_OUT = Path("fallline-step.sqlite")


@dataclasses.dataclass(frozen=True)
class Request:
    """The options that decide what is measured, as given."""

    optimizer: Annotated[str, typer.Option("--optimizer", help="Registry name; `fallline optimizers` lists them.")] = (
        "adamw"
    )
    impl: Annotated[str, typer.Option("--impl", metavar="A,B,…", help="Implementations; see --list.")] = (
        "eager,foreach,compiled,fused,torch-fused"
    )
    tensors: Annotated[str, typer.Option("--tensors", metavar="N,…", help="Numbers of tensors.")] = "1,4,16,64"
    sizes: Annotated[str, typer.Option("--sizes", metavar="N,…", help="Elements of each tensor.")] = (
        "16384,262144,1048576"
    )
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="Shapes of a model instead: gpt2-small, gpt2-12x12x768, FILE.py:FN, or PACKAGE:NAME of torchvision, "
            "timm or transformers.",
        ),
    ] = None
    preset: Annotated[
        str | None, typer.Option("--preset", metavar="NAME", help="A published comparison: adam-grid or adan-gpt2.")
    ] = None
    dtype: Annotated[
        str, typer.Option("--dtype", help="Type of parameters and gradients: float32, bfloat16 or float16.")
    ] = "float32"
    state_dtype: Annotated[
        str, typer.Option("--state-dtype", help="Format of states: float32, bfloat16, int8 or int4.")
    ] = "float32"
    amsgrad: Annotated[bool, typer.Option("--amsgrad/--no-amsgrad", help="Adam's running maximum.")] = False
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="Another hyperparameter; repeatable.")
    ] = None
    threads: Annotated[
        str | None, typer.Option("--threads", metavar="N,…", help="Threads; all processors by default.")
    ] = None
    pin: Annotated[bool, typer.Option("--pin", help="Keep N threads on the first N processors.")] = False
    flush: Annotated[
        bool | None,
        typer.Option(
            "--flush/--no-flush",
            help="Empty the caches before every step, outside the clock. By default all cells are flushed, and those "
            "that fit the cache are shown without as well.",
        ),
    ] = None
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="Exactly so many timed steps of each arm.")] = None
    up_to: Annotated[
        float, typer.Option("--up-to", metavar="M", help="adan-gpt2: million parameters that are measured.")
    ] = 250.0


PLAN_OPTIONS = (
    *(f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(Request)),
    "--no-amsgrad",
    "--no-flush",
)
"""Options that decide what is measured: without any of them ``--show`` shows what the file holds."""


@dataclasses.dataclass(frozen=True)
class Measuring:
    """The time for measuring, and the results file."""

    seconds: Annotated[float, typer.Option("--seconds", min=0.0, help="Measuring time per cell, after 18 rounds.")] = (
        20.0
    )
    memory_seconds: Annotated[
        float,
        typer.Option("--memory-seconds", min=0.0, help="adan-gpt2: time for measuring memory; the rest is modelled."),
    ] = 240.0
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what the results file holds.")] = False
    show: Annotated[
        bool,
        typer.Option("--show", help="Measure nothing: show what the results file holds; no other option is needed."),
    ] = False
    seed: Annotated[
        int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of values and of the order of measuring.")
    ] = 0
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The results file; the same command again goes on with it.")
    ] = DEFAULT_OUT


@dataclasses.dataclass(frozen=True)
class Showing(ShownShort):
    """The form in which results are shown, and the table beside them."""

    against: Annotated[
        str | None,
        typer.Option("--against", metavar="FILE", help="Compare with a published table: adam-grid, adan-gpt2, a file."),
    ] = None
    figure: Annotated[Path | None, typer.Option("--figure", metavar="FILE", help="The heat map as .png or .svg.")] = (
        None
    )
