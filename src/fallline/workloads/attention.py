"""Multi-head attention, shared by the transformers among the workloads."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Queries from x; keys and values from ``source``, or from x itself."""

    def __init__(self, width: int, heads: int, causal: bool = False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, source: Tensor | None = None, visible: Tensor | None = None) -> Tensor:
        """``visible`` (batch, source length) is False at padding."""
        source = x if source is None else source
        query = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        key, value = self.key_value(source).unflatten(-1, (2 * self.heads, -1)).transpose(1, 2).chunk(2, dim=1)
        mask = None if visible is None else visible[:, None, None, :]
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=self.causal)
        return self.output(mixed.transpose(1, 2).flatten(2))
