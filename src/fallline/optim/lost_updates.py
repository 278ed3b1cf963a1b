"""A warning for 16-bit parameters that are rounded to nearest: small updates of them are lost."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import torch

from fallline.lower.item import HALF, Item
from fallline.optim.choose import users_level


def is_rounded_to_nearest(item: Item) -> bool:
    """Whether it has 16 bits, and neither random rounding nor master weights; without memory nothing is lost."""
    param = item.param
    return param.data.dtype in HALF and not param.stochastic and not param.data.is_meta


def warn_of_lost_updates(optimizer: str, items: Iterable[Item]) -> bool:
    """Warns if there is such a parameter; whether it did."""
    found = next(filter(is_rounded_to_nearest, items), None)
    if found is None:
        return False
    dtype = found.param.data.dtype
    name, share = str(dtype).removeprefix("torch."), torch.finfo(dtype).eps / 2
    warnings.warn(
        f"{optimizer} steps {name} parameters rounded to nearest: updates below {share:.2%} of a weight are lost; use "
        "master_weights=True (4 bytes more per parameter) or stochastic_rounding=True (none more)",
        stacklevel=users_level(),
    )
    return True
