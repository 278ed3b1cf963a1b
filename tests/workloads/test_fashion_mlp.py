"""The lecture's feed-forward network and losses, against their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from fallline.workloads import images
from fallline.workloads.fashion_mlp import BATCH, STAND_IN, feed_forward, workload
from fallline.workloads.images import CLASSES


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        (nn.ReLU, lambda x: x.clamp(min=0)),
        (nn.Sigmoid, lambda x: 1 / (1 + torch.exp(-x))),
        (nn.ELU, lambda x: torch.where(x > 0, x, torch.exp(x) - 1)),
    ],
)
def test_a_network_is_a_composition(activation: type[nn.Module], formula) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    network = feed_forward(6, 5, 4, 3, activation=activation)
    w1, w2, w3 = (layer for layer in network if isinstance(layer, nn.Linear))
    x = torch.randn(7, 2, 3)
    expected = formula(formula(x.flatten(1) @ w1.weight.T + w1.bias) @ w2.weight.T + w2.bias) @ w3.weight.T + w3.bias
    assert torch.allclose(network(x), expected, atol=1e-6)


def test_the_lectures_network_and_protocol() -> None:
    task = workload()
    assert sum(p.numel() for p in task.new_model(0).parameters()) == 79_510
    assert BATCH == 1024 and task.max_steps >= 10 * (60_000 // BATCH)


def test_the_loss_is_the_cross_entropy_of_the_networks_scores() -> None:
    scores, label = torch.tensor([[1.0, 2.0, 0.5]]), torch.tensor([1])
    by_hand = -math.log(math.exp(2) / (math.exp(1) + math.exp(2) + math.exp(0.5)))
    assert workload().loss(lambda x: x, (scores, label)).item() == pytest.approx(by_hand)


def test_the_metric_is_the_share_of_wrong_classes() -> None:
    labels = images.images(STAND_IN).test_labels
    always = nn.functional.one_hot(labels.mode().values, CLASSES).float()
    wrong = (labels != labels.mode().values).float().mean().item()
    assert workload().evaluate(lambda x: always.expand(len(x), -1)) == pytest.approx(wrong)
