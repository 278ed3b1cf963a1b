"""The smallest workload: a network learns a sine from noisy samples.  Try: fallline race examples/sine.py"""

import torch
from torch import nn

import fallline
from fallline.workloads import minibatch


def workload() -> fallline.Workload:
    x = torch.linspace(-3, 3, 2048).unsqueeze(1)
    y = torch.sin(3 * x)
    noisy = y + 0.3 * torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
    return fallline.Workload(
        name="sine",
        model=lambda seed: nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)),
        batch=lambda step, seed: minibatch(step, seed, len(x), 64),
        loss=lambda model, rows: nn.functional.mse_loss(model(x[rows]), noisy[rows]),
        evaluate=lambda model: nn.functional.mse_loss(model(x), y).item(),
        metric="mean squared error",
        max_steps=1500,
        target=0.01,  # leave it out, and the baseline's result is the target
    )
