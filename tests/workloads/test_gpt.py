"""The GPT family: published numbers of parameters, causality, padding and checkpointing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from fallline.workloads import WorkloadError, load
from fallline.workloads.gpt import IGNORED, SIZES, loss, model

# The released checkpoints' numbers; the paper's table says 117 M, 345 M, 762 M and 1542 M, which was a miscount.
PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
}


@pytest.mark.parametrize("size", SIZES)
def test_a_size_has_as_many_parameters_as_its_shape_says(size: str) -> None:
    with torch.device("meta"):
        made = model(size)
    assert sum(p.numel() for p in made.parameters()) == SIZES[size].parameters
    assert SIZES[size].parameters == PUBLISHED.get(size, SIZES[size].parameters)


def test_a_position_sees_no_later_one() -> None:
    torch.manual_seed(0)
    made = model("tiny", layers=1, width=16, heads=2)
    text = torch.randint(256, (1, 12))
    changed = text.clone()
    changed[0, 8:] = (changed[0, 8:] + 1) % 256
    assert torch.allclose(made(text)[0, :8], made(changed)[0, :8], atol=1e-6)
    assert not torch.allclose(made(text)[0, 8:], made(changed)[0, 8:], atol=1e-6)


def test_padding_has_no_part_in_the_loss() -> None:
    torch.manual_seed(0)
    made = model("tiny", layers=1, width=16, heads=2)
    text = torch.randint(256, (1, 13))
    inputs, targets = text[:, :-1], text[:, 1:]
    padded_inputs = torch.cat([inputs, torch.zeros(1, 5, dtype=torch.long)], dim=1)
    padded_targets = torch.cat([targets, torch.full((1, 5), IGNORED)], dim=1)
    assert torch.allclose(loss(made, inputs, targets), loss(made, padded_inputs, padded_targets), atol=1e-6)


def test_checkpointing_gives_the_same_gradients() -> None:
    text = torch.randint(256, (2, 9))
    found = []
    for checkpointing in (False, True):
        torch.manual_seed(1)
        made = model("tiny", layers=2, width=16, heads=2, checkpointing=checkpointing)
        loss(made, text[:, :-1], text[:, 1:]).backward()
        found.append([p.grad.clone() for p in made.parameters() if p.grad is not None])
    for plain, recomputed in zip(*found, strict=True):
        assert torch.equal(plain, recomputed)


def test_a_config_needs_its_package_or_trains(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32, "vocab_size": 300}'
    )
    spec = f"{tmp_path}/config.json@batch=2,sequence=8"
    if importlib.util.find_spec("transformers") is None:
        with pytest.raises(WorkloadError, match="needs the package transformers"):
            load(spec)
        return
    workload = load(spec)
    model = workload.new_model(0)
    workload.training_loss(model, 0, 0).backward()
    assert sum(p.numel() for p in model.parameters()) == 300 * 16 + 32 * 16 + 12 * 256 + 13 * 16 + 2 * 16


def test_a_wrong_size_or_shape_is_one_clear_line() -> None:
    with pytest.raises(WorkloadError, match=r"no GPT of size 'gtp2'; did you mean gpt2"):
        model("gtp2")
    with pytest.raises(WorkloadError, match="multiple of heads"):
        model("tiny", width=30)
