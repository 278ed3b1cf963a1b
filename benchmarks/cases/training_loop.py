"""Forward, backward and step in a loop: kernels share torch's threads, so the whole is not slower either."""

from __future__ import annotations

import copy
from typing import Any

import torch

from benchmarks.arms import OURS, TORCH, adamw
from benchmarks.gpt import GPT
from benchmarks.rows import Result, Row, milliseconds
from benchmarks.settings import Settings
from benchmarks.steps import note
from benchmarks.timing import Arm, interleave

BAR = 1.0
MODELS: dict[str, dict[str, int]] = {
    "narrow and deep": {"width": 64, "layers": 8, "batch": 2},
    "wide": {"width": 256, "layers": 4, "batch": 8},
}
VOCABULARY, CONTEXT = 256, 64


def run(settings: Settings) -> Result:
    rows, raw = [], {}
    for label, size in MODELS.items():
        torch.manual_seed(settings.seed)
        model = GPT(VOCABULARY, width=size["width"], layers=size["layers"], context=CONTEXT)
        tokens = torch.randint(VOCABULARY, (size["batch"], CONTEXT + 1))
        arms = {name: _iteration(name, copy.deepcopy(model), tokens) for name in (OURS, TORCH)}
        note(f"training loop, {label} GPT")
        samples = interleave(arms, settings, [(TORCH, OURS)])
        note(f"  {samples.rounds} rounds, {samples.stopped}, spread {samples.noise:.1%}")
        count = sum(p.numel() for p in model.parameters())
        rows.append(
            Row(
                "training_loop",
                f"forward, backward, AdamW step; {label} GPT, {count / 1e6:.1f} M parameters, "
                f"{len(list(model.parameters()))} tensors",
                f"the same with {TORCH}",
                BAR,
                strict=False,
                value=samples.ratio(TORCH, OURS),
                ours=milliseconds(samples.median(OURS)),
                theirs=milliseconds(samples.median(TORCH)),
            )
        )
        raw[label] = samples.as_json()
    return Result(rows, raw)


def _iteration(name: str, model: GPT, tokens: torch.Tensor) -> Arm:
    model.loss(tokens).backward()
    optimizer = adamw(name, list(model.parameters()))

    def iterate() -> Any:
        optimizer.zero_grad()
        model.loss(tokens).backward()
        optimizer.step()

    return iterate
