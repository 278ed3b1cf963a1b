"""speech_deepspeech: convolution and recurrent layers write down generated speech; CTC, word error rate."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from fallline.workloads.speech import BANDS, SYMBOLS, recognition
from fallline.workloads.workload import Workload

WIDTH, LAYERS = 64, 2


class Recurrent(nn.Module):
    """Both directions, added; batch norm on the way in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        both, _ = self.lstm(self.norm(x.transpose(1, 2)).transpose(1, 2))
        return both[..., :WIDTH] + both[..., WIDTH:]


class DeepSpeech(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(BANDS, WIDTH, 5, stride=2, padding=2)
        self.recurrent = nn.Sequential(*(Recurrent() for _ in range(LAYERS)))
        self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, SYMBOLS))

    def forward(self, spectra: Tensor, frames: Tensor) -> Tensor:
        x = F.relu(self.stem(spectra.transpose(1, 2))).transpose(1, 2)
        return self.head(self.recurrent(x))


def workload() -> Workload:
    about = f"DeepSpeech, {LAYERS} LSTM × {WIDTH}"
    return recognition("speech_deepspeech", DeepSpeech, about=about, max_steps=700, eval_every=20)
