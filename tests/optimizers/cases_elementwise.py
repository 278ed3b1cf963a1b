"""Elementwise optimizers and the straight-line code that each is compared with.  One row per form worth a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Case:
    optimizer: str
    """The class in fallline."""
    oracle: str
    """The module in tests/oracles."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    oracle_options: Mapping[str, Any] | None = None
    """Where they differ from the optimizer's."""
    calls: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """After these steps, this method is called on both."""
    one_oracle: bool = False
    """Groups are not independent of each other: one oracle for all, and one learning rate."""


def cautious(optimizer: str, oracle: str, options: dict[str, Any], oracle_options: dict[str, Any], **more: Any) -> Case:
    return Case(optimizer, oracle, {**options, "cautious": True}, {**options, **oracle_options}, **more)


HESSIANS = {step: "update_hessian" for step in (4, 9, 14, 19, 24, 29, 34)}

CASES: dict[str, Case] = {
    "adadelta": Case("Adadelta", "adadelta"),
    "adadelta, all options": Case("Adadelta", "adadelta", dict(lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1)),
    "adadelta, two decay rates": Case("Adadelta", "adadelta", dict(rho=0.95, gamma=0.7)),
    "nadam": Case("NAdam", "nadam"),
    "nadam, coupled": Case("NAdam", "nadam", dict(lr=0.01, betas=(0.8, 0.95), weight_decay=0.1, momentum_decay=0.05)),
    "nadam, decoupled": Case("NAdam", "nadam", dict(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True)),
    "nadamw": Case("NAdamW", "nadamw"),
    "nadamw, all options": Case("NAdamW", "nadamw", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.2)),
    "nadamp": Case("NadamP", "nadamp", dict(weight_decay=0.1)),
    "nadamp, power 1.5": Case("NadamP", "nadamp", dict(lr=0.01, power=1.5, eps_root=1e-4, eps=1e-3)),
    "nadamp, power 3": Case("NadamP", "nadamp", dict(lr=0.01, power=3.0, betas=(0.8, 0.95))),
    "generalized adam": Case("GeneralizedAdam", "generalized_adam", dict(weight_decay=0.1)),
    "generalized adam, no look-ahead": Case("GeneralizedAdam", "generalized_adam", dict(lr=0.01, nesterov=False)),
    "generalized adam, power 1.5": Case("GeneralizedAdam", "generalized_adam", dict(power=1.5, eps_root=1e-3)),
    "generalized adam, power 3, no look-ahead": Case(
        "GeneralizedAdam", "generalized_adam", dict(power=3.0, nesterov=False)
    ),
    "generalized adam, SGD": Case(
        "GeneralizedAdam", "generalized_adam", dict(lr=0.01, disable_preconditioning=True, weight_decay=0.1)
    ),
    "generalized adam, momentum": Case(
        "GeneralizedAdam", "generalized_adam", dict(lr=0.01, disable_preconditioning=True, nesterov=False)
    ),
    "radam": Case("RAdam", "radam"),
    # At β2 = 0.9 the division begins at the seventh step, at 0.6 never.
    "radam, coupled": Case("RAdam", "radam", dict(lr=0.01, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1)),
    "radam, decoupled": Case("RAdam", "radam", dict(lr=0.01, weight_decay=0.1, decoupled_weight_decay=True)),
    "radam, never adaptive": Case("RAdam", "radam", dict(lr=0.01, betas=(0.9, 0.6))),
    "adamax": Case("Adamax", "adamax"),
    "adamax, all options": Case("Adamax", "adamax", dict(lr=0.01, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1)),
    "adan": Case("Adan", "adan", dict(lr=0.01, weight_decay=0.02)),
    "adan, no prox": Case("Adan", "adan", dict(lr=0.01, weight_decay=0.1, no_prox=True, betas=(0.9, 0.8, 0.95))),
    "adan, clipped": Case("Adan", "adan", dict(lr=0.01, max_grad_norm=1.0, eps=1e-4), one_oracle=True),
    "adan, clipped, no prox": Case(
        "Adan", "adan", dict(lr=0.01, max_grad_norm=100.0, no_prox=True, weight_decay=0.1), one_oracle=True
    ),
    "adan, restarted": Case("Adan", "adan", dict(lr=0.01), calls={13: "restart_opt"}),
    "qhm": Case("QHM", "qhm", dict(lr=0.01, momentum=0.9, nu=0.7)),
    "qhm, coupled": Case("QHM", "qhm", dict(lr=0.1, momentum=0.999, nu=0.7, weight_decay=0.1)),
    "qhm, direct": Case("QHM", "qhm", dict(lr=0.1, momentum=0.9, nu=1.3, weight_decay=0.1, weight_decay_type="direct")),
    "qhadam": Case("QHAdam", "qhadam"),
    "qhadam, coupled": Case("QHAdam", "qhadam", dict(lr=0.01, nus=(0.8, 0.7), betas=(0.99, 0.9), weight_decay=0.1)),
    "qhadam, decoupled": Case(
        "QHAdam", "qhadam", dict(lr=0.01, nus=(0.7, 1.0), eps=1e-3, weight_decay=0.1, decouple_weight_decay=True)
    ),
    "sophiag": Case("SophiaG", "sophiag", dict(lr=0.01), calls=HESSIANS),
    "sophiag, small batch": Case("SophiaG", "sophiag", dict(lr=0.01, bs=4, rho=0.5, betas=(0.9, 0.8)), calls=HESSIANS),
    "sophiag, without curvature": Case("SophiaG", "sophiag", dict(lr=0.01, weight_decay=0.3)),
    "nag-gs": Case("NAGGS", "nag_gs"),
    "nag-gs, all options": Case("NAGGS", "nag_gs", dict(lr=0.1, mu=0.3, gamma=2.0)),
    "nag-gs, mu 0": Case("NAGGS", "nag_gs", dict(lr=0.1, mu=0.0, gamma=2.0)),
    "nag-gs, jax": Case("NAGGS", "nag_gs", dict(variant="jax")),
    "nag4": Case("NAG4", "nag4"),
    "nag4, as in jax": Case("NAG4", "nag4", dict(lr=0.05, gamma=1.5), dict(variant="jax")),
    "adopt": Case("ADOPT", "adopt"),
    "adopt, coupled": Case("ADOPT", "adopt", dict(lr=0.01, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    "adopt, decoupled": Case("ADOPT", "adopt", dict(lr=0.01, weight_decay=0.1, decouple=True)),
    "adopt, not clipped": Case("ADOPT", "adopt", dict(lr=0.01, clip_exp=None), dict(lr=0.01, clip_lambda=None)),
    "adopt, clipped as in timm": Case(
        "ADOPT", "adopt", dict(lr=0.01, clip_exp=0.333), dict(lr=0.01, clip_lambda=lambda step: step**0.333)
    ),
    "ademamix": Case("AdEMAMix", "ademamix", dict(weight_decay=0.1)),
    "ademamix, warm-up": Case(
        "AdEMAMix", "ademamix", dict(lr=0.01, alpha=8.0, alpha_warmup=25, beta3_warmup=30, betas=(0.8, 0.95, 0.999))
    ),
    "ademamix, one warm-up": Case("AdEMAMix", "ademamix", dict(lr=0.01, beta3_warmup=100)),
    "ademamix, no fast mean": Case(
        "AdEMAMix", "ademamix", dict(lr=0.01, betas=(0.0, 0.99, 0.999), alpha_warmup=20, beta3_warmup=20)
    ),
    "mars": Case("MARS", "mars", dict(weight_decay=0.1, lr_1d=0.01)),
    "mars, lion": Case("MARS", "mars", dict(lr=0.001, mars_type="mars-lion", weight_decay=0.1)),
    "mars, all tensors": Case("MARS", "mars", dict(lr=0.01, optimize_1d=True, gamma=0.1, betas=(0.9, 0.95))),
    "mars, all tensors, lion": Case("MARS", "mars", dict(optimize_1d=True, mars_type="mars-lion", amsgrad=True)),
    "mars, amsgrad": Case("MARS", "mars", dict(lr=0.01, amsgrad=True, betas=(0.9, 0.8), eps=1e-3)),
    "mars, lion, amsgrad": Case("MARS", "mars", dict(mars_type="mars-lion", amsgrad=True, weight_decay_1d=0.0)),
    "amsgrad": Case("AMSGrad", "adam", dict(lr=0.01, betas=(0.9, 0.8)), dict(lr=0.01, betas=(0.9, 0.8), amsgrad=True)),
    "amsgrad, optax": Case(
        "AMSGrad",
        "adam",
        dict(lr=0.01, betas=(0.9, 0.8), weight_decay=0.1, variant="optax"),
        dict(lr=0.01, betas=(0.9, 0.8), weight_decay=0.1, variant="optax", amsgrad=True),
    ),
    "amsgrad, paper": Case(
        "AMSGrad",
        "adam",
        dict(lr=0.01, betas=(0.9, 0.8), weight_decay=0.1, variant="paper", decoupled_weight_decay=True),
        dict(lr=0.01, betas=(0.9, 0.8), weight_decay=0.1, variant="paper", decoupled_weight_decay=True, amsgrad=True),
    ),
    "cautious adamw": cautious(
        "AdamW", "cautious_adamw", dict(lr=0.01, eps=1e-6, weight_decay=0.1), dict(variant="timm")
    ),
    "cautious lion": cautious("Lion", "lion", dict(lr=0.01, weight_decay=0.1), dict(cautious_factor=0.0)),
}
