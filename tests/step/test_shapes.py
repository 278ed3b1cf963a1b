"""Shapes are those of the models, and a model that cannot be had is explained."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from fallline.step.gpt2 import PUBLISHED, Gpt2
from fallline.step.published.presets import CONFIGURATIONS
from fallline.step.published.sources import ADAN_GPT2
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
        "def late():\n    yield (5, 4)\n    raise KeyError('no weights')\n"
        "def endless():\n    while True:\n        yield (5, 4)\n"
    )
    assert model_shapes(str(path)) == ((2, 3), (2,))
    assert model_shapes(f"{path}:shapes") == ((5, 4), (4,))
    for name in ("broken", "late"):
        with pytest.raises(BadModel, match="raised KeyError") as caught:
            model_shapes(f"{path}:{name}")
        assert "Traceback" in str(caught.value) and "no weights" in str(caught.value)
    for name, said in (
        ("wrong", "must return"),
        ("absent", "no function absent"),
        ("endless", r"mine\.py:endless: has more than 100,000 tensors"),
    ):
        with pytest.raises(BadModel, match=said):
            model_shapes(f"{path}:{name}")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bert", "not known; there are gpt2-small"),
        ("gpt2-3x2x10", "multiple of heads"),
        ("gpt2-1x99999999x8", "layers must be at most 6,250"),
        (f"gpt2-1x1x{'9' * 5000}", "at most 9 digits"),
        ("no.py:f", "no such file"),
    ],
)
def test_unknown_models_are_explained(name: str, said: str) -> None:
    with pytest.raises(BadModel, match=said):
        model_shapes(name)


@pytest.mark.parametrize(
    "text",
    [
        "return linear",
        "return list(linear.parameters())",
        "return linear.parameters()",
        "return linear.named_parameters()",
        "return linear.state_dict()",
        "return [{'params': [linear.weight]}, {'params': [linear.bias], 'lr': 0.1}]",
        "return linear.to('meta')",
        "return [p.shape for p in linear.parameters()]",
    ],
)
def test_whatever_names_parameters_will_do(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"import torch\ndef model():\n    linear = torch.nn.Linear(3, 2)\n    {text}\n")
    assert model_shapes(str(path)) == ((2, 3), (2,))


def test_file_may_import_its_neighbours_and_print(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stdout stays free for results."""
    (tmp_path / "neighbour_of_mine.py").write_text("WIDTH = 7\n")
    path = tmp_path / "mine.py"
    path.write_text(
        "import torch\nfrom neighbour_of_mine import WIDTH\nprint('hello')\nready = torch.nn.Linear(WIDTH, 1)\n"
    )
    before = list(sys.path)
    assert model_shapes(f"{path}:ready") == ((1, 7), (1,))
    assert sys.path == before
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "hello\n")


def test_lazy_parameters_have_no_shapes_yet(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import torch\ndef model():\n    return torch.nn.LazyLinear(10)\n")
    with pytest.raises(BadModel, match=r"mine\.py:model: has lazy parameters.*run one batch through it first"):
        model_shapes(str(path))


def test_packages_models_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the package, which has no build without CUDA here; models are made without memory."""
    folder = tmp_path / "torchvision"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import torch\nclass models:\n    @staticmethod\n    def get_model(name, weights):\n"
        "        if name != 'wide':\n            raise ValueError(f'Unknown model {name}')\n"
        "        return torch.nn.Linear(10**6, 10**6, bias=False)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    assert model_shapes("torchvision:wide") == ((10**6, 10**6),)
    with pytest.raises(BadModel, match=r"torchvision:slim: torchvision has no such model.*Unknown model slim"):
        model_shapes("torchvision:slim")
    sys.modules.pop("torchvision")


@pytest.mark.parametrize(
    ("name", "absent", "said"),
    [
        ("transformers:bert", "transformers", "transformers is not installed; pip install transformers"),
        ("timm:resnet50", "timm", "timm is not installed; pip install timm"),
    ],
)
def test_package_that_is_not_there_is_named(name: str, absent: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(BadModel, match=said):
        model_shapes(name)


def test_package_that_needs_another_names_that_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "timm.py").write_text("import torchvision.ops\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(BadModel, match="torchvision is not installed; timm needs it; pip install torchvision"):
        model_shapes("timm:resnet50")
