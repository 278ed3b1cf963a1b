"""A small convolutional network learns to read noisy digits.  Try: fallline race examples/digits.py

The pictures are drawn here, so nothing is downloaded.  AdamW needs three seconds to the target on an idle processor.
"""

import torch
from torch import nn

import fallline
from fallline.workloads import minibatch

SEGMENTS = ("abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg")
"""The strokes of 0 to 9 on a clock's display: a is on top, then clockwise to f, and g in the middle."""
STROKES = {"a": (0, 1, 0, 8), "g": (6, 7, 0, 8), "d": (12, 13, 0, 8)}
STROKES |= {"f": (0, 7, 0, 1), "b": (0, 7, 7, 8), "e": (6, 13, 0, 1), "c": (6, 13, 7, 8)}


def draw(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Digits at random places under strong noise, and which ones they are."""
    random = torch.Generator().manual_seed(seed)
    digits = torch.randint(10, (count,), generator=random)
    pictures = 0.4 * torch.randn(count, 1, 20, 20, generator=random)
    places = torch.stack([torch.randint(7, (count,), generator=random), torch.randint(12, (count,), generator=random)])
    for picture, digit, top, left in zip(pictures, digits.tolist(), *places.tolist(), strict=True):
        for stroke in SEGMENTS[digit]:
            y, below, x, right = STROKES[stroke]
            picture[0, top + y : top + below + 1, left + x : left + right + 1] += 0.5
    return pictures, digits


def model(seed: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 24, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(24, 48, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(432, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def workload() -> fallline.Workload:
    pictures, digits = draw(16_384, seed=0)
    new_pictures, new_digits = draw(1_024, seed=1)
    return fallline.Workload(
        name="digits",
        model=model,
        batch=lambda step, seed: minibatch(step, seed, len(pictures), 64),
        loss=lambda net, rows: nn.functional.cross_entropy(net(pictures[rows]), digits[rows]),
        evaluate=lambda net: nn.functional.cross_entropy(net(new_pictures), new_digits).item(),
        metric="cross-entropy",
        max_steps=800,
        target=0.2,
    )
