"""Rules with several passes go over the parameters part by part; no result depends on how they are cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import fallline
from fallline.rules.space import SMALL
from tests.native import needs_native

SHAPES = ((700, 500), (3,), (1200, 600), (800, 10))
"""The parts of one thread end after the first, the third and the last of these, those of two threads elsewhere."""


def stepped(name: str, threads: int, foreach: bool) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape, generator=draw)) for shape in SHAPES]
    optimizer = fallline.create(name, params, lr=1e-2, foreach=foreach, fused=True)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for _ in range(3):
            for param in params:
                param.grad = torch.randn(param.shape, generator=draw)
            optimizer.step()
    finally:
        torch.set_num_threads(before)
    return [param.detach() for param in params]


@pytest.mark.parametrize("name", ["adafactor", "adamp", "lamb"])
def test_parts_and_threads_change_no_bit(name: str) -> None:
    needs_native()
    alone = stepped(name, 1, foreach=True)
    assert all(map(torch.equal, stepped(name, 2, foreach=True), alone))
    assert all(map(torch.equal, stepped(name, 2, foreach=False), alone))


def test_the_engine_numbers_spaces_as_graphs_do() -> None:
    text = (Path(fallline.__file__).parent / "native" / "engine.h").read_text(encoding="utf-8")
    enumerated = next(line for line in text.splitlines() if line.startswith("enum fl_space"))
    numbers = {name: int(number) for name, number in re.findall(r"FL_([A-Z0-9]+) = (\d)", enumerated)}
    assert numbers == {space.name: space.value for space in SMALL}
