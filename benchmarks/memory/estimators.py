"""Estimates of other packages for the same models, trained by AdamW in 32 bits on one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.memory import models
from benchmarks.memory.cases import MODELS as NAMES


def _builder(name: str) -> Callable[[], Any]:
    return lambda: getattr(models, name)().new_model(0)


MODELS: Mapping[str, Callable[[], Any]] = {name: _builder(name) for name in NAMES}


def accelerate(model: Callable[[], Any]) -> dict[str, float] | None:
    """The figure that ``accelerate estimate-memory`` prints as training with Adam in float32."""
    try:
        from accelerate.commands.estimate import estimate_training_usage
        from accelerate.utils import calculate_maximum_sizes
    except ImportError:
        return None
    size, _ = calculate_maximum_sizes(model())
    return {"bytes": float(max(estimate_training_usage(size, "float32").values()))}


def deepspeed(model: Callable[[], Any]) -> dict[str, float] | None:
    """DeepSpeed's estimate for stage 2 on one device without offloading, parameters and states."""
    try:
        from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs
    except Exception:  # its import fails in many ways where a GPU is expected
        return None
    total = sum(param.numel() for param in model().parameters())
    _, device = estimate_zero2_model_states_mem_needs(
        total, num_gpus_per_node=1, num_nodes=1, cpu_offload=False, additional_buffer_factor=1.5
    )
    return {"bytes": float(device)}


# Each gives None where its package is not installed.
ESTIMATORS = {"accelerate": accelerate, "deepspeed": deepspeed}
