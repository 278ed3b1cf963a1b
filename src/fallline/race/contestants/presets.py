"""Contestants by name: the eleven entries of AlgoPerf v0.5, external tuning, with their own search points.

Points are those of the entries' files; label smoothing and dropout, which are the workload's affair here, are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fallline.race.contestants.contestant import Contestant

_POINT_1 = dict(lr=0.001308209823469072, one_minus_beta1=0.02686663061, beta2=0.9981232922116359,
                weight_decay=0.16375311233774334, warmup_factor=0.1)  # fmt: skip
_POINT_2 = dict(lr=0.0008445074561975979, one_minus_beta1=0.11042418465, beta2=0.9978504782314613,
                weight_decay=0.08135402759553023, warmup_factor=0.05)  # fmt: skip
_POINT_4 = dict(lr=0.004958460849689891, one_minus_beta1=0.13625575743, beta2=0.6291854735396584,
                weight_decay=0.1147386261512052, warmup_factor=0.02)  # fmt: skip
_POINT_5 = dict(lr=0.0017486387539278373, one_minus_beta1=0.06733926164, beta2=0.9955159689799007,
                weight_decay=0.08121616522670176, warmup_factor=0.02)  # fmt: skip

# Points 1 and 3 differ in label smoothing alone.
_NADAMW = (_POINT_1, _POINT_2, _POINT_1, _POINT_4, _POINT_5)


@dataclasses.dataclass(frozen=True)
class Preset:
    """An entry: optimizer, points, schedule."""

    title: str
    optimizer: str
    points: tuple[Mapping[str, Any], ...] = ()
    schedule: str = "warmup_cosine"
    averaging: str | None = None
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _free(lr: float, beta2: float = 0.9955159689799007) -> dict[str, Any]:
    return dict(lr=lr, betas=(0.9, beta2), weight_decay=0.08121616522670176, warmup_factor=0.02)


def _amos(
    style: str, beta1: float, beta2: float, converge: float, l2: float, warmup: float, **more: Any
) -> dict[str, Any]:
    return dict(style=style, beta1=beta1, beta2=beta2, converge=converge, l2=l2, warmup_factor=warmup, **more)


def _adam(lr: float, beta1: float, beta2: float, weight_decay: float, warmup: float, **more: Any) -> dict[str, Any]:
    return dict(lr=lr, beta1=beta1, beta2=beta2, weight_decay=weight_decay, warmup_factor=warmup, **more)


def _shampoo(
    lr: float, one_minus_beta1: float, one_minus_beta2: float, weight_decay: float, warmup: float, **more: Any
) -> dict[str, Any]:
    """The second moment of the grafted method has the factors' decay rate."""
    return {
        "lr": lr,
        "one_minus_beta1": one_minus_beta1,
        "one_minus_beta2": one_minus_beta2,
        "grafting_beta2": 1 - one_minus_beta2,
        "weight_decay": weight_decay,
        "warmup_factor": warmup,
        "grafting": "adam",
        "use_nadam": True,
        "precondition_frequency": 100,
        **more,
    }


_SHARED = (0.0023792566965593815, 0.9800966478498105, 0.9632738717172477, 0.3417568278549717, 0.01)
_SHARED_2 = (0.0014271957958295392, 0.9661952124707597, 0.9957304053273589, 0.09153141484048229, 0.01)

PRESETS: Mapping[str, Preset] = {
    "algoperf_shampoo": Preset(
        "PyTorch Distributed Shampoo",
        "shampoo",
        (
            _shampoo(0.0017486387539278373, 0.06733926164, 0.00448403102, 0.08121616522670176, 0.02),
            _shampoo(
                0.0014381744028656841,
                0.025337537053408913,
                0.02508024059481679,
                0.00019716633625688372,
                0.05,
                cosine_decay_fraction=0.6,
            ),
            _shampoo(
                4.199449275251465,
                1.0,
                0.0023701743773090066,
                6.404237434173623e-05,
                0.02,
                grafting="sgd",
                use_nadam=False,
                momentum=1 - 0.03150207249544311,
                use_nesterov=True,
            ),
            _shampoo(
                0.0012,
                0.016610699316537858,
                0.005888216674053163,
                0.00040349948255455174,
                0.02,
                inverse_exponent=0.5,
                momentum=0.5,
                use_nesterov=True,
            ),
            _shampoo(0.001308209823469072, 0.02686663061, 0.00187670778, 0.16375311233774334, 0.1),
        ),
        settings={
            "epsilon": 1e-8,
            "grafting_epsilon": 1e-8,
            "merge_dims": "first",
            "first_step": "torch-linear",
        },
    ),
    "algoperf_schedule_free_adamw": Preset(
        "Schedule-Free AdamW",
        "schedule_free_adamw",
        (_free(0.004), _free(0.003), _free(0.002), _free(0.005, 0.62918), _free(0.001)),
        schedule="constant",
        settings={"variant": "algoperf", "r": 0.75},
    ),
    "algoperf_generalized_adam": Preset(
        "Generalized Adam",
        "generalized_adam",
        (
            _adam(
                1.9487942250159782, 0.9721703824185486, 0.0, 0.00024022723093685417, 0.1, disable_preconditioning=True
            ),
            _adam(*_SHARED, cosine_decay_fraction=0.75),
            _adam(
                0.003705201967500061,
                0.9735338788784104,
                0.9785557586542197,
                0.022670946869370066,
                0.1,
                cosine_decay_fraction=0.75,
            ),
            _adam(*_SHARED_2),
            _adam(0.001768509931943289, 0.9414979138541995, 0.9768053375036079, 0.0279513959224539, 0.02),
        ),
    ),
    "algoperf_cyclic_lr": Preset(
        "Cyclic LR",
        "nadamw",
        (
            {**_POINT_2, "cycles": 1},
            {**_POINT_1, "cycles": 1},
            {**_POINT_5, "cycles": 1},
            {**_POINT_1, "cycles": 2},
            {**_POINT_5, "cycles": 2},
        ),
        schedule="equal_cycles",
    ),
    "algoperf_nadamp": Preset(
        "NadamP",
        "nadamp",
        (
            _adam(0.0019622900485451312, 0.8009875258060416, 0.9601975051612083, 0.040896666067943545, 0.05),
            _adam(0.0013002412605362058, 0.9603612866058248, 0.9778023204992619, 0.16056758401092633, 0.05),
            _adam(*_SHARED, cosine_decay_fraction=0.75),
            _adam(0.003689112930403633, 0.9762202917508654, 0.995244058350173, 0.061885025693737994, 0.05, power=1.5),
            _adam(*_SHARED_2),
        ),
    ),
    "algoperf_baseline": Preset("Baseline (NAdamW)", "nadamw", _NADAMW),
    "algoperf_amos": Preset(
        "Amos",
        "amos_algoperf",
        (
            _amos("reduced", 0.9, 0.98, 0.65, 0.012, 0.02),
            _amos("adam", 0.95, 0.999, 0.75, 0.002, 0.02, eta=0.062),
            _amos("adam", 0.95, 0.995, 0.65, 0.001, 0.03),
            _amos("adam", 0.95, 0.999, 0.65, 0.0028, 0.02),
            _amos("adam", 0.95, 0.999, 0.75, 0.007, 0.02),
        ),
        schedule="constant",
    ),
    "algoperf_caspr": Preset("CASPR Adaptive", "caspr", _NADAMW, schedule="nested_restarts"),
    "algoperf_lawa_queue": Preset("LAWA queue", "nadamw", _NADAMW, schedule="equal_cycles", averaging="lawa_queue"),
    "algoperf_lawa_ema": Preset(
        "LAWA EMA",
        "nadamw",
        tuple({**point, "average_beta": 0.2} for point in _NADAMW),
        schedule="equal_cycles",
        averaging="lawa_ema",
    ),
    "algoperf_schedule_free_prodigy": Preset(
        "Schedule-Free Prodigy",
        "schedule_free_prodigy",
        tuple({"weight_decay": decay, "warmup_factor": 0.075} for decay in (0.3, 0.1, 0.03, 0.01, 0.003)),
        schedule="constant",
    ),
}
"""In the order of the published leaderboard."""


def from_preset(name: str, preset: Preset) -> Contestant:
    return Contestant(name, preset.optimizer, preset.settings, {}, preset.points, preset.schedule, preset.averaging)
