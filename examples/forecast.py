"""Two GRU layers learn to forecast noisy seasonal series.  Try: fallline race examples/forecast.py

The series are drawn here, so nothing is downloaded.  AdamW needs about ten seconds to the target on an idle processor.
"""

import math

import torch
from torch import nn

import fallline
from fallline.workloads import minibatch

PAST, AHEAD, SERIES = 64, 8, 8192


def draw(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two seasons, a trend and noise; the forecast is held against the series without its noise."""
    random = torch.Generator().manual_seed(seed)
    time = torch.arange(PAST + AHEAD, dtype=torch.float32)
    period = 8 + 16 * torch.rand(count, 2, 1, generator=random)
    phase = 2 * math.pi * torch.rand(count, 2, 1, generator=random)
    size = 0.5 + torch.rand(count, 2, 1, generator=random)
    clean = (size * torch.sin(2 * math.pi * time / period + phase)).sum(dim=1)
    clean = clean + torch.randn(count, 1, generator=random) * (time - PAST / 2) / PAST
    past = clean[:, :PAST] + 0.3 * torch.randn(count, PAST, generator=random)
    return past, clean[:, PAST:]


class Forecaster(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.read = nn.GRU(1, 64, num_layers=2, batch_first=True)
        self.forecast = nn.Linear(64, AHEAD)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        states, _ = self.read(past.unsqueeze(2))
        return self.forecast(states[:, -1])


def workload() -> fallline.Workload:
    past, future = draw(SERIES, seed=0)
    new_past, new_future = draw(512, seed=1)
    return fallline.Workload(
        name="forecast",
        model=lambda seed: Forecaster(),
        batch=lambda step, seed: minibatch(step, seed, SERIES, 32),
        loss=lambda net, rows: nn.functional.mse_loss(net(past[rows]), future[rows]),
        evaluate=lambda net: nn.functional.mse_loss(net(new_past), new_future).item(),
        metric="mean squared error",
        max_steps=1000,
        target=0.17,
    )
