"""Turns the options of ``fallline profile`` into plans, or refuses them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

from fallline.cli.exit_codes import BadInput
from fallline.cli.profile.options import Counted, Questions, Trained
from fallline.measure.machine import cores
from fallline.profile.arms import DEFAULT, OURS, Arm, arms_of, check_patterns
from fallline.profile.plan import Plan
from fallline.profile.published import ADAMW_8BIT, BATCHES, PRESETS, ROUND1
from fallline.race.verdict.memory_budget import read_size
from fallline.training.precision import DTYPES
from fallline.workloads import load
from fallline.workloads.loading import with_settings

DEFAULT_WORKLOAD = "gpt-tiny"
ROUND1_WORKLOAD = "gpt-tiny@batch=6,sequence=768,padding=max_length"
ADAMW_8BIT_ARMS = "adamw[lr=5e-5,weight_decay=0.01,warmup_factor=0]"
STATE_DTYPE, SIZE = "state_dtype", "size"
RATES = 5
"""Learning rates of a sweep unless it says how many."""
PRESET_MINUTES = {ROUND1: 9.0, ADAMW_8BIT: 1.5}
"""Measuring time of a cell; on two cores the first preset ends within 15 minutes and the second within 20."""


@dataclasses.dataclass(frozen=True)
class Request:
    plans: list[Plan]
    out: Path
    minutes: float
    budget: int | None
    """The memory that a training may take, in bytes."""


def read_request(trained: Trained, counted: Counted, questions: Questions) -> Request:
    """The request that the options make, or :class:`BadInput` that names one of them."""
    if trained.precision not in DTYPES:
        raise BadInput(f"--precision {trained.precision}: must be one of {', '.join(DTYPES)}")
    budget = _bytes(questions.memory_budget)
    trained, questions = _of_preset(trained, questions)
    arms = _arms(trained, questions)
    spec = spec_of(trained)
    workload = load(spec)  # one clear line before anything is measured
    check_patterns(arms, workload)
    plan = Plan(
        spec,
        tuple(arms),
        _baseline(arms, trained.baseline),
        preset=trained.preset or "",
        precision=trained.precision,
        compiled=trained.compiled,
        device=_device(trained.device),
        threads=trained.threads or cores(),
        repeats=counted.repeats,
        warmup=counted.warmup,
        seed=counted.seed,
    )
    plans = _swept(plan, questions)
    name = trained.preset or workload.name + ("-sweep" if len(plans) > 1 else "")
    minutes = counted.minutes or PRESET_MINUTES.get(trained.preset or "", 3.0)
    return Request(plans, counted.out or Path(f"profile-{name}.sqlite"), minutes, budget)


def _of_preset(trained: Trained, questions: Questions) -> tuple[Trained, Questions]:
    """The options that a published profile stands for; those that are given hold."""
    if trained.preset is None:
        return trained, questions
    if trained.preset not in PRESETS:
        raise BadInput(f"--preset {trained.preset}: must be one of {', '.join(PRESETS)}")
    if trained.preset == ROUND1:
        return dataclasses.replace(trained, workload=trained.workload or ROUND1_WORKLOAD), questions
    eight = ADAMW_8BIT_ARMS.replace("adamw", "adamw8bit", 1)
    named = trained.optimizers or [f"adamw={ADAMW_8BIT_ARMS},adamw8bit={eight}"]
    sweep = questions.sweep or f"batch={','.join(map(str, BATCHES))}"
    return dataclasses.replace(trained, optimizers=named), dataclasses.replace(questions, sweep=sweep)


# ------------------------------------------------------------------ arms


def _arms(trained: Trained, questions: Questions) -> list[Arm]:
    arms = arms_of(trained.optimizers or [",".join(DEFAULT)], trained.lr)
    if questions.hybrid is not None:
        arms += _hybrids(arms, questions.hybrid)
    if questions.lr_sweep is not None:
        arms = [_at_rate(arm, rate) for arm in arms for rate in rates_of(questions.lr_sweep)]
    return arms


def _hybrids(arms: Sequence[Arm], text: str) -> list[Arm]:
    """A twin of each arm with few bits, some of whose states are float32."""
    patterns, equals, dtype = text.rpartition("=")
    if not equals or dtype != "float32" or not all(part.strip() for part in patterns.split(",")):
        raise BadInput(f"--hybrid {text}: is written PATTERN,PATTERN=float32, for instance 'tokens*,norm*=float32'")
    full = tuple(part.strip() for part in patterns.split(","))
    few = [arm for arm in arms if arm.implementation == OURS and _few_bits(arm)]
    if not few:
        raise BadInput(f"--hybrid {text}: no optimizer here has states of fewer bits; name adamw8bit, for instance")
    return [dataclasses.replace(arm, label=f"{arm.label} hybrid", full=full) for arm in few]


def _few_bits(arm: Arm) -> bool:
    return arm.optimizer.endswith("8bit") or arm.settings.get("state_dtype", "float32") != "float32"


def rates_of(text: str) -> list[float]:
    """Rates on a logarithmic scale.

    >>> [float(f"{rate:.3g}") for rate in rates_of("1e-4:1e-2:3")]
    [0.0001, 0.001, 0.01]
    """
    parts = text.split(":")
    try:
        first, last = float(parts[0]), float(parts[1])
        count = int(parts[2]) if len(parts) == 3 else RATES
    except (ValueError, IndexError):
        first = last = math.nan
        count = 0
    if len(parts) > 3 or not (0 < first < math.inf and 0 < last < math.inf) or count < 2:
        raise BadInput(f"--lr-sweep {text}: is written FROM:TO or FROM:TO:COUNT, for instance 1e-4:3e-5")
    return [float(f"{first * (last / first) ** (at / (count - 1)):.3g}") for at in range(count)]


def _at_rate(arm: Arm, rate: float) -> Arm:
    return dataclasses.replace(arm, label=f"{arm.label} at {rate:g}", settings={**arm.settings, "lr": rate})


def _baseline(arms: Sequence[Arm], wanted: str | None) -> str:
    """AdamW where it is among the arms, otherwise the first."""
    labels = [arm.label for arm in arms]
    if wanted is None:
        return "adamw" if "adamw" in labels else labels[0]
    if wanted not in labels:
        raise BadInput(f"--baseline {wanted}: is not among the optimizers, which are {', '.join(labels)}")
    return wanted


# ------------------------------------------------------------------ the workload and its sizes


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
    return _with_sizes(name, {**settings, **given})


def _with_sizes(name: str, sizes: dict[str, float | str]) -> str:
    shown = [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in sizes.items()]
    return f"{name}@{','.join(shown)}" if shown else name


def _swept(plan: Plan, questions: Questions) -> list[Plan]:
    """One plan for each value of the axis."""
    sweep = questions.sweep if questions.scale is None else f"{SIZE}={questions.scale}"
    if questions.scale is not None and questions.sweep is not None:
        raise BadInput("--scale and --sweep exclude each other: each is an axis; choose one")
    if sweep is None:
        return [plan]
    axis, equals, text = sweep.partition("=")
    values = [value.strip() for value in text.split(",")]
    if not equals or not axis.isidentifier() or not all(values):
        raise BadInput(f"--sweep {sweep}: is written AXIS=A,B,…, for instance batch=16,32,64")
    if len(set(values)) < len(values):
        raise BadInput(f"--sweep {sweep}: names a value twice")
    plans = [_at(plan, axis, value) for value in values]
    for one in plans:
        load(one.workload)
    return plans


def _at(plan: Plan, axis: str, value: str) -> Plan:
    placed = dataclasses.replace(plan, axis=axis, label=f"{axis} {value}")
    name, settings = with_settings(plan.workload)
    if axis == SIZE:
        return dataclasses.replace(placed, workload=_with_sizes(value, settings))
    if axis == STATE_DTYPE:
        arms = [
            dataclasses.replace(arm, settings={**arm.settings, STATE_DTYPE: value})
            if arm.implementation == OURS and arm.label != plan.baseline
            else arm
            for arm in plan.arms
        ]
        return dataclasses.replace(placed, arms=tuple(arms))
    return dataclasses.replace(placed, workload=_with_sizes(name, {**settings, axis: value}))


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return read_size(text)
    except ValueError as error:
        raise BadInput(f"--memory-budget {error}") from None


def _device(name: str) -> str:
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise BadInput(f"--device {name}: {str(error).partition(chr(10))[0]}") from None
    return name
