"""Mean average precision over the labels of a multi-label task."""

from __future__ import annotations

import torch
from torch import Tensor


def average_precision(scores: Tensor, truth: Tensor) -> float:
    """Precision averaged over the places where recall rises; equal scores count as one place.

    >>> average_precision(torch.tensor([0.9, 0.8, 0.7]), torch.tensor([1.0, 0.0, 1.0]))
    0.8333333333333333
    """
    order = scores.argsort(descending=True, stable=True)
    ranked, positive = scores[order], truth[order].double()
    hits = positive.cumsum(0)
    # The last of a run of equal scores: a threshold cannot lie inside the run.
    last = torch.cat([ranked[1:] != ranked[:-1], torch.ones(1, dtype=torch.bool)])
    hits, places = hits[last], torch.arange(1, len(scores) + 1, dtype=torch.float64)[last]
    gained = hits.diff(prepend=torch.zeros(1, dtype=torch.float64))
    return float((hits / places * gained).sum() / positive.sum())


def mean_average_precision(scores: Tensor, truth: Tensor) -> float:
    """Over the columns that have both values; NaN in ``truth`` marks labels nobody knows."""
    values = []
    for column, labels in zip(scores.T, truth.T, strict=True):
        known = ~labels.isnan()
        positive = labels[known].sum()
        if 0 < positive < known.sum():
            values.append(average_precision(column[known], labels[known]))
    if not values:
        raise ValueError("mean average precision needs a label with positive and negative examples")
    return sum(values) / len(values)
