"""The five models of the check, as workload files are written: plain torch, one function each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fallline
from fallline.workloads import gpt as gpt_family

CLASSES = 10


def _workload(
    name: str, model: Callable[[], nn.Module], batch: Callable[[], Any], loss: Callable[[Any, Any], Tensor]
) -> fallline.Workload:
    return fallline.Workload(
        name=name,
        model=lambda seed: model(),
        batch=lambda step, seed: batch(),
        loss=loss,
        evaluate=lambda model: 0.0,
        metric="none",
        max_steps=30,
    )


def _classified(model: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
    inputs, labels = batch
    return F.cross_entropy(model(inputs), labels)


def _images(count: int, size: int) -> tuple[Tensor, Tensor]:
    return torch.zeros(count, 3, size, size), torch.zeros(count, dtype=torch.int64)


def mlp() -> fallline.Workload:
    """Twelve layers of 1,536."""

    def model() -> nn.Module:
        hidden = [layer for _ in range(12) for layer in (nn.Linear(1536, 1536), nn.GELU())]
        return nn.Sequential(nn.Linear(784, 1536), nn.GELU(), *hidden, nn.Linear(1536, CLASSES))

    return _workload("mlp", model, lambda: (torch.zeros(2048, 784), torch.zeros(2048, dtype=torch.int64)), _classified)


class _Residual(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm2(self.second(F.relu(self.norm1(self.first(x))))))


def cnn() -> fallline.Workload:
    """A residual network with batch norms."""

    def model() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 128, 3, padding=1),
            nn.Sequential(*(_Residual(128) for _ in range(4))),
            nn.Conv2d(128, 512, 3, stride=2, padding=1),
            nn.Sequential(*(_Residual(512) for _ in range(3))),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(512, CLASSES),
        )

    return _workload("cnn", model, lambda: _images(16, 32), _classified)


def gpt() -> fallline.Workload:
    """A GPT of 41 M parameters."""
    shape = gpt_family.Shape(12, 8, 512, context=256, vocabulary=6000)

    def batch() -> tuple[Tensor, Tensor]:
        return torch.zeros(8, 256, dtype=torch.int64), torch.zeros(8, 256, dtype=torch.int64)

    return _workload("gpt", lambda: gpt_family.GPT(shape), batch, lambda model, one: gpt_family.loss(model, *one))


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm1(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class _ViT(nn.Module):
    def __init__(self, width: int = 384, layers: int = 10, patch: int = 8, size: int = 96):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.positions = nn.Parameter(torch.zeros((size // patch) ** 2, width))
        self.blocks = nn.ModuleList(_Attention(width, 6) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x.mean(dim=1)))


def vit() -> fallline.Workload:
    """A vision transformer with torch's own attention module."""
    return _workload("vit", _ViT, lambda: _images(16, 96), _classified)


class _Clicks(nn.Module):
    """Nearly all parameters are in tables of embeddings."""

    def __init__(self, tables: int = 8, rows: int = 60_000, width: int = 64):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        layers = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.ReLU())]
        self.top = nn.Sequential(nn.Linear(tables * width, 512), nn.ReLU(), *layers, nn.Linear(512, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.top(torch.cat([table(x[:, at]) for at, table in enumerate(self.tables)], dim=1))


def embeddings() -> fallline.Workload:
    """Eight tables of 60,000 rows under a small network."""

    def batch() -> tuple[Tensor, Tensor]:
        return torch.zeros(1024, 8, dtype=torch.int64), torch.zeros(1024, dtype=torch.int64)

    return _workload("embeddings", _Clicks, batch, _classified)
