"""The definition of the codes once more, in float64 and without bits."""

import math

import torch
from torch import Tensor

from fallline.formats import BlockFormat


def straight_log2(x: Tensor) -> Tensor:
    """The logarithm, but for a straight line from each power of two to the next."""
    mantissa, exponent = torch.frexp(x)
    return torch.where(x > 0, exponent + 2 * mantissa - 2, -math.inf)


def straight_exp2(y: Tensor) -> Tensor:
    whole = y.floor()
    return torch.where(y > -math.inf, torch.exp2(whole) * (1 + y - whole), 0.0)


def dither(scale: Tensor, count: int) -> Tensor:
    """What is added to the levels of blocks of so many elements before they are rounded."""
    mantissa, exponent = torch.frexp(scale.double())
    upper = (exponent + 126) * 2**15 + ((2 * mantissa - 1) * 2**15).floor()  # all but the last eight bits
    first = (upper.long() * 0x9E3779B9 % 2**32) // 2**22
    places = (first.unsqueeze(1) + torch.arange(count)) * 633 % 1024
    return torch.where(scale.unsqueeze(1) < 2.0**-90, 0.0, (places.double() + 0.5) / 1024 - 0.5)


def degree(form: BlockFormat) -> int:
    return 2 if form.kind == "signed" else 4


def level(form: BlockFormat, ratio: Tensor) -> Tensor:
    """Which code, if it need not be an integer, stands for this share of the scale, not negative."""
    top = torch.tensor(form.levels, dtype=torch.float64)
    return straight_exp2(straight_log2(ratio.double()) / degree(form) + straight_log2(top))


def share(form: BlockFormat, level: Tensor) -> Tensor:
    """The share of the scale that a code which is not negative stands for: the inverse."""
    top = torch.tensor(form.levels, dtype=torch.float64)
    return straight_exp2(degree(form) * (straight_log2(level.double()) - straight_log2(top)))
