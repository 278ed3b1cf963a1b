"""For every optimizer one documented setting, and the space in which it is tuned.

Ranges are a factor of about 3 to 10 on both sides of what its authors recommend, in the coordinates that AlgoPerf
searches (1 − β on a log scale).  Five trials cannot cover more than a few dimensions, so what matters less stays at its
default.  All run on warm-up and cosine, unless they are made to run without a schedule.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fallline.race.halton import Dimension


@dataclasses.dataclass(frozen=True)
class Tuning:
    """How an optimizer enters a race if nothing else is said."""

    settings: Mapping[str, Any]
    """Without tuning; also what is not searched."""
    space: Mapping[str, Dimension]
    schedule: str = "warmup_cosine"


def log(low: float, high: float) -> Dimension:
    return {"min": low, "max": high, "scaling": "log"}


def one_of(*points: Any) -> Dimension:
    return {"feasible_points": list(points)}


WARMUP = one_of(0.02, 0.05, 0.1)
DECAY = log(1e-3, 0.3)
BETAS = {"one_minus_beta1": log(0.02, 0.2), "one_minus_beta2": log(0.001, 0.1)}
FREE = "constant"


def _adam_like(lr: float, *, low: float, high: float, decay: bool = True, betas: bool = True, **more: Any) -> Tuning:
    space: dict[str, Dimension] = {"lr": log(low, high)}
    space |= {"weight_decay": DECAY} if decay else {}
    space |= BETAS if betas else {}
    settings = {"lr": lr, "warmup_factor": 0.05, **({"weight_decay": 0.05} if decay else {}), **more}
    return Tuning(settings, {**space, "warmup_factor": WARMUP})


def _sgd_like(lr: float, *, low: float, high: float, **more: Any) -> Tuning:
    settings = {"lr": lr, "weight_decay": 1e-4, "warmup_factor": 0.05, **more}
    space = {"lr": log(low, high), "weight_decay": log(1e-6, 1e-3), "warmup_factor": WARMUP}
    return Tuning(settings, space)


_NESTEROV = {"momentum": 0.9, "nesterov": True}

TUNING: Mapping[str, Tuning] = {
    "adadelta": _sgd_like(1.0, low=0.1, high=10.0),
    "adafactor": _adam_like(0.01, low=1e-3, high=0.1, betas=False),
    "adagrad": _sgd_like(0.03, low=3e-3, high=0.3),
    "adam": _adam_like(2e-3, low=3e-4, high=1e-2, decay=False),
    "adam8bit": _adam_like(2e-3, low=3e-4, high=1e-2, decay=False),
    "adamax": _adam_like(4e-3, low=5e-4, high=2e-2, decay=False),
    "adamp": _adam_like(2e-3, low=3e-4, high=1e-2),
    "adamw": _adam_like(4e-3, low=3e-4, high=1e-2),
    "adamw8bit": _adam_like(2e-3, low=3e-4, high=1e-2),
    # Its authors advise 5 to 10 times Adam's rate; their three betas are kept.
    "adan": _adam_like(1.5e-2, low=1e-3, high=3e-2, betas=False),
    "ademamix": _adam_like(2e-3, low=3e-4, high=1e-2, betas=False),
    "adopt": _adam_like(2e-3, low=3e-4, high=1e-2, betas=False, decouple=True),
    "amos": _adam_like(0.01, low=1e-3, high=0.1, decay=False, betas=False),
    # The rate follows from the length of training (fallline.amos_lr); converge is the share of it that should suffice.
    "amos_algoperf": Tuning(
        {"l2": 0.002, "warmup_factor": 0.02, "converge": 0.75},
        {"l2": log(1e-3, 1.2e-2), "converge": one_of(0.65, 0.75), "warmup_factor": one_of(0.02, 0.03)},
        FREE,
    ),
    "amsgrad": _adam_like(2e-3, low=3e-4, high=1e-2, decay=False),
    "fromage": Tuning({"lr": 0.02, "warmup_factor": 0.05}, {"lr": log(2e-3, 0.1), "warmup_factor": WARMUP}),
    "generalized_adam": _adam_like(2e-3, low=3e-4, high=1e-2),
    "lamb": _adam_like(5e-3, low=1e-3, high=3e-2),
    # A third to a tenth of AdamW's rate with a decay as much larger, as its authors advise.
    "lion": _adam_like(1.5e-3, low=1e-4, high=3e-3, betas=False, weight_decay=0.1),
    "lion8bit": _adam_like(3e-4, low=3e-5, high=1e-3, betas=False, weight_decay=0.3),
    "mars": _adam_like(3e-3, low=1e-3, high=1e-2, betas=False),
    "nadam": _adam_like(2e-3, low=3e-4, high=1e-2, decoupled_weight_decay=True),
    "nadamp": _adam_like(2e-3, low=3e-4, high=1e-2),
    "nadamw": _adam_like(2e-3, low=3e-4, high=1e-2),
    "nag4": Tuning({"lr": 0.05, "warmup_factor": 0.05}, {"lr": log(3e-3, 0.3), "warmup_factor": WARMUP}),
    "nag_gs": Tuning({"lr": 0.05, "warmup_factor": 0.05}, {"lr": log(3e-3, 0.3), "warmup_factor": WARMUP}),
    "prodigy": Tuning(
        {"lr": 1.0, "weight_decay": 0.03, "warmup_factor": 0.05},
        {"d_coef": log(0.3, 3.0), "weight_decay": DECAY, "warmup_factor": WARMUP},
    ),
    "qhadam": _adam_like(2e-3, low=3e-4, high=1e-2, nus=(0.7, 1.0), decouple_weight_decay=True),
    "qhm": _sgd_like(1.0, low=0.1, high=10.0, momentum=0.99),
    "radam": _adam_like(2e-3, low=3e-4, high=1e-2, decoupled_weight_decay=True),
    "rmsprop": _sgd_like(1e-3, low=1e-4, high=1e-2),
    # The rate stays constant: an average of the weights is evaluated.
    "schedule_free_adamw": Tuning(
        {"lr": 1e-2, "weight_decay": 0.05, "warmup_factor": 0.05},
        {"lr": log(1e-3, 2e-2), "weight_decay": DECAY, **BETAS, "warmup_factor": WARMUP},
        FREE,
    ),
    "schedule_free_prodigy": Tuning(
        {"weight_decay": 0.03, "warmup_factor": 0.075},
        {"d_coef": log(0.3, 3.0), "weight_decay": one_of(0.3, 0.1, 0.03, 0.01, 0.003)},
        FREE,
    ),
    "schedule_free_sgd": Tuning(
        {"lr": 1.0, "warmup_factor": 0.05}, {"lr": log(0.1, 10.0), "warmup_factor": WARMUP}, FREE
    ),
    "sgd": _sgd_like(0.3, low=0.01, high=3.0, **_NESTEROV),
    "sgdp": _sgd_like(0.1, low=0.01, high=3.0, **_NESTEROV),
}

NOT_RACED: Mapping[str, str] = {
    "sophiag": "its Hessian needs labels sampled from the model, which a workload does not give",
}
"""Optimizers that a race cannot run, and why."""
