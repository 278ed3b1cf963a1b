"""One model under one optimizer, with or without checkpointing: predicted, and measured in a process of its own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from fallline.footprint.measuring import measure
from fallline.footprint.prediction import Predictor
from fallline.footprint.setting import Setting
from fallline.footprint.trainees import trainee

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
MODELS = ("mlp", "cnn", "gpt", "vit", "embeddings")
OPTIMIZERS = ("adamw", "adamw8bit", "adafactor")
THREADS = 1


@dataclasses.dataclass(frozen=True)
class Case:
    model: str
    optimizer: str
    checkpointing: bool
    fixed: bool = True
    """Whether the threshold of the C library is fixed."""

    @property
    def name(self) -> str:
        words = [
            self.model,
            self.optimizer,
            *["checkpointing"] * self.checkpointing,
            *["usual malloc"] * (not self.fixed),
        ]
        return " ".join(words)


CASES = [
    *(Case(model, "adamw", again) for again in (False, True) for model in MODELS),
    *(Case(model, "adamw", again, fixed=False) for again in (True, False) for model in ("cnn", "gpt")),
    *(Case(model, optimizer, again) for optimizer in OPTIMIZERS[1:] for again in (False, True) for model in MODELS),
]
_PREDICTORS: dict[str, Predictor] = {}


def spec_of(model: str) -> str:
    return f"{HERE / 'models.py'}:{model}"


def measured(case: Case) -> dict[str, float]:
    """Bytes, predicted and measured, and the operations of an iteration."""
    spec = spec_of(case.model)
    if case.model not in _PREDICTORS:
        _PREDICTORS[case.model] = Predictor(trainee(spec))
    prediction = _PREDICTORS[case.model].predict(Setting(case.optimizer, checkpointing=case.checkpointing))
    found = measure(spec, prediction.setting, THREADS, fixed=case.fixed)
    memory = prediction.optimizer
    predicted = {
        "parameters": memory.parameters,
        "gradients": memory.gradients,
        "states": memory.optimizer,
        "peak": prediction.peak,
    }
    return {
        **{f"predicted {name}": size for name, size in predicted.items()},
        **{f"measured {name}": getattr(found, name) for name in predicted},
        "workspace": memory.workspace,
        "libraries": found.libraries or 0,
        "resident": found.resident or 0,
        "activations": sum(one.bytes for one in prediction.trace.kept),
        "flops": prediction.trace.flops,
        "recomputed": prediction.trace.recomputed_flops,
    }
