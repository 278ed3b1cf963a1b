"""The options of ``fallline profile``, in groups."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from fallline.cli.output import Figures, ShownShort


@dataclasses.dataclass(frozen=True)
class Trained:
    """The workload, the optimizers, and how the model computes."""

    workload: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKLOAD",
            help="gpt-tiny (the default), gpt-mini, gpt-midi, gpt2 … gpt2-xl, a workload that races, FILE.py or "
            "FILE.py:function, or the config.json of a Hugging Face causal LM.",
        ),
    ] = None
    optimizers: Annotated[
        list[str] | None,
        typer.Option(
            "--optimizers",
            "-o",
            metavar="A,B,…",
            help="Registry names, IMPLEMENTATION:NAME of `fallline step --list`, FILE.py:Class; settings in brackets, "
            "adamw[lr=1e-4]; a label before a sign, twin=adamw.",
        ),
    ] = None
    baseline: Annotated[str | None, typer.Option("--baseline", help="The arm that others are held against.")] = None
    batch_size: Annotated[int | None, typer.Option("--batch-size", min=1, help="Sequences or samples of a batch.")] = (
        None
    )
    sequence: Annotated[int | None, typer.Option("--sequence", min=1, help="Tokens of a sequence.")] = None
    data: Annotated[Path | None, typer.Option("--data", metavar="FILE", help="The text that a GPT reads.")] = None
    padding: Annotated[
        str | None, typer.Option("--padding", help="none, longest or max_length: whole documents, padded.")
    ] = None
    size: Annotated[
        list[str] | None,
        typer.Option("--size", metavar="NAME=N", help="Another size of the workload: width=512; may be repeated."),
    ] = None
    lr: Annotated[float | None, typer.Option("--lr", help="One rate for all; otherwise each has its own.")] = None
    precision: Annotated[str, typer.Option("--precision", help="fp32, bf16 or fp16.")] = "fp32"
    compiled: Annotated[bool, typer.Option("--compile", help="The model through torch.compile.")] = False
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, …")] = "cpu"
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Default: one per processor.")] = None
    preset: Annotated[
        str | None, typer.Option("--preset", metavar="NAME", help="A published profile: round1 or adamw-8bit.")
    ] = None


@dataclasses.dataclass(frozen=True)
class Counted:
    """How long to measure, and where samples go."""

    steps: Annotated[
        int | None,
        typer.Option("--steps", min=1, help="Timed steps of each arm and repeat, in place of --minutes."),
    ] = None
    warmup: Annotated[int, typer.Option("--warmup", min=1, help="Steps of each repeat before those.")] = 2
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Trainings with new seeds.")] = 3
    minutes: Annotated[float | None, typer.Option("--minutes", min=0.0, help="Measuring time of a cell; 3.")] = None
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31, help="Seed of models, batches and the order.")] = 0
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The results file; the same command goes on with it.")
    ] = None
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what the results file holds.")] = False
    plan: Annotated[bool, typer.Option("--plan", help="Say what would run, with which settings and memory.")] = False
    show: Annotated[bool, typer.Option("--show", help="Measure nothing: show what the results file holds.")] = False


@dataclasses.dataclass(frozen=True)
class Questions:
    """Further questions."""

    sweep: Annotated[
        str | None,
        typer.Option("--sweep", metavar="AXIS=A,B,…", help="batch, sequence, width, layers or state_dtype."),
    ] = None
    memory_budget: Annotated[
        str | None, typer.Option("--memory-budget", metavar="SIZE", help="6GB: who fits, and which batch would.")
    ] = None
    lr_sweep: Annotated[
        str | None,
        typer.Option("--lr-sweep", metavar="A:B[:N]", help="Each optimizer at N learning rates from A to B (5)."),
    ] = None
    scale: Annotated[
        str | None, typer.Option("--scale", metavar="A,B,…", help="The same with larger GPTs: gpt-tiny,gpt-mini,gpt2.")
    ] = None
    to_loss: Annotated[
        float | None,
        typer.Option("--to-loss", help="Seconds to this validation metric, by `fallline race`."),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="TIME", help="Quality after equal time, by `fallline race`: 1h."),
    ] = None
    hybrid: Annotated[
        str | None,
        typer.Option(
            "--hybrid",
            metavar="PATTERNS=float32",
            help="Adds a twin of each 8-bit arm with float32 states where names match: 'tokens*,norm*=float32'.",
        ),
    ] = None
    figures: Figures = None


@dataclasses.dataclass(frozen=True)
class Shown(ShownShort):
    """The form of the result."""
