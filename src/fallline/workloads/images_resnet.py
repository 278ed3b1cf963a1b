"""images_resnet: a small residual network classifies images; cross-entropy, error rate."""

from __future__ import annotations

import itertools

import torch.nn.functional as F
from torch import Tensor, nn

from fallline.workloads.images import CLASSES, classification
from fallline.workloads.workload import Workload

STAGES = (16, 32, 64)  # channels at 14 × 14, 7 × 7, 4 × 4


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, last_scale: float):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        nn.init.constant_(self.norm2.weight, last_scale)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(self.shortcut(x) + y)


class ResNet(nn.Module):
    def __init__(self, last_scale: float):
        super().__init__()
        self.stem = nn.Conv2d(1, STAGES[0], 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(STAGES[0])
        blocks = [Residual(STAGES[0], STAGES[0], 1, last_scale)]
        blocks += [Residual(before, after, 2, last_scale) for before, after in itertools.pairwise(STAGES)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(STAGES[-1], CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(F.relu(self.norm(self.stem(x))))
        return self.head(x.mean((2, 3)))


def workload(name: str = "images_resnet", last_scale: float = 0.0) -> Workload:
    """``last_scale``: where the scales of each block's last norm start; at 0 a block starts as the identity."""
    return classification(
        name, lambda: ResNet(last_scale), about="ResNet-8", batch_size=32, max_steps=640, eval_every=32
    )


def large_bn_init() -> Workload:
    """Held out: the scales of the last norms start large."""
    return workload("images_resnet_large_bn_init", last_scale=8.0)
