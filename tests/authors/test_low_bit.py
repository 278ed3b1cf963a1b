"""bitsandbytes and torchao: their 32-bit forms are ours, their 8-bit ones as near to them as ours, or less."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fallline
from tests.authors.packages import class_of
from tests.authors.trajectories import apart, explained

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPES: Any = [(64, 80), (33,), (5, 5, 5)]
FLOAT: Any = dict(dtype=torch.float32, shapes=SHAPES)

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("AdamW32bit", "AdamW", dict(lr=0.01, weight_decay=0.1)),
    ("Lion32bit", "Lion", dict(lr=0.01, weight_decay=0.1)),
    ("RMSprop32bit", "RMSprop", dict(lr=0.01, weight_decay=0.1)),
    ("Adagrad32bit", "Adagrad", dict(lr=0.01, weight_decay=0.1)),
    ("SGD32bit", "SGD", dict(lr=0.01, momentum=0.9, weight_decay=0.1)),
]


@pytest.mark.parametrize(("there", "ours", "options"), CASES, ids=lambda x: str(x).replace(" ", ""))
def test_bitsandbytes_in_32_bits(there: str, ours: str, options: dict[str, Any]) -> None:
    make = class_of("bitsandbytes.optim", there)
    assert apart(lambda p: make(p, **options), lambda p: getattr(fallline, ours)(p, **options), **FLOAT) <= 2e-5


def test_adam_of_bitsandbytes_decays_as_adamw() -> None:
    make = class_of("bitsandbytes.optim", "Adam32bit")
    options: dict[str, Any] = dict(lr=0.01, weight_decay=0.1)
    assert apart(lambda p: make(p, **options), lambda p: fallline.Adam(p, **options), **FLOAT) > 0.1
    assert apart(lambda p: make(p, **options), lambda p: fallline.AdamW(p, **options), **FLOAT) <= 2e-5
    assert explained("adam", "bitsandbytes", "AdamW")


def test_lamb_of_bitsandbytes_only_shortens_steps() -> None:
    make = class_of("bitsandbytes.optim", "LAMB32bit")
    moved = []
    for kind in (make, fallline.LAMB):
        p = torch.full((64, 80), 100.0, requires_grad=True)
        p.grad = torch.ones(64, 80)
        kind([p], lr=0.01, weight_decay=1e-6).step()
        moved.append(100.0 - float(p.detach().mean()))
    assert moved[0] <= 0.0101  # Adam's step at most
    assert moved[1] == pytest.approx(1.0, rel=1e-3)  # lr of the weights' norm
    assert explained("lamb", "bitsandbytes", "trust_clip")


def test_ademamix_of_bitsandbytes_fails_for_matrices_on_the_cpu() -> None:
    make = class_of("bitsandbytes.optim", "AdEMAMix32bit")
    p = torch.ones(7, 9, requires_grad=True)
    p.grad = torch.ones(7, 9)
    with pytest.raises(RuntimeError, match="broadcast"):
        make([p]).step()
    assert explained("ademamix", "bitsandbytes", "two axes")


@pytest.mark.parametrize("name", ["AdamW", "Lion"])
def test_8_bits_of_bitsandbytes_are_not_nearer_to_32_than_ours(name: str) -> None:
    """Both store a block of 256 with one scale; codes differ."""
    options: dict[str, Any] = dict(lr=0.01, weight_decay=0.1)
    make = class_of("bitsandbytes.optim", f"{name}8bit")
    exact, ours = getattr(fallline, name), getattr(fallline, f"{name}8bit")
    there = apart(lambda p: exact(p, **options), lambda p: make(p, **options), **FLOAT)
    here = apart(lambda p: exact(p, **options), lambda p: ours(p, **options), **FLOAT)
    assert 0 < here < 0.2
    assert here <= 1.05 * there


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_8_bits_of_torchao_are_not_nearer_to_32_than_ours(name: str) -> None:
    options: dict[str, Any] = dict(lr=0.01, weight_decay=0.1)
    make = class_of("torchao.optim", f"{name}8bit")
    exact = getattr(fallline, name)
    there = apart(lambda p: exact(p, **options), lambda p: make(p, **options), **FLOAT)
    here = apart(lambda p: exact(p, **options), lambda p: exact(p, **options, state_dtype="int8"), **FLOAT)
    assert 0 < here < 0.2
    assert here <= 1.05 * there
