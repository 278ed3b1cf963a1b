"""The optimizers of a profile by name: fallline's, a user's class, or another package's implementation."""

from __future__ import annotations

import dataclasses
import difflib
import fnmatch
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from fallline.optim.grouping import model_groups
from fallline.optim.registry import find, list_optimizers
from fallline.race.contestants.spaces import TUNING
from fallline.step.implementations import ALIASES, IMPLEMENTATIONS, hyperparameters
from fallline.step.implementations import build as build_implementation
from fallline.training.optimizer_factory import SCHEDULES, build, maker_of, unknown_settings
from fallline.training.optimizer_files import absolute, is_file, name_of
from fallline.training.scheduled_optimizer import ScheduledOptimizer
from fallline.workloads import Workload

OURS = "fallline"
DEFAULT = ("adafactor", "adamw", "adamp", "qhm", "sophiag", "adam8bit", "lion8bit", "fusedadam")
"""Those of a published profile of a GPT-2, in its order; ``fusedadam`` is torch's own fused Adam."""
NICKNAMES = {"fusedadam": ("torch-fused", "adam")}
SOPHIA = {"lr": 6e-4, "weight_decay": 0.2, "rho": 0.05, "warmup_factor": 0.1}
"""Its authors' settings for GPT-2 of 125 M parameters; races do not run it."""


HELD = ("adafactor", "beta2")
"""Adafactor's β₂ rises from step to step; with this setting of a profile it stays, to see what the rise is good for."""


class BadArm(ValueError):
    """An optimizer that cannot be profiled; one line with the remedy."""


@dataclasses.dataclass(frozen=True)
class Arm:
    label: str
    optimizer: str
    """A registry name or ``FILE.py:Class``."""
    implementation: str = OURS
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    schedule: str = "constant"
    full: tuple[str, ...] = ()
    """Patterns of parameters whose states stay in float32 where the others have fewer bits."""
    averaging: str | None = None

    @property
    def package(self) -> str | None:
        """The package that it needs beside torch and fallline; None if it needs none."""
        own = self.implementation == OURS or self.implementation.startswith("torch-")
        return None if own or IMPLEMENTATIONS[self.implementation].ours else self.implementation

    def definition(self) -> dict[str, Any]:
        found = dataclasses.asdict(self)
        return {**found, "settings": dict(sorted(found["settings"].items())), "full": list(self.full)}

    @classmethod
    def defined(cls, data: Mapping[str, Any]) -> Arm:
        """From its definition in a results file."""
        settings = {name: tuple(v) if isinstance(v, list) else v for name, v in data["settings"].items()}
        return cls(**{**data, "settings": settings, "full": tuple(data["full"])})

    def prepare(self, model: nn.Module, total_steps: int) -> ScheduledOptimizer:
        """Its optimizer for a model; schedules count on ``total_steps``."""
        settings = dict(self.settings)
        if self.full:
            full = set(matching(self.full, model))
            settings["assign"] = [(lambda name, _: name in full, {"state_dtype": "float32"})]
        make = None if self.implementation == OURS else self._elsewhere
        beta2 = settings.pop(HELD[1], None) if self.optimizer == HELD[0] else None
        made = build(self, settings, model, total_steps, make)
        if beta2 is not None:
            _hold_beta2(made.optimizer, float(beta2))
        return made

    def _elsewhere(self, model: nn.Module, options: Mapping[str, Any]) -> torch.optim.Optimizer:
        """The same settings and groups (no decay on biases and norms) in another package."""
        described = find(self.optimizer)
        known = hyperparameters(self.optimizer, {})
        given = {name: value for name, value in {**described.defaults, **options}.items() if name in known}
        groups = []
        for group in model_groups(described, model, given):
            params = [entry[1] if isinstance(entry, tuple) else entry for entry in group["params"]]
            decay = {"weight_decay": group["weight_decay"]} if "weight_decay" in group else {}
            groups.append({"params": params, **decay})
        states = IMPLEMENTATIONS[self.implementation].states
        format = "int8" if states == "int8" else "float32"
        made: torch.optim.Optimizer = build_implementation(self.implementation, self.optimizer, groups, given, format)  # type: ignore[arg-type]
        return made


def _hold_beta2(optimizer: torch.optim.Optimizer, beta2: float) -> None:
    """Keeps Adafactor's β₂ = 1 − t^decay where it is, by a decay that follows the number of the step t."""
    if not 0.0 < beta2 < 1.0:
        raise ValueError(f"beta2 must be in (0, 1), got {beta2:g}")

    def before_step(*_: Any) -> None:
        state = next(iter(optimizer.state.values()), None)
        number = 1 + (int(state["step"]) if state else 0)
        if number > 1:  # the first step is all gradient, whatever the decay
            for group in optimizer.param_groups:
                group["beta2_decay"] = math.log(1.0 - beta2) / math.log(number)

    optimizer.register_step_pre_hook(before_step)


def matching(patterns: Sequence[str], model: nn.Module) -> list[str]:
    """The names of the parameters that a pattern matches, as a whole or in one of the parts between dots."""
    names = [name for name, _ in model.named_parameters()]
    found = []
    for pattern in patterns:
        hits = [name for name in names if any(fnmatch.fnmatchcase(part, pattern) for part in (name, *name.split(".")))]
        if not hits:
            some = ", ".join(dict.fromkeys(re.sub(r"\d+", "*", name) for name in names[:12]))
            raise BadArm(f"--hybrid {pattern}: no parameter has such a name; there are {some}")
        found += hits
    return list(dict.fromkeys(found))


def check_patterns(arms: Sequence[Arm], workload: Workload) -> None:
    """Refuses patterns of ``--hybrid`` that match no parameter, before anything is measured."""
    patterns = list(dict.fromkeys(pattern for arm in arms for pattern in arm.full))
    if not patterns:
        return
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):  # the names alone are needed, no memory
            model = workload.new_model(0)
    except Exception:  # a model that reads values of tensors while it is made
        model = workload.new_model(0)
    matching(patterns, model)


# ------------------------------------------------------------------ names


def arms_of(texts: Sequence[str], lr: float | None = None) -> list[Arm]:
    """The arms that ``-o`` names: ``adamw,adamw8bit[lr=1e-4],torch-fused:adamw,mine.py:Class,twin=adamw``."""
    arms = [arm_of(one, lr) for text in texts for one in _split(text)]
    labels = [arm.label for arm in arms]
    for label in labels:
        if labels.count(label) > 1:
            raise BadArm(f"--optimizers: {label} is named twice; give one another label, as in twin={label}")
    return arms


def _split(text: str) -> list[str]:
    """At commas that stand outside brackets."""
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])", text)]
    if not all(parts):
        raise BadArm(f"--optimizers {text!r}: an empty name between commas")
    return parts


def arm_of(text: str, lr: float | None = None) -> Arm:
    """One arm; ``lr`` holds where brackets say nothing of it."""
    label, equals, spec = text.partition("=")
    if not equals or "[" in label:
        label, spec = "", text
    name, given = _with_settings(spec.strip())
    arm = _named(name)
    settings = {**({} if lr is None else {"lr": lr}), **given}
    schedule = str(settings.pop("schedule", arm.schedule))
    if schedule not in SCHEDULES:
        raise BadArm(f"{text}: there is no schedule {schedule!r}; there are {', '.join(SCHEDULES)}")
    maker = maker_of(arm.optimizer)
    if unknown := [name for name in unknown_settings(maker, settings) if (arm.optimizer, name) != HELD]:
        raise BadArm(f"{text}: {name} has no setting {unknown[0]!r}; it has {', '.join(sorted(maker.settings))}")
    title = label.strip() or arm.label + (spec.strip()[len(name) :] if given else "")
    return dataclasses.replace(arm, label=title, settings={**arm.settings, **settings}, schedule=schedule)


def _with_settings(spec: str) -> tuple[str, dict[str, Any]]:
    found = re.fullmatch(r"(.*?)\[(.*)\]", spec)
    if found is None:
        return spec, {}
    settings = {}
    for pair in found[2].split(","):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip().isidentifier():
            raise BadArm(f"{spec}: between brackets stand settings such as [lr=1e-4], got {pair!r}")
        settings[key.strip()] = _value(value.strip())
    return found[1], settings


def _value(text: str) -> Any:
    if text in ("True", "False", "true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _named(name: str) -> Arm:
    if is_file(name):
        spec = absolute(name, Path())
        maker_of(spec)  # one clear line where the file or its class is not there
        return Arm(name_of(spec), spec)
    label, (implementation, optimizer) = name, NICKNAMES.get(name, (OURS, name))
    if ":" in name:
        implementation, _, optimizer = name.partition(":")
        implementation = ALIASES.get(implementation, implementation)
        if implementation not in IMPLEMENTATIONS:
            raise BadArm(
                f"{name}: there is no implementation {implementation!r}; {_nearest(implementation, IMPLEMENTATIONS)}"
            )
    elif name in IMPLEMENTATIONS and name not in list_optimizers():
        raise BadArm(f"{name} implements several optimizers; name one, for instance {name}:adamw")
    if optimizer not in list_optimizers():
        raise BadArm(f"there is no optimizer {optimizer!r}; {_nearest(optimizer, [*list_optimizers(), *NICKNAMES])}")
    settings, schedule = _documented(optimizer)
    return Arm(label, optimizer, implementation, settings, schedule)


def _documented(optimizer: str) -> tuple[dict[str, Any], str]:
    """The settings that a race runs it with where nothing is tuned, and its schedule."""
    if optimizer == "sophiag":
        return dict(SOPHIA), "warmup_cosine"
    tuning = TUNING.get(optimizer)
    return (dict(tuning.settings), tuning.schedule) if tuning is not None else ({}, "constant")


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return (
        f"did you mean {' or '.join(close)}?" if close else "`fallline optimizers` and `fallline step --list` show all"
    )
