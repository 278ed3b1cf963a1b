"""GPT-2 as it was published, for its parameter shapes and for the memory of a training step.

Attention is written out, with its dropout, because head counts matter in the published tables through the memory of
the attention scores, which a fused attention would not allocate.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from fallline.workloads import gpt

VOCABULARY, CONTEXT = 49280, 2048
DROPOUT = 0.1


class Gpt2(NamedTuple):
    """A configuration; the defaults of the rest are those of the published tables."""

    heads: int
    layers: int
    width: int
    vocabulary: int = VOCABULARY
    context: int = CONTEXT

    @property
    def name(self) -> str:
        return f"gpt2-{self.heads}x{self.layers}x{self.width}"

    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of all parameters, in the model's order; the head is the token embedding itself."""
        width = self.width
        norm = [(width,), (width,)]
        attention = [(3 * width, width), (3 * width,), (width, width), (width,)]
        feed_forward = [(4 * width, width), (4 * width,), (width, 4 * width), (width,)]
        layer = [*norm, *attention, *norm, *feed_forward]
        return [(self.vocabulary, width), (self.context, width), *(layer * self.layers), *norm]

    @property
    def parameters(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes())

    def model(self) -> Model:
        return Model(self)


def _published(size: str) -> Gpt2:
    shape = gpt.SIZES[size]
    return Gpt2(shape.heads, shape.layers, shape.width, shape.vocabulary, shape.context)


PUBLISHED = {
    "gpt2-small": _published("gpt2"),
    "gpt2-medium": _published("gpt2-medium"),
    "gpt2-large": _published("gpt2-large"),
    "gpt2-xl": _published("gpt2-xl"),
}


class Block(gpt.Block):
    """The same layers, with the scores of attention in memory, and with dropout."""

    def forward(self, x: Tensor, future: Tensor) -> Tensor:  # type: ignore[override]  # all blocks share one mask
        x = x + self._drop(self.out(self._attention(self.norm1(x), future)))
        return x + self._drop(self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh")))

    def _attention(self, x: Tensor, future: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=-1)
        )
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(width / self.heads)
        chances = self._drop(functional.softmax(scores.masked_fill(future, -math.inf), dim=-1))
        return (chances @ v).transpose(1, 2).reshape(batch, length, width)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, DROPOUT, self.training)


class Model(gpt.GPT):
    """Tokens → the loss of predicting each next one."""

    block = Block

    def __init__(self, config: Gpt2):
        super().__init__(gpt.Shape(config.layers, config.heads, config.width, config.context, config.vocabulary))

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        device = tokens.device
        x = self.tokens(tokens) + self.positions(torch.arange(length, device=device))
        future = torch.ones(length, length, dtype=torch.bool, device=device).triu(1)
        for block in self.blocks:
            x = block(x, future)
        logits = functional.linear(self.norm(x), self.tokens.weight)
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
