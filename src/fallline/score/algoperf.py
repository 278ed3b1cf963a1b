"""AlgoPerf's rules for its workloads in v0.5 and v0.6: metrics, targets, budgets, published scores.

Source: mlcommons/submissions_algorithms ``scoring/workload_targets_v05.json`` and the rules of
mlcommons/algorithmic-efficiency ``docs/DOCUMENTATION.md``; budgets of v0.6 from its pull request 838.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

TAU_MAX = 4.0
"""Beyond so many times the fastest, a time counts as a miss; also the end of the score's integral."""

LOWER_IS_BETTER = frozenset({"loss", "ce_loss", "ce", "wer", "ppl", "error_rate", "l1", "l1_loss", "ctc", "ctc_loss"})
HIGHER_IS_BETTER = frozenset({"accuracy", "ssim", "mean_average_precision", "bleu"})


@dataclasses.dataclass(frozen=True)
class Target:
    """When a training run counts as done."""

    metric: str
    value: float

    def reached(self, measured: float) -> bool:
        """Whether a value satisfies the target; NaN never does.

        >>> target = Target("wer", 0.1)
        >>> target.reached(0.09), target.reached(float("nan")), Target("ssim", 0.7).reached(0.69)
        (True, False, False)
        """
        return measured <= self.value if self.metric in LOWER_IS_BETTER else measured >= self.value


TARGETS: Mapping[str, Target] = {
    "criteo1tb": Target("loss", 0.123735),
    "criteo1tb_embed_init": Target("loss", 0.129657),
    "criteo1tb_layernorm": Target("loss", 0.123757),
    "fastmri": Target("ssim", 0.723653),
    "fastmri_model_size": Target("ssim", 0.723559),
    "fastmri_tanh": Target("ssim", 0.71784),
    "imagenet_resnet": Target("accuracy", 0.77431),
    "imagenet_resnet_large_bn_init": Target("accuracy", 0.76526),
    "imagenet_resnet_silu": Target("accuracy", 0.75445),
    "imagenet_vit": Target("accuracy", 0.77309),
    "librispeech_conformer": Target("wer", 0.085884),
    "librispeech_conformer_layernorm": Target("wer", 0.09731),
    "librispeech_deepspeech": Target("wer", 0.119936),
    "ogbg": Target("mean_average_precision", 0.28098),
    "ogbg_gelu": Target("mean_average_precision", 0.27771),
    "ogbg_model_size": Target("mean_average_precision", 0.269446),
    "wmt": Target("bleu", 30.8491),
    "wmt_glu_tanh": Target("bleu", 29.5779),
}

BASE_WORKLOADS = (
    "criteo1tb",
    "fastmri",
    "imagenet_resnet",
    "imagenet_vit",
    "librispeech_conformer",
    "librispeech_deepspeech",
    "ogbg",
    "wmt",
)

HELD_OUT = (
    "criteo1tb_embed_init",
    "fastmri_tanh",
    "imagenet_resnet_large_bn_init",
    "librispeech_conformer_layernorm",
    "ogbg_model_size",
    "wmt_glu_tanh",
)
"""The variants that were drawn, after the code freeze, for the scoring of v0.5; others in the logs do not count."""

BUDGETS: Mapping[str, Mapping[str, float]] = {
    "v0.5": dict(zip(BASE_WORKLOADS, (7703, 8859, 63008, 77520, 61068, 55506, 18477, 48151), strict=True)),
    "v0.6": dict(zip(BASE_WORKLOADS, (7703, 4430, 66159, 69768, 58015, 44405, 12011, 43336), strict=True)),
}
"""Seconds of training, in external tuning."""

MISS_SECONDS = 1.0
"""A miss counts in speed-ups as the budget and so much more."""

SELF_TUNING: Mapping[str, float] = {"v0.5": 3.0, "v0.6": 1.5}
"""So many times as much in self-tuning."""


def budgets(*, held_out: bool, self_tuning: bool) -> dict[str, float]:
    """The budgets of the rules that logs are scored by: those with held-out variants are v0.5's.

    >>> [budgets(held_out=h, self_tuning=s)["fastmri"] for h, s in ((True, False), (True, True), (False, True))]
    [8859.0, 26577.0, 6645.0]
    """
    version = "v0.5" if held_out else "v0.6"
    factor = SELF_TUNING[version] if self_tuning else 1.0
    return {workload: factor * seconds for workload, seconds in BUDGETS[version].items()}


PUBLISHED: Mapping[str, float] = {
    "shampoo_submission": 0.7784,
    "schedule_free_adamw": 0.7077,
    "generalized_adam": 0.6383,
    "cyclic_lr": 0.6301,
    "nadamp": 0.5909,
    "baseline": 0.5707,
    "amos": 0.4918,
    "caspr_adaptive": 0.4722,
    "lawa_queue": 0.3699,
    "lawa_ema": 0.3384,
    "schedule_free_prodigy": 0.0,
}
"""The leaderboard of v0.5, external tuning, by the names of the log folders."""


def base_of(workload: str, bases: Iterable[str] = BASE_WORKLOADS) -> str | None:
    """The base workload that a variant belongs to: the first whose name is part of the variant's.

    >>> base_of("imagenet_resnet_silu"), base_of("wmt"), base_of("cifar")
    ('imagenet_resnet', 'wmt', None)
    """
    return next((base for base in bases if base in workload), None)
