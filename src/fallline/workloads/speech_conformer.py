"""speech_conformer: a small Conformer writes down generated speech; CTC, word error rate.

A block is half a feed-forward step, attention, a convolution over time, and the other half (Gulati et al. 2020).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fallline.workloads.attention import Attention
from fallline.workloads.speech import BANDS, FRAMES, SYMBOLS, recognition
from fallline.workloads.workload import Workload

WIDTH, LAYERS, HEADS, KERNEL, DROPOUT = 48, 2, 4, 7, 0.1


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 2 * WIDTH)
        self.over_time = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2, groups=WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        y = F.glu(self.gate(x)).transpose(1, 2)
        return self.output(F.silu(self.norm(self.over_time(y))).transpose(1, 2))


def feed_forward() -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, WIDTH))


class Block(nn.Module):
    def __init__(self, last_norm: bool):
        super().__init__()
        self.feed1, self.feed2 = feed_forward(), feed_forward()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention(WIDTH, HEADS)
        self.norm2, self.convolution = nn.LayerNorm(WIDTH), Convolution()
        self.last_norm = nn.LayerNorm(WIDTH) if last_norm else nn.Identity()
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        x = x + 0.5 * self.dropout(self.feed1(x))
        x = x + self.dropout(self.attention(self.norm1(x), visible=visible))
        x = x + self.dropout(self.convolution(self.norm2(x)))
        x = x + 0.5 * self.dropout(self.feed2(x))
        return self.last_norm(x)


class Conformer(nn.Module):
    def __init__(self, last_norm: bool):
        super().__init__()
        self.stem = nn.Conv1d(BANDS, WIDTH, 3, stride=2, padding=1)
        self.positions = nn.Parameter(0.02 * torch.randn(FRAMES // 2, WIDTH))
        self.blocks = nn.ModuleList(Block(last_norm) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, SYMBOLS)

    def forward(self, spectra: Tensor, frames: Tensor) -> Tensor:
        visible = torch.arange(FRAMES // 2) < ((frames + 1) // 2).unsqueeze(1)
        x = F.silu(self.stem(spectra.transpose(1, 2))).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x, visible)
        return self.head(x)


def workload(name: str = "speech_conformer", last_norm: bool = True) -> Workload:
    about = f"Conformer, {LAYERS} × {WIDTH}"
    return recognition(name, lambda: Conformer(last_norm), about=about, max_steps=480, eval_every=16)


def layernorm() -> Workload:
    """Held out: blocks do not end with a layer norm."""
    return workload("speech_conformer_layernorm", last_norm=False)
