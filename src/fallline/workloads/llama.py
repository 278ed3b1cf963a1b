"""Models with Llama's architecture, by their numbers: rotary positions, RMS norms, gated feed-forward, shared keys.

No biases, no dropout. Attention is torch's fused one; keys and values that several heads share are expanded for it, as
in the released code. The head is a matrix of its own unless ``tied`` says otherwise.

References:
    Touvron et al. 2023, LLaMA: Open and efficient foundation language models, section 2.2 and table 2.
    Touvron et al. 2023, Llama 2, appendix A.2.1 (grouped queries).
"""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fallline.workloads.errors import WorkloadError


@dataclasses.dataclass(frozen=True)
class Shape:
    """All that decides the parameters of a model with Llama's architecture."""

    layers: int
    heads: int
    width: int
    hidden: int
    """The width of the feed-forward part."""
    kv_heads: int = 0
    """Heads of keys and values; 0 means as many as ``heads``."""
    context: int = 2048
    vocabulary: int = 32_000
    tied: bool = False
    """Whether the head is the token embedding itself."""

    def __post_init__(self) -> None:
        if self.kv_heads == 0:
            object.__setattr__(self, "kv_heads", self.heads)
        for field in dataclasses.fields(self):
            if field.name != "tied" and (value := getattr(self, field.name)) < 1:
                raise WorkloadError(f"llama: {field.name} must be at least 1, got {value}")
        if self.width % self.heads:
            raise WorkloadError(f"llama: width must be a multiple of heads, got {self.width} and {self.heads}")
        if (self.width // self.heads) % 2:
            raise WorkloadError(f"llama: width / heads must be even, got {self.width} / {self.heads}")
        if self.heads % self.kv_heads:
            raise WorkloadError(f"llama: heads must be a multiple of kv_heads, got {self.heads} and {self.kv_heads}")

    @property
    def parameters(self) -> int:
        """The number of parameters.

        >>> SIZES["llama-7b"].parameters
        6738415616
        """
        w = self.width
        attention = 2 * w * w + 2 * w * (w // self.heads) * self.kv_heads
        heads = 1 if self.tied else 2
        return heads * self.vocabulary * w + self.layers * (attention + 3 * w * self.hidden + 2 * w) + w


SIZES = {
    "llama-7b": Shape(32, 32, 4096, 11_008),
    "llama-13b": Shape(40, 40, 5120, 13_824),
    "llama-33b": Shape(60, 52, 6656, 17_920),
    "llama-65b": Shape(80, 64, 8192, 22_016),
}


class Block(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        width, shared = shape.width, shape.kv_heads * (shape.width // shape.heads)
        self.heads, self.kv_heads = shape.heads, shape.kv_heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, shared, bias=False), nn.Linear(width, shared, bias=False)
        self.gate, self.up = nn.Linear(width, shape.hidden, bias=False), nn.Linear(width, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        normed = self.norm1(x)
        q = rotated(self.q(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2), cos, sin)
        k = rotated(self.k(normed).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2), cos, sin)
        v = self.v(normed).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2)
        copies = self.heads // self.kv_heads
        if copies > 1:
            k, v = k.repeat_interleave(copies, 1), v.repeat_interleave(copies, 1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        normed = self.norm2(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs of elements turned by an angle that grows with their position."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Llama(nn.Module):
    """Text so far → logits of the next token at every position."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width)
        self.head = None if shape.tied else nn.Linear(shape.width, shape.vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        cos, sin = self._angles(tokens.shape[1], x)
        for block in self.blocks:
            x = block(x, cos, sin)
        x = self.norm(x)
        return F.linear(x, self.tokens.weight) if self.head is None else self.head(x)

    def _angles(self, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
        half = self.shape.width // self.shape.heads // 2
        speeds = 10_000.0 ** -(torch.arange(half, device=like.device, dtype=torch.float32) / half)
        turns = torch.outer(torch.arange(length, device=like.device, dtype=torch.float32), speeds)
        both = torch.cat((turns, turns), dim=-1)
        return both.cos().to(like.dtype), both.sin().to(like.dtype)
