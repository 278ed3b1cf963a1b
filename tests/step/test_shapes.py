"""Shapes are those of the models, and a model that cannot be had is explained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fallline.step.gpt2 import PUBLISHED, Gpt2
from fallline.step.presets import CONFIGURATIONS
from fallline.step.published import ADAN_GPT2
from fallline.step.shapes import BadModel, model_shapes


def test_shapes_are_the_models_own() -> None:
    config = Gpt2(4, 2, 32, 101, 16)
    with torch.device("meta"):
        model = config.model()
    assert sorted(tuple(p.shape) for p in model.parameters()) == sorted(config.shapes())


def test_published_sizes_are_reproduced() -> None:
    """In millions of parameters, cut off: the page calls them MB."""
    assert [config.parameters // 10**6 for config in CONFIGURATIONS] == [row.millions for row in ADAN_GPT2]
    assert [(c.heads, c.layers, c.width) for c in CONFIGURATIONS] == [(r.heads, r.layers, r.width) for r in ADAN_GPT2]
    assert round(PUBLISHED["gpt2-small"].parameters / 1e6) == 124


def test_model_learns() -> None:
    torch.manual_seed(0)
    model = Gpt2(2, 1, 16, 11, 8).model()
    tokens = torch.arange(8).remainder(5)[None]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = model(tokens)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_attention_sees_no_future() -> None:
    torch.manual_seed(0)
    block = Gpt2(2, 1, 16, 11, 8).model().blocks[0].eval()
    future = torch.ones(6, 6, dtype=torch.bool).triu(1)
    x = torch.randn(1, 6, 16)
    changed = x.clone()
    changed[:, 4:] += 1.0
    torch.testing.assert_close(block(x, future)[:, :4], block(changed, future)[:, :4])


def test_model_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import torch\n"
        "def model():\n    return torch.nn.Linear(3, 2)\n"
        "def shapes():\n    return [(5, 4), (4,)]\n"
        "def broken():\n    raise KeyError('no weights')\n"
        "def wrong():\n    return 42\n"
    )
    assert model_shapes(str(path)) == ((2, 3), (2,))
    assert model_shapes(f"{path}:shapes") == ((5, 4), (4,))
    with pytest.raises(BadModel, match="raised KeyError") as caught:
        model_shapes(f"{path}:broken")
    assert "Traceback" in str(caught.value) and "no weights" in str(caught.value)
    for name, said in (("wrong", "must return"), ("absent", "no function absent")):
        with pytest.raises(BadModel, match=said):
            model_shapes(f"{path}:{name}")


@pytest.mark.parametrize(
    ("name", "said"),
    [("bert", "not known; there are gpt2-small"), ("gpt2-3x2x10", "multiple of heads"), ("no.py:f", "no such file")],
)
def test_unknown_models_are_explained(name: str, said: str) -> None:
    with pytest.raises(BadModel, match=said):
        model_shapes(name)
