"""A workload with a training loop of its own.  Try: fallline race examples/own_loop.py

`train` takes the steps of a range, one `optimizer.step()` for each, and returns the last loss.  The learning rate is
set before every step, by the schedule of the contestant.
"""

import torch
from torch import nn

import fallline

x = torch.linspace(-3, 3, 2048).unsqueeze(1)
y = torch.sin(3 * x)
noisy = y + 0.3 * torch.randn(y.shape, generator=torch.Generator().manual_seed(0))


def train(model, optimizer, steps, seed):
    for _ in steps:
        rows = torch.randint(len(x), (64,))  # torch's generator is seeded before every call
        loss = nn.functional.mse_loss(model(x[rows]), noisy[rows])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return loss


def workload() -> fallline.Workload:
    return fallline.Workload(
        name="sine_own_loop",
        model=lambda seed: nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)),
        train=train,
        evaluate=lambda model: nn.functional.mse_loss(model(x), y).item(),
        metric="mean squared error",
        max_steps=1500,
        target=0.01,
    )
