"""The methods that set targets, AlgoPerf's four: AdamW, NAdamW, SGD with Nesterov's and with heavy-ball momentum."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

import fallline
from fallline.workloads.seeding import mixed

ADAPTIVE = {
    "lr": (1e-3, 2e-2),
    "one_minus_beta1": (0.03, 0.2),
    "one_minus_beta2": (2e-3, 5e-2),
    "weight_decay": (1e-3, 1e-1),
}
MOMENTUM = {"lr": (2e-2, 1.0), "one_minus_momentum": (0.03, 0.2), "weight_decay": (1e-6, 1e-3)}
METHODS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "adamw": ADAPTIVE,
    "nadamw": ADAPTIVE,
    "nesterov": MOMENTUM,
    "heavy_ball": MOMENTUM,
}
"""Method → hyperparameter → range, searched on a log scale."""

# Learning rates of networks do not fit a quadratic: factors for adaptive and for momentum methods.
LR_SCALE = {"quadratic_deep": (10.0, 0.1)}


def points(method: str, count: int, workload: str = "") -> list[dict[str, float]]:
    """Settings from a scrambled Sobol' sequence, logarithmic in every dimension; more trials add to fewer."""
    space = dict(METHODS[method])
    scale = LR_SCALE.get(workload, (1.0, 1.0))[METHODS[method] is MOMENTUM]
    space["lr"] = (space["lr"][0] * scale, space["lr"][1] * scale)
    drawn = torch.quasirandom.SobolEngine(len(space), scramble=True, seed=mixed(0, method) % 2**31).draw(count)
    return [
        {
            name: float(f"{low * math.exp(u * math.log(high / low)):.4g}")
            for u, (name, (low, high)) in zip(row, space.items(), strict=True)
        }
        for row in drawn.tolist()
    ]


def optimizer(method: str, model: torch.nn.Module, setting: Mapping[str, float]) -> torch.optim.Optimizer:
    lr, weight_decay = setting["lr"], setting["weight_decay"]
    if METHODS[method] is ADAPTIVE:
        betas = (1 - setting["one_minus_beta1"], 1 - setting["one_minus_beta2"])
        return fallline.create(method, model, lr=lr, betas=betas, weight_decay=weight_decay)
    momentum = 1 - setting["one_minus_momentum"]
    nesterov = method == "nesterov"
    return fallline.create("sgd", model, lr=lr, momentum=momentum, nesterov=nesterov, weight_decay=weight_decay)
