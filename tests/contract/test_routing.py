"""A matrix optimizer steps hidden matrices; everything else goes to its companion, and nothing is dropped."""

import warnings

import pytest
import torch
from torch import nn

import fallline


class Gpt(nn.Module):
    def __init__(self, tied=True):
        super().__init__()
        self.wte = nn.Embedding(50, 16)
        self.wpe = nn.Parameter(torch.zeros(10, 16))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 16))
        self.block = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.LayerNorm(16))
        self.lm_head = nn.Linear(16, 50, bias=False)
        if tied:
            self.lm_head.weight = self.wte.weight


def parts(optimizer):
    return {part.rule: set(part.names) for part in optimizer.describe().parts}


@pytest.mark.parametrize("tied", [True, False])
def test_embeddings_heads_norms_biases_and_tokens_go_to_the_companion(tied):
    model = Gpt(tied)
    found = parts(fallline.create("muon", model))
    assert found["muon"] == {"block.0.weight", "block.2.weight"}
    assert set.union(*found.values()) == {name for name, _ in model.named_parameters()}
    assert ("lm_head.weight" in found["adamw"]) == (not tied)


def test_the_last_layer_of_a_classifier_is_a_head_whatever_its_name():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    assert parts(fallline.create("muon", model))["muon"] == {"0.weight", "2.weight"}


def test_a_layer_before_a_named_head_is_hidden():
    model = nn.Sequential()
    for name, layer in (("a", nn.Linear(4, 8)), ("b", nn.Linear(8, 16)), ("head", nn.Linear(16, 3))):
        model.add_module(name, layer)
    assert parts(fallline.create("muon", model))["muon"] == {"a.weight", "b.weight"}


def test_filters_are_hidden_matrices_but_not_those_of_single_channels():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=8), nn.Conv2d(8, 4, 1))
    assert parts(fallline.create("muon", model))["muon"] == {"0.weight", "2.weight"}


def test_the_companion_has_a_rule_and_a_rate_of_its_own():
    optimizer = fallline.create("muon", Gpt(), lr=0.02, companion={"rule": "lion", "lr": 1e-4})
    assert {group.get("rule", "muon"): group["lr"] for group in optimizer.param_groups} == {"muon": 0.02, "lion": 1e-4}
    text = str(optimizer.describe())
    assert "muon: lr=0.02: 2 tensors" in text and "lion: lr=0.0001" in text


def test_a_model_without_hidden_matrices_is_refused():
    with pytest.raises(ValueError, match="this model has none beside embeddings, heads, norms and biases; use adamw"):
        fallline.create("muon", nn.LayerNorm(3))


def test_a_list_of_parameters_is_routed_by_shape_with_a_notice():
    model = Gpt()
    with pytest.warns(UserWarning, match="by their shape, 4 parameters go to adamw") as told:
        optimizer = fallline.create("muon", model.parameters())
    assert len(told) == 1
    stepped = [p for group in optimizer.param_groups for p in group["params"]]
    assert {id(p) for p in stepped} == {id(p) for p in model.parameters()}
    assert sum(part.tensors for part in optimizer.describe().parts) == len(list(model.parameters()))


def test_matrices_alone_need_no_notice():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fallline.Muon([nn.Parameter(torch.ones(3, 3))])


@pytest.mark.parametrize("name", ["shampoo", "soap", "caspr"])
def test_optimizers_that_step_every_shape_need_no_companion(name):
    optimizer = fallline.create(name, Gpt())
    assert {part.rule for part in optimizer.describe().parts} == {name}
    with pytest.raises(ValueError, match="steps every parameter itself"):
        fallline.create(name, Gpt(), companion="adamw")
