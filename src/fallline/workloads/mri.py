"""mri: a U-Net restores images from undersampled measurements; trained by L1, judged by structural similarity.

A phantom is a sum of random ellipses.  A scanner measures its Fourier transform line by line; here it measures the
middle lines and a random choice of the others, ten of 32, and the network sees the image with the rest at zero.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fallline.workloads.metrics.ssim import ssim
from fallline.workloads.seeding import generator, minibatch
from fallline.workloads.workload import HIGHER, About, Workload

SIZE, ELLIPSES = 32, 8
MIDDLE, MEASURED = 4, 10  # lines of SIZE
TRAINING, VALIDATION, BATCH = 2400, 96, 12
CHANNELS = 8


class Convolutions(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, activation: type[nn.Module]):
        layers: list[nn.Module] = []
        for channels in (inputs, outputs):
            layers.append(nn.Conv2d(channels, outputs, 3, padding=1, bias=False))
            layers += [nn.InstanceNorm2d(outputs), activation()]
        super().__init__(*layers)


class UNet(nn.Module):
    def __init__(self, activation: type[nn.Module]):
        super().__init__()
        c = CHANNELS
        self.down1, self.down2 = Convolutions(1, c, activation), Convolutions(c, 2 * c, activation)
        self.bottom = Convolutions(2 * c, 4 * c, activation)
        self.widen2 = nn.ConvTranspose2d(4 * c, 2 * c, 2, stride=2)
        self.up2 = Convolutions(4 * c, 2 * c, activation)
        self.widen1 = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.up1 = Convolutions(2 * c, c, activation)
        self.last = nn.Conv2d(c, 1, 1)

    def forward(self, image: Tensor) -> Tensor:
        fine = self.down1(image)
        middle = self.down2(F.avg_pool2d(fine, 2))
        coarse = self.bottom(F.avg_pool2d(middle, 2))
        middle = self.up2(torch.cat([middle, self.widen2(coarse)], dim=1))
        fine = self.up1(torch.cat([fine, self.widen1(middle)], dim=1))
        return image + self.last(fine)


@functools.cache
def data() -> tuple[Tensor, Tensor]:
    """The scanner's images, and the true ones: each (count, 1, SIZE, SIZE)."""
    random = generator(0, "mri")
    count = TRAINING + VALIDATION
    axis = torch.linspace(-1, 1, SIZE)
    images = torch.zeros(count, SIZE, SIZE)
    for number in range(ELLIPSES):
        draw = torch.rand(count, 6, 1, 1, generator=random)
        # The first is the body; the others lie in it, brighter or darker.
        spread, grow = (0.1, 0.7) if number == 0 else (0.9, 0.08)
        x, y, turn = (draw[:, 0] - 0.5) * spread, (draw[:, 1] - 0.5) * spread, draw[:, 2] * torch.pi
        wide, high = grow + 0.2 * draw[:, 3], grow + 0.2 * draw[:, 4]
        light = 0.4 + 0.4 * draw[:, 5] if number == 0 else 0.8 * draw[:, 5] - 0.4
        across, along = axis[None, None, :] - x, axis[None, :, None] - y
        u = (across * turn.cos() + along * turn.sin()) / wide
        v = (along * turn.cos() - across * turn.sin()) / high
        images += light * (u * u + v * v < 1)
    truth = images.clamp(0, 1).unsqueeze(1)
    return _measured(truth, random), truth


def _measured(truth: Tensor, random: torch.Generator) -> Tensor:
    order = torch.rand(len(truth), SIZE, generator=random)
    start = (SIZE - MIDDLE) // 2
    order[:, start : start + MIDDLE] = 2.0
    lines = torch.zeros_like(order).scatter_(1, order.topk(MEASURED, dim=1).indices, 1.0)
    spectrum = torch.fft.fftshift(torch.fft.fft2(truth), dim=(-2, -1)) * lines[:, None, None, :]
    return torch.fft.ifft2(torch.fft.ifftshift(spectrum, dim=(-2, -1))).abs()


def batch(step: int, seed: int) -> tuple[Tensor, Tensor]:
    rows = minibatch(step, seed, TRAINING, BATCH)
    measured, truth = data()
    return measured[rows], truth[rows]


def loss(model: nn.Module, images: tuple[Tensor, Tensor]) -> Tensor:
    measured, truth = images
    return F.l1_loss(model(measured), truth)


def evaluate(model: nn.Module) -> float:
    measured, truth = data()
    return ssim(model(measured[TRAINING:]), truth[TRAINING:]).item()


def workload(name: str = "mri", activation: type[nn.Module] = nn.LeakyReLU) -> Workload:
    return Workload(
        name=name,
        model=lambda seed: UNet(activation),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        metric="SSIM",
        direction=HIGHER,
        max_steps=640,
        eval_every=20,
        data_name="generated phantoms",
        about=About("MRI reconstruction", "U-Net", "L1"),
    )


def tanh() -> Workload:
    """Held out: tanh in place of leaky rectifiers."""
    return workload("mri_tanh", activation=nn.Tanh)
