"""Structural similarity of images."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def ssim(images: Tensor, truth: Tensor, data_range: float = 1.0, window: int = 7) -> Tensor:
    """Mean SSIM (Wang et al. 2004) over square windows that fit, with sample variances, as fastMRI computes it.

    ``images`` and ``truth`` are (count, 1, height, width); the result is 1 where they are equal.
    """
    pixels = window * window
    unbiased = pixels / (pixels - 1)
    stable1, stable2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    mean_x, mean_y = F.avg_pool2d(images, window, 1), F.avg_pool2d(truth, window, 1)
    var_x = unbiased * (F.avg_pool2d(images * images, window, 1) - mean_x * mean_x)
    var_y = unbiased * (F.avg_pool2d(truth * truth, window, 1) - mean_y * mean_y)
    cov = unbiased * (F.avg_pool2d(images * truth, window, 1) - mean_x * mean_y)
    luminance = (2 * mean_x * mean_y + stable1) / (mean_x * mean_x + mean_y * mean_y + stable1)
    structure = (2 * cov + stable2) / (var_x + var_y + stable2)
    return (luminance * structure).mean()
