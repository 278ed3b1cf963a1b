"""The lecture's two activations and two losses, by the code that workloads train with."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from fallline.document.figures import Axis, Chart, Panels, Series
from fallline.gallery.exhibit import Exhibit, Wishes
from fallline.workloads.fashion_mlp import feed_forward

POINTS = 121


def exhibit(wishes: Wishes) -> Exhibit:
    x = torch.linspace(-6, 6, POINTS)
    activations = {"ReLU": nn.ReLU(), "sigmoid": nn.Sigmoid(), "ELU": nn.ELU()}
    left = Chart(
        "activations", "σ between linear maps", Axis("input", -6, 6), Axis("output", -1.5, 6.4),
        [Series(name, x.tolist(), function(x).tolist()) for name, function in activations.items()],
    )  # fmt: skip
    p = torch.linspace(0.005, 1.0, POINTS)
    # Two classes, the first of which is right.
    entropy = [F.cross_entropy(torch.tensor([[float(a), 1 - float(a)]]).log(), torch.tensor([0])).item() for a in p]
    square = [F.mse_loss(torch.tensor([float(a)]), torch.ones(1)).item() for a in p]
    right = Chart(
        "losses", "Loss of a sample against p",
        Axis("probability given to the right class", 0.0, 1.0), Axis("loss", 0.0, 5.5),
        [Series("cross-entropy  −log p", p.tolist(), entropy), Series("squared error  (1 − p)²", p.tolist(), square)],
    )  # fmt: skip
    network = feed_forward(784, 100, 10, activation=nn.ELU)
    parameters = sum(weight.numel() for weight in network.parameters())
    wrong = F.cross_entropy(torch.tensor([[0.01, 0.99]]).log(), torch.tensor([0])).item()
    squared = F.mse_loss(torch.tensor([0.01]), torch.ones(1)).item()
    caption = (
        f"A feed-forward network is linear maps with σ between them; the lecture's, 784-100-10, has {parameters:,} "
        f"parameters. A right class that gets a probability of 0.01 costs {wrong:.2f} (−log p) under cross-entropy, "
        f"and {squared:.2f} under the squared error, which cannot exceed 1."
    )
    numbers = {"parameters": parameters, "cross_entropy_at_0.01": wrong, "squared_error_at_0.01": squared}
    figure = Panels("losses", "Activations and losses", [left, right], 2)
    return Exhibit([figure], caption, numbers, "computed here by torch")
