"""The effect of low-bit states on the update m / (√v + ε), on Adam states of a real training run.

The states of every tensor that would be stored in low bits are recorded, encoded and decoded once, and the
updates before and after are compared. int8 must be no worse than bitsandbytes' blockwise dynamic code.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import fallline
from benchmarks.char_lm import Training, train
from benchmarks.settings import RESULTS
from benchmarks.stored_runs import all_runs
from fallline.formats import MIN_ELEMENTS, block_format

EPS = 1e-8
OURS, PEER = "int8", "bitsandbytes dynamic, block 256"
ERRORS = {
    "euclidean": "‖error‖ ÷ ‖update‖",
    "mean": "mean |error| ÷ mean |update|",
    "median": "median of |error| ÷ |update|",
}
Coder = Callable[[Tensor, str], Tensor]
"""A state of a kind, "signed" or "nonneg", as it comes back from being stored."""


def _block(name: str) -> Coder:
    def stored(state: Tensor, kind: str) -> Tensor:
        form = block_format(name, kind)
        return form.decode(*form.encode(state), state.shape)

    return stored


def _bfloat16(state: Tensor, kind: str) -> Tensor:
    return state.bfloat16().float()


def _bitsandbytes(state: Tensor, kind: str) -> Tensor:
    from bitsandbytes import functional

    code = functional.create_dynamic_map(signed=kind == "signed")
    codes, scales = functional.quantize_blockwise(state, code=code, blocksize=256)
    return functional.dequantize_blockwise(codes, scales)


CODERS: dict[str, tuple[float, Coder]] = {
    "bfloat16, to nearest": (4.0, _bfloat16),
    OURS: (2 + 8 / 256, _block("int8")),
    PEER: (2 + 8 / 256, _bitsandbytes),
    "int4": (1 + 8 / 128, _block("int4")),
}
"""Name → bytes per parameter of both states, and the coder."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantization_error", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="20 steps, 1 seed: shows that all works")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.seeds, chosen.steps = 1, 20
    training = Training(steps=chosen.steps, warmup=min(100, chosen.steps // 10))
    keys = [{"seed": seed, **dataclasses.asdict(training)} for seed in range(chosen.seeds)]
    path = RESULTS / f"quantization_error{'-quick' if chosen.quick else ''}.json"
    show(all_runs(path, keys, lambda key: _run(key, training)))
    return 0


def _run(key: Mapping[str, Any], training: Training) -> dict[str, Any]:
    """Errors of every coder on the states half way through the training."""
    recorded: list[tuple[Tensor, Tensor]] = []

    def record(step: int, optimizer: torch.optim.Optimizer) -> None:
        if step == training.steps // 2:
            for param, state in optimizer.state.items():
                if param.numel() >= MIN_ELEMENTS:
                    recorded.append((state["exp_avg"].clone(), state["exp_avg_sq"].clone()))

    def adamw(model: torch.nn.Module) -> torch.optim.Optimizer:
        return fallline.create("adamw", model, weight_decay=training.weight_decay)

    train(training, key["seed"], adamw, record)
    results: dict[str, Any] = {"elements": sum(m.numel() for m, _ in recorded)}
    for name, (_, coder) in CODERS.items():
        try:
            results[name] = errors(recorded, coder)
        except ImportError as error:
            results[name] = {"missing": str(error)}
    return results


def errors(states: Sequence[tuple[Tensor, Tensor]], coder: Coder) -> dict[str, float]:
    exact = torch.cat([_update(m, v) for m, v in states])
    stored = torch.cat([_update(coder(m, "signed"), coder(v, "nonneg")) for m, v in states])
    size, wrong = exact.abs(), (stored - exact).abs()
    moving = size > 0
    return {
        "euclidean": (wrong.norm() / size.norm()).item(),
        "mean": (wrong.mean() / size.mean()).item(),
        "median": (wrong[moving] / size[moving]).median().item(),
    }


def _update(m: Tensor, v: Tensor) -> Tensor:
    return (m.double() / (v.double().sqrt() + EPS)).flatten()


def show(runs: Sequence[Mapping[str, Any]]) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    table = Table(header_style="bold", box=None)
    table.add_column("states stored as")
    for heading in ("bytes per parameter", *ERRORS.values()):
        table.add_column(heading, justify="right")
    for name, (size, _) in CODERS.items():
        if missing := runs[0][name].get("missing"):
            table.add_row(name, f"{size:.3g}", f"not installed ({missing})")
            continue
        table.add_row(name, f"{size:.3g}", *(f"{_median(runs, name, error):.2%}" for error in ERRORS))
    console.print(table)
    plural = "s" if len(runs) != 1 else ""
    console.print(f"{runs[0]['elements']:,} elements; medians over {len(runs)} seed{plural}.", style="dim")
    console.print(verdict(runs))


def _median(runs: Sequence[Mapping[str, Any]], name: str, error: str) -> float:
    return statistics.median(run[name][error] for run in runs)


def verdict(runs: Sequence[Mapping[str, Any]]) -> str:
    """Reached only if int8 is no worse in every measure and for every seed."""
    if "missing" in runs[0][PEER]:
        return f"int8 errs by {_median(runs, OURS, 'mean'):.2%} of the update in the mean; no peer is installed."
    worse = [text for error, text in ERRORS.items() if any(run[OURS][error] > run[PEER][error] for run in runs)]
    ratio = _median(runs, PEER, "mean") / _median(runs, OURS, "mean")
    if worse:
        return f"Not reached: int8 is worse than {PEER} in {'; '.join(worse)}."
    return f"Reached: int8 is no worse than {PEER} in any measure; its mean error is {ratio:.2f}× smaller."


if __name__ == "__main__":
    sys.exit(main())
