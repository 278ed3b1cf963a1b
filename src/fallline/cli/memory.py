"""``fallline memory``: what a training needs in memory, and what would make it fit."""

from __future__ import annotations

import dataclasses
import math
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fallline.cli.exit_codes import BadInput, failing_with
from fallline.cli.options import grouped
from fallline.cli.output import Figures, NotWritten, WrittenShort, check_figures, check_out, draw, emit

if TYPE_CHECKING:
    from fallline.document.blocks import Document

LARGEST = ("batch", "sequence")


@dataclasses.dataclass(frozen=True)
class Training:
    """How the model is trained."""

    optimizer: Annotated[str, typer.Option("--optimizer", metavar="NAME", help="See `fallline optimizers`.")] = "adamw"
    state_dtype: Annotated[
        str, typer.Option("--state-dtype", metavar="FORMAT", help="float32, bfloat16, int8 or int4.")
    ] = "float32"
    precision: Annotated[
        str,
        typer.Option(
            "--precision",
            metavar="NAME",
            help="float32, bfloat16, float16, mixed (16 bits with 32-bit masters) or autocast.",
        ),
    ] = "float32"
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Samples; the model's own by default.")] = None
    sequence: Annotated[int | None, typer.Option("--sequence", min=1, help="Tokens; the model's own by default.")] = (
        None
    )
    accumulation: Annotated[
        int, typer.Option("--accumulation", min=1, help="Batches whose gradients are added up before a step.")
    ] = 1
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="Blocks keep their inputs only, and are computed twice.")
    ] = False
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="STAGE", help="zero1, zero2 or zero3, over --ranks devices.")
    ] = None
    ranks: Annotated[int, typer.Option("--ranks", min=1, help="Devices that train together.")] = 1
    offload: Annotated[bool, typer.Option("--offload", help="Keep states in the host, and step there.")] = False


@grouped
def memory(
    *,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="gpt2 … gpt2-xl, llama-7b …, gpt:layers=…, llama:layers=…, config.json, FILE.py[:fn] or a workload.",
        ),
    ],
    training: Training,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="SIZE,…", help="6GB,8GB,24GB,32GB,40GB,80GB by default; GB is 10⁹ bytes."),
    ] = None,
    compare: Annotated[
        str | None, typer.Option("--compare", metavar="NAME,…", help="Other optimizers beside this one.")
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option("--lengths", metavar="N,…", help="Sequences trained one after the other, for fragmentation."),
    ] = None,
    largest: Annotated[
        str, typer.Option("--largest", metavar="WHAT", help="Look for the largest batch or sequence on each device.")
    ] = "batch",
    measured: Annotated[
        bool,
        typer.Option("--measure", help="Train three steps here, and show the measured bytes beside the prediction."),
    ] = False,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Threads of --measure.")] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            "--speed",
            metavar="TFLOPS",
            help="10¹² operations per second that the device reaches, for the time of a recomputation; 50 by default, "
            "with --measure those of this machine.",
        ),
    ] = None,
    figures: Figures = None,
    results: Annotated[
        Path | None, typer.Option("--results", metavar="FILE", help="Store the answer there, for `fallline report`.")
    ] = None,
    shown: WrittenShort,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print devices, changes and verdicts only.")] = False,
) -> None:
    """Say what training a model needs in memory, by category, on which devices it fits, and what would make it fit.

    The model is built of tensors without memory, and one iteration of its training is traced.
    """
    form = shown.checked()
    check_figures(figures)
    check_out(results, "--results")
    _check(training, largest)
    if speed is not None and not 0 < speed < math.inf:
        raise BadInput(f"--speed {speed:g}: must be a finite number above 0, in 10¹² operations per second")
    from fallline.footprint.devices import USUAL, NoSize, devices_of
    from fallline.footprint.document import document
    from fallline.footprint.measuring import NotMeasured
    from fallline.footprint.question import Question, answer
    from fallline.footprint.setting import PRECISIONS, SHARDS, Setting
    from fallline.footprint.speed import TERA, Speed
    from fallline.footprint.trainees import Unbuildable, trainee
    from fallline.optim.options import STATE_DTYPES
    from fallline.workloads import WorkloadError

    _one_of("--precision", training.precision, PRECISIONS)
    _one_of("--state-dtype", training.state_dtype, STATE_DTYPES)
    if training.shard is not None:
        _one_of("--shard", training.shard, SHARDS)
    with failing_with(bad_input=(NoSize,)):
        devices = devices_of(USUAL if device is None else device)
    names = [training.optimizer, *_names(compare)] if compare is not None else []
    for name in (training.optimizer, *names):
        _check_optimizer(name, training.state_dtype)
    with failing_with(bad_input=(Unbuildable, WorkloadError), failed=(NotMeasured,)):
        found = answer(
            Question(
                trainee(model),
                Setting(**dataclasses.asdict(training)),
                devices,
                compare=list(dict.fromkeys(names)),
                lengths=_lengths(lengths),
                largest=largest,
                measure=measured,
                threads=threads,
                speed=None if speed is None else Speed(speed * TERA),
            )
        )
    made = document(found)
    if figures is not None:
        draw(made.figures, figures, quiet)
    if results is not None:
        _store(made, results)
    emit(made, form, out=shown.out, quiet=quiet)


def _store(document: Document, path: Path) -> None:
    """With its circumstances, which a page tells."""
    from fallline.document.stored import stored_text
    from fallline.measure.machine import circumstances, describe

    facts = [("started", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))]
    facts.append(("to repeat it", shlex.join(["fallline", *sys.argv[1:]])))
    where = dataclasses.replace(document.provenance, machine=circumstances([describe()]), facts=facts)
    try:
        path.write_text(stored_text(dataclasses.replace(document, provenance=where), "memory"), encoding="utf-8")
    except OSError as error:
        raise NotWritten(f"--results {path}: could not be written ({error.strerror or error})") from error


def _check(training: Training, largest: str) -> None:
    """Refuses options that contradict each other."""
    _one_of("--largest", largest, LARGEST)
    if training.shard is not None and training.ranks < 2:
        raise BadInput(f"--shard {training.shard}: shares the memory of several devices; add --ranks 2 or more")


def _one_of(option: str, value: str, known: object) -> None:
    names = list(known)  # type: ignore[call-overload]
    if value not in names:
        raise BadInput(f"{option} {value}: must be one of {', '.join(names)}")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _check_optimizer(name: str, state_dtype: str) -> None:
    """Refuses names that are not registered, and formats that the optimizer's states cannot have."""
    import torch

    from fallline.optim.registry import create

    try:
        create(name, [torch.nn.Parameter(torch.empty(1, device="meta"))], state_dtype=state_dtype)
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"--optimizer {name}: {str(error).splitlines()[0]}") from None


def _lengths(text: str | None) -> list[int]:
    found = []
    for part in _names(text or ""):
        if not part.isdigit() or int(part) < 1:
            raise BadInput(f"--lengths {text}: must be whole numbers >= 1 separated by commas, got {part!r}")
        found.append(int(part))
    return found
