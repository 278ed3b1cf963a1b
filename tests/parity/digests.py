"""Runs native steps and prints a digest of every result: ``python -m tests.parity.digests [FILE]``.

FILE gets what steps with 8-bit states gave, where instruction sets agree up to rounding only.

Tests run this with several instruction sets, and call :func:`digests` with several numbers of threads.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import torch
from torch import Tensor

import fallline
from fallline.lower.native.library import library

ROUNDED = "adamw int8"
"""Sums with products are rounded once where the processor can."""
SHAPES: list[tuple[int, ...]] = [(70001,), (33, 1100), (), (3,), (1023,), (2, 40, 600), (4097,)]
STEPS = 4

# Every kind of kernel: plain, 8 and 4 bits, 16-bit states and parameters with random rounding, master weights.
BUILT_IN: dict[str, tuple[str, torch.dtype, dict[str, Any]]] = {
    "sgd": ("SGD", torch.float32, dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)),
    "adamw": ("AdamW", torch.float32, dict(lr=0.01)),
    "adamw clipped": ("AdamW", torch.float32, dict(lr=0.01, clip_norm=1.0)),
    ROUNDED: ("AdamW", torch.float32, dict(lr=0.01, state_dtype="int8")),
    "amsgrad int4": ("AMSGrad", torch.float32, dict(lr=0.01, state_dtype="int4")),
    "adam bfloat16": ("Adam", torch.float32, dict(lr=0.01, state_dtype="bfloat16")),
    "adam half": ("Adam", torch.float16, dict(lr=0.01)),
    "rmsprop random": ("RMSprop", torch.bfloat16, dict(lr=0.01, momentum=0.9, stochastic_rounding=True)),
    "lion int8 master": ("Lion", torch.bfloat16, dict(lr=0.01, state_dtype="int8", master_weights=True)),
    "adagrad": ("Adagrad", torch.float32, dict(lr=0.1, eps_inside=True)),
}


def digest(make: Any, dtype: torch.dtype, grouping: str = "one", **options: Any) -> str:
    """A hash of the parameters and states after a few steps."""
    generator = torch.Generator().manual_seed(3)
    params = [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in SHAPES]
    groups: list[dict[str, Any]] = [{"params": params}]
    if grouping == "each":
        groups = [{"params": [p]} for p in params]
    elif grouping == "two":
        groups = [{"params": params[:3]}, {"params": params[3:]}]
    optimizer = make(groups, **options)
    for _ in range(STEPS):
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(dtype)
        optimizer.step()
    assert "foreach" not in optimizer.explain()
    found = hashlib.sha256()
    for p in params:
        values = {"": p.detach(), **optimizer.state[p]}
        for name in sorted(values):
            found.update(name.encode())
            found.update(values[name].contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


def digests(grouping: str = "one", reach: bool = True, **flags: Any) -> dict[str, str]:
    result = {
        name: digest(getattr(fallline, class_name), dtype, grouping, **options, **flags)
        for name, (class_name, dtype, options) in BUILT_IN.items()
    }
    if reach:
        from tests.rules import reach as rules

        result["adafactor"] = digest(rules.Adafactor, torch.float32, grouping, **flags)
        result["prodigy"] = digest(rules.Prodigy, torch.bfloat16, grouping, **flags)
    return result


def low_bit_steps() -> dict[str, Tensor]:
    """Parameters and states after two steps: the second decodes what the first has stored."""
    generator = torch.Generator().manual_seed(5)
    p = torch.randn(70001, generator=generator).requires_grad_()
    optimizer = fallline.AdamW([p], lr=0.01, state_dtype="int8")
    for _ in range(2):
        p.grad = torch.randn(p.shape, generator=generator)
        optimizer.step()
    return {"p": p.detach(), **optimizer.state[p]}


if __name__ == "__main__":
    for path in sys.argv[1:]:
        torch.save(low_bit_steps(), path)
    print(json.dumps({"isa": library().isa, **digests()}))
