"""A causal language model of ``transformers`` from a local ``config.json``, with new weights, on the text of a GPT.

Nothing is downloaded, and no code of a repository runs.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from fallline.workloads import gpt_text
from fallline.workloads.errors import WorkloadError
from fallline.workloads.gpt import BYTES, IGNORED
from fallline.workloads.workload import About, Workload


def workload(config: str, batch: int = 8, sequence: int = 256, data: str = "", padding: str = "none") -> Workload:
    """``config``: the file, or the folder that holds it."""
    try:
        from transformers import AutoConfig, AutoModelForCausalLM
    except ImportError as error:
        raise WorkloadError(f"{config}: needs the package transformers ({error}); pip install transformers") from None
    try:
        made = AutoConfig.from_pretrained(config, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # its errors have no common class
        raise WorkloadError(f"{config}: {str(error).partition(chr(10))[0]}") from None
    if (vocabulary := getattr(made, "vocab_size", 0)) < BYTES:
        raise WorkloadError(f"{config}: a vocabulary of {vocabulary} cannot hold {BYTES} bytes")
    on_text = gpt_text.workload("tiny", batch=batch, sequence=sequence, data=data, padding=padding)
    evaluate = gpt_text.evaluation(gpt_text.corpus(data), min(batch, 8), sequence, padding, loss)
    return dataclasses.replace(
        on_text,
        name=Path(config).resolve().parent.name if config.endswith(".json") else Path(config).resolve().name,
        model=lambda seed: AutoModelForCausalLM.from_config(made),
        loss=lambda model, pair: loss(model, *pair),
        evaluate=evaluate,
        about=About("next byte", f"{made.model_type} of transformers", "CE"),
        sampled_loss=lambda model, pair: gpt_text.sampled_loss(_Logits(model), pair),
    )


class _Logits:
    """Gives the logits alone, as a GPT does."""

    def __init__(self, model: nn.Module):
        self._model = model

    def __call__(self, tokens: Tensor) -> Any:
        return self._model(tokens, use_cache=False).logits


def loss(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    logits = _Logits(model)(tokens)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
