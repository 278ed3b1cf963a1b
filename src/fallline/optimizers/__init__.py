"""One file per optimizer: its equations, its defaults, its sources.  Imports no torch."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import math
from collections.abc import Iterator, Sequence

from fallline.optimizers.description import Description
from fallline.rules.gradients import gradient_norm
from fallline.rules.program import Program
from fallline.rules.trace import Trace

# Class name → file.  With a table, asking for one optimizer imports one file; a test keeps the table true.
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
    "Muon": "muon",
    "Muon8bit": "muon",
    "NorMuon": "normuon",
    "Shampoo": "shampoo",
    "ShampooAlgoPerf": "shampoo",
    "SOAP": "soap",
    "CASPR": "caspr",
    "NAG4": "nag4",
    "ADOPT": "adopt",
    "AdEMAMix": "ademamix",
    "MARS": "mars",
    "Adafactor": "adafactor",
    "AdamP": "adamp",
    "SGDP": "sgdp",
    "Amos": "amos",
    "AmosAlgoPerf": "amos_algoperf",
    "Fromage": "fromage",
    "LAMB": "lamb",
    "Prodigy": "prodigy",
    "ScheduleFreeSGD": "schedule_free_sgd",
    "ScheduleFreeAdamW": "schedule_free_adamw",
    "ScheduleFreeProdigy": "schedule_free_prodigy",
}


@functools.cache
def description_of(class_name: str) -> Description:
    """The description behind a class name, ``description_of("AdamW")``."""
    module = importlib.import_module(f"fallline.optimizers.{FILES[class_name]}")
    return next(d for d in vars(module).values() if isinstance(d, Description) and d.class_name == class_name)


def descriptions() -> list[Description]:
    """All descriptions, in the order of their registry names."""
    return sorted((description_of(name) for name in FILES), key=lambda d: d.name)


def description_named(name: str) -> Description:
    """The description of a registry name or class name; case does not matter."""
    if not isinstance(name, str):
        raise TypeError(f'the name of an optimizer must be a string such as "adamw", got {name!r}')
    for described in descriptions():
        if name.lower() in (described.name, described.class_name.lower()):
            return described
    close = difflib.get_close_matches(name.lower(), [described.name for described in descriptions()], n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else "; fallline.list_optimizers() lists them"
    raise ValueError(f"there is no optimizer {name!r}{hint}")


def builtin_programs() -> Iterator[Program]:
    """Every specialisation that the native library should contain; others are compiled when first used."""
    users: dict[str, list[Description]] = {}
    for described in descriptions():
        users.setdefault(described.rule.name, []).append(described)
    for described_here in users.values():
        rule = described_here[0].rule
        for trace in rule.specialisations():
            if _is_prebuilt(trace, described_here):
                yield rule.program(trace)
                for entry in rule.entries:
                    yield rule.program(dataclasses.replace(trace, entry=entry))
    yield from (gradient_norm.program(trace) for trace in gradient_norm.specialisations())


MOST_COMBINATIONS = 8


def _is_prebuilt(trace: Trace, users: Sequence[Description]) -> bool:
    """Whether a specialisation is built in.  A rule with few combinations has all of them built; of other rules, only
    specialisations that differ from a default in at most one switch."""
    rule = users[0].rule
    free = rule.free_statics
    if math.prod(len(rule.statics[name].choices) for name in free) <= MOST_COMBINATIONS:
        return True
    for described in users:
        for variant in ({}, *described.variants.values()):
            values = described.expand({**described.defaults, **variant})
            usual = dict(rule.trace_for(values, trace.ndim or 0).statics)
            if sum(usual[name] != choice for name, choice in trace.statics if name in free) <= 1:
                return True
    return False
