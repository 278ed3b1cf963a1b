"""The GPT family in plain torch: shapes as data, and one model for all of them.

The architecture is GPT-2's: pre-norm, learned positions, tied embeddings, biases everywhere. ``tiny`` has 3 M
parameters and trains on a laptop; the four published sizes have exactly the published numbers of parameters. Attention
is torch's fused one, so that no scores are stored; dropout is off, as in most trainings of language models today.

References:
    Radford et al. 2019, Language models are unsupervised multitask learners, table 2; the released configurations.
"""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fallline.workloads.errors import WorkloadError

BYTES = 256
"""The vocabulary of text as bytes."""
GPT2_VOCABULARY = 50_257
IGNORED = -100
"""The target of a padded position: cross-entropy leaves it out."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """All that decides the parameters of a GPT."""

    layers: int
    heads: int
    width: int
    context: int = 1024
    """The longest sequence."""
    vocabulary: int = GPT2_VOCABULARY

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if (value := getattr(self, field.name)) < 1:
                raise WorkloadError(f"gpt: {field.name} must be at least 1, got {value}")
        if self.width % self.heads:
            raise WorkloadError(f"gpt: width must be a multiple of heads, got {self.width} and {self.heads}")

    @property
    def parameters(self) -> int:
        """The number of parameters; the head is the token embedding itself.

        >>> SIZES["gpt2"].parameters
        124439808
        """
        w = self.width
        return (self.vocabulary + self.context) * w + self.layers * (12 * w * w + 13 * w) + 2 * w

    def replace(self, **changes: int) -> Shape:
        return dataclasses.replace(self, **changes)


SIZES = {
    "tiny": Shape(4, 4, 256, context=256, vocabulary=BYTES),
    "mini": Shape(6, 6, 384, context=256, vocabulary=BYTES),
    "midi": Shape(8, 8, 512, context=512, vocabulary=BYTES),
    "gpt2": Shape(12, 12, 768),
    "gpt2-medium": Shape(24, 16, 1024),
    "gpt2-large": Shape(36, 20, 1280),
    "gpt2-xl": Shape(48, 25, 1600),
}
"""From 3 M to 1.6 G parameters; the first three read text as bytes."""


def shape_of(size: str, **changes: int) -> Shape:
    """A size by name, with other layers, heads, width, context or vocabulary.

    >>> shape_of("tiny", layers=2).parameters
    1711104
    """
    if size not in SIZES:
        close = difflib.get_close_matches(size, SIZES, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(SIZES)}"
        raise WorkloadError(f"there is no GPT of size {size!r}; {hint}")
    return SIZES[size].replace(**changes)


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Text so far → logits of the next token at every position.

    ``checkpointing`` keeps only the input of each block and computes the block again in the backward pass.
    """

    block: ClassVar[type[Block]] = Block

    def __init__(self, shape: Shape, checkpointing: bool = False):
        super().__init__()
        self.shape, self.checkpointing = shape, checkpointing
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(self.block(shape.width, shape.heads) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                # The more layers add to the residual stream, the smaller each addition is.
                deeper = (2 * shape.layers) ** -0.5 if name.endswith(("out.weight", "down.weight")) else 1.0
                nn.init.normal_(parameter, std=0.02 * deeper)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointing else block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def model(size: str, *, checkpointing: bool = False, **changes: Any) -> GPT:
    """A GPT of a named size; under ``torch.device("meta")`` or fake tensors it takes no memory."""
    return GPT(shape_of(size, **changes), checkpointing)


def loss(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in nats per token; positions whose target is IGNORED do not count."""
    logits = model(tokens)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
