"""Turns the options of ``fallline profile`` into plans, or refuses them."""

from __future__ import annotations

from pathlib import Path

from fallline.cli.exit_codes import BadInput
from fallline.cli.profile.options import Counted, Questions, Trained
from fallline.measure.machine import cores
from fallline.profile.arms import DEFAULT, Arm, arms_of
from fallline.profile.plan import Plan
from fallline.training.precision import DTYPES
from fallline.workloads import load
from fallline.workloads.loading import with_settings

DEFAULT_WORKLOAD = "gpt-tiny"


def plans_of(trained: Trained, counted: Counted, questions: Questions) -> tuple[list[Plan], Path]:
    """The cells to measure, and the results file."""
    if trained.precision not in DTYPES:
        raise BadInput(f"--precision {trained.precision}: must be one of {', '.join(DTYPES)}")
    arms = arms_of(trained.optimizers or [",".join(DEFAULT)], trained.lr)
    baseline = _baseline(arms, trained.baseline)
    spec = spec_of(trained)
    workload = load(spec)  # one clear line before anything is measured
    plan = Plan(
        spec,
        tuple(arms),
        baseline,
        precision=trained.precision,
        compiled=trained.compiled,
        device=_device(trained.device),
        threads=trained.threads or cores(),
        repeats=counted.repeats,
        warmup=counted.warmup,
        seed=counted.seed,
    )
    return [plan], counted.out or Path(f"fallline-profile-{workload.name}.sqlite")


def spec_of(trained: Trained) -> str:
    """The workload with its settings, as one text: ``gpt-tiny@batch=6,sequence=768``."""
    name, settings = with_settings(trained.workload or DEFAULT_WORKLOAD)
    given: dict[str, float | str] = {}
    for pair in trained.size or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise BadInput(f"--size {pair}: a size is given as NAME=NUMBER, for instance width=512")
        given[key] = value
    if trained.batch_size is not None:
        given["batch"] = trained.batch_size
    if trained.sequence is not None:
        given["sequence"] = trained.sequence
    if trained.data is not None:
        given["data"] = str(trained.data.resolve())
    if trained.padding is not None:
        given["padding"] = trained.padding
    return with_sizes(name, {**settings, **given})


def with_sizes(name: str, sizes: dict[str, float | str]) -> str:
    shown = [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in sizes.items()]
    return f"{name}@{','.join(shown)}" if shown else name


def _baseline(arms: list[Arm], wanted: str | None) -> str:
    """AdamW where it is among the arms, otherwise the first."""
    labels = [arm.label for arm in arms]
    if wanted is None:
        return "adamw" if "adamw" in labels else labels[0]
    if wanted not in labels:
        raise BadInput(f"--baseline {wanted}: is not among the optimizers, which are {', '.join(labels)}")
    return wanted


def _device(name: str) -> str:
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise BadInput(f"--device {name}: {str(error).partition(chr(10))[0]}") from None
    return name
