"""The options of ``fallline race``, in groups."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer


@dataclasses.dataclass(frozen=True)
class Entered:
    """The workloads and the contestants."""

    workloads: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORKLOAD", help="Built-in names, FILE.py or FILE.py:function, or `algoperf`."),
    ] = None
    optimizers: Annotated[
        list[str] | None,
        typer.Option(
            "--optimizer",
            "-o",
            metavar="NAME",
            help="One of `fallline contestants`, FILE.py:Class, or one of --contestants; may be repeated.",
        ),
    ] = None
    toml: Annotated[
        str | None, typer.Option("--contestants", metavar="FILE", help="Contestants of your own, in TOML.")
    ] = None
    target: Annotated[
        float | None, typer.Option("--target", help="The metric to reach, instead of the workload's.")
    ] = None
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="The budget in steps.")] = None
    ladder: Annotated[
        str | None,
        typer.Option(
            "--ladder",
            metavar="AXIS=SIZES",
            help="Race at several sizes and say how advantages change: steps=0.5,1,2, or width=0.5,1,2.",
        ),
    ] = None
    space: Annotated[
        list[str] | None,
        typer.Option(
            "--space",
            metavar="[NAME.]SETTING=RANGE",
            help="What is searched: lr=1e-4:1e-1, lion.lr=1e-4:1e-2, momentum=0.8:0.95:linear, or a list, "
            "lr=1e-3,3e-3; may be repeated.",
        ),
    ] = None
    held_out: Annotated[bool, typer.Option("--held-out", help="Race the held-out variants of the workloads too.")] = (
        False
    )

    @property
    def several(self) -> bool:
        """More than one workload, or one at several sizes."""
        many = len(self.workloads or ()) > 1 or "algoperf" in (self.workloads or ())
        return many or self.held_out or self.ladder is not None


@dataclasses.dataclass(frozen=True)
class Design:
    """The rules of the race."""

    ruleset: Annotated[
        str | None,
        typer.Option("--ruleset", help="external (tuned), self (untuned, 3× budget) or budget (equal time)."),
    ] = None
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="Quasirandom trials per study.")] = None
    search: Annotated[
        int | None,
        typer.Option(
            "--search",
            min=0,
            max=100,
            help="Learning rates that each tries before the race; 5 for one workload, 0: documented settings.",
        ),
    ] = None
    studies: Annotated[
        int | None,
        typer.Option("--studies", min=1, help="So many studies of everybody, instead of rounds; AlgoPerf: 5."),
    ] = None
    within: Annotated[
        str | None,
        typer.Option(
            "--within",
            metavar="SHARE",
            help="Decide when the choice is at most so much slower than the best: 5% or 0.05, the default; "
            "1% of the metric at equal time. 0: not before one is left.",
        ),
    ] = None
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", help="End an undecided race in rounds after so long, earlier runs of it included."),
    ] = None
    until: Annotated[
        str | None, typer.Option("--until", metavar="leader", help="Go on until one is left, whatever the loss bound.")
    ] = None
    memory_budget: Annotated[
        str | None,
        typer.Option(
            "--memory-budget",
            metavar="SIZE",
            help="Choose among those whose states fit: 2GB, 500MB; they are measured.",
        ),
    ] = None
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", help="With --ruleset budget: how long everybody trains, on the calibrated clock."),
    ] = None
    self_factor: Annotated[
        float | None,
        typer.Option(
            "--self-factor",
            min=1.0,
            max=1000.0,
            help="Budget of self-tuning over the normal one; 3 by default, 1.5 in AlgoPerf since v0.6.",
        ),
    ] = None
    clock: Annotated[str, typer.Option("--clock", help="calibrated, or steps: no seconds, no calibration.")] = (
        "calibrated"
    )
    early_stop: Annotated[
        bool, typer.Option("--early-stop/--no-early-stop", help="End trials that can no longer count.")
    ] = True
    seed: Annotated[int, typer.Option("--seed", help="Seed of trial points and of trainings.")] = 0


@dataclasses.dataclass(frozen=True)
class Running:
    """The processes that run trials, and the file for their results."""

    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Trials side by side; default: cores.")] = None
    engine: Annotated[str, typer.Option("--engine", help="local or ray.")] = "local"
    address: Annotated[
        str | None, typer.Option("--address", help="Address of the Ray cluster; default: start one here.")
    ] = None
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="FILE", help="The results file; the same command goes on with it."),
    ] = None
    anew: Annotated[
        bool, typer.Option("--anew", help="Begin anew if the race in --results has ended; an unfinished one goes on.")
    ] = False
    save_every: Annotated[
        float | None,
        typer.Option(
            "--save-every",
            metavar="SECONDS",
            min=0.0,
            help="Between checkpoints of a trial; 0: at every evaluation. Default: 30, more where saving takes long.",
        ),
    ] = None


@dataclasses.dataclass(frozen=True)
class Retired:
    """Flags that became commands of their own; each answers with that command."""

    status: Annotated[bool, typer.Option("--status", hidden=True)] = False
    export: Annotated[str | None, typer.Option("--export", hidden=True)] = None
    calibrate: Annotated[bool, typer.Option("--calibrate", hidden=True)] = False
