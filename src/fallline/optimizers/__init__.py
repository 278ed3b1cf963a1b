"""One file per optimizer: its equations, its defaults, its sources.  Imports no torch."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Iterator

from fallline.optimizers.describe import Description
from fallline.rules.gradients import gradient_norm
from fallline.rules.program import Program

# Class name → file.  A table, so that asking for one optimizer imports one file; a test keeps it true.
FILES = {
    "SGD": "sgd",
    "Adam": "adam",
    "AMSGrad": "adam",
    "Adam8bit": "adam",
    "AdamW": "adamw",
    "AdamW8bit": "adamw",
    "Adagrad": "adagrad",
    "RMSprop": "rmsprop",
    "Lion": "lion",
    "Lion8bit": "lion",
    "Adadelta": "adadelta",
    "NAdam": "nadam",
    "NAdamW": "nadamw",
    "NadamP": "nadamp",
    "GeneralizedAdam": "generalized_adam",
    "RAdam": "radam",
    "Adamax": "adamax",
    "Adan": "adan",
    "QHM": "qhm",
    "QHAdam": "qhadam",
    "SophiaG": "sophiag",
    "NAGGS": "nag_gs",
    "NAG4": "nag4",
    "ADOPT": "adopt",
    "AdEMAMix": "ademamix",
    "MARS": "mars",
}


@functools.cache
def description(class_name: str) -> Description:
    """The description behind a class name, ``description("AdamW")``."""
    module = importlib.import_module(f"fallline.optimizers.{FILES[class_name]}")
    return next(d for d in vars(module).values() if isinstance(d, Description) and d.class_name == class_name)


def descriptions() -> list[Description]:
    """All of them, by registry name."""
    return sorted((description(name) for name in FILES), key=lambda d: d.name)


def builtin_programs() -> Iterator[Program]:
    """Every specialisation that the native library should contain."""
    rules = {d.rule.name: d.rule for d in descriptions()}
    for rule in (*rules.values(), gradient_norm):
        for trace in rule.specialisations():
            yield rule.program(trace)
            for entry in rule.entries:
                yield rule.program(dataclasses.replace(trace, entry=entry))

