"""fallline: every optimizer as one fused pass over memory, and which one trains your model fastest.

Attributes are imported when they are first used, so that ``import fallline`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "create": "fallline.optim.registry",
    "info": "fallline.catalogue",
    "list_optimizers": "fallline.optim.registry",
    "optimizer": "fallline.optim.classes",
    "export_for_torch": "fallline.optim.export",
    "amos_lr": "fallline.optimizers.amos_algoperf",
    "rule": "fallline.rules",
    "select": "fallline.optim",
    "LawaEma": "fallline.averaging",
    "LawaQueue": "fallline.averaging",
    "WeightEma": "fallline.averaging",
    "EqualCycles": "fallline.schedules",
    "NestedRestarts": "fallline.schedules",
    "WarmupCosine": "fallline.schedules",
    "WarmupStableDecay": "fallline.schedules",
    "FullMatrixAdagrad": "fallline.teaching",
    "LineSearchGD": "fallline.teaching",
    "lr_range_test": "fallline.training.lr_range_test",
    "results": "fallline.report.notebook",
    "Workload": "fallline.workloads",
}

_MODULES = ("averaging", "rules", "schedules", "teaching")


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"fallline.{name}")
    else:
        from fallline.optimizers import FILES

        if name not in FILES:
            raise AttributeError(f"module 'fallline' has no attribute {name!r}")
        from fallline.optim.classes import builtin_class

        value = builtin_class(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from fallline.optimizers import FILES

    return sorted({*_PUBLIC, *_MODULES, *FILES, "__version__"})
