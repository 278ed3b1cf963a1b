"""A workload with a DataLoader.  Try: fallline race examples/dataloader.py

The loader is begun again in every epoch, in an order that follows from the trial's seed.  A trial that is interrupted
reads it again from the start to go on; `examples/sine.py` shows batches that need no reading again.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import fallline


def workload() -> fallline.Workload:
    x = torch.linspace(-3, 3, 2048).unsqueeze(1)
    y = torch.sin(3 * x)
    noisy = y + 0.3 * torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
    return fallline.Workload(
        name="sine_loader",
        model=lambda seed: nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)),
        batches=DataLoader(TensorDataset(x, noisy), batch_size=64, shuffle=True),
        loss=lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[1]),
        evaluate=lambda model: nn.functional.mse_loss(model(x), y).item(),
        metric="mean squared error",
        max_steps=1500,
        target=0.01,
    )
