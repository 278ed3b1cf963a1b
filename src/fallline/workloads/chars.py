"""chars: a small GPT predicts the next character of Python's own sources; cross-entropy in nats per character."""

from __future__ import annotations

import functools
import hashlib
import platform
import sysconfig
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fallline.workloads.attention import Attention
from fallline.workloads.seeding import generator
from fallline.workloads.workload import About, Workload

CONTEXT, BATCH = 64, 16
WIDTH, LAYERS, HEADS = 64, 2, 4

# Fixed and always the same 97: newline, the printable ASCII characters, and one for all others.
ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
VOCABULARY = len(ALPHABET) + 1

# Large modules that every Python since 3.10 has in much the same form.
MODULES = (
    "argparse", "ast", "bdb", "calendar", "cmd", "codecs", "collections/__init__", "configparser", "copy", "csv",
    "dataclasses", "difflib", "dis", "doctest", "email/message", "enum", "fractions", "ftplib", "functools", "gettext",
    "heapq", "http/client", "http/server", "inspect", "ipaddress", "json/decoder", "locale", "logging/__init__",
    "mailbox", "optparse", "pdb", "pickle", "platform", "pydoc", "random", "shutil", "smtplib", "socket",
    "statistics", "subprocess", "tarfile", "textwrap", "threading", "tokenize", "turtle", "typing",
    "unittest/case", "unittest/mock", "urllib/request", "uuid", "zipfile", "decimal", "_pydecimal",
)  # fmt: skip
VALIDATION = ("string", "shelve", "traceback", "tempfile", "imaplib")
VALIDATION_WINDOWS = 256


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, HEADS, causal=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        for parameter in (self.characters.weight, self.positions.weight, self.head.weight):
            nn.init.normal_(parameter, std=0.02)

    def forward(self, text: Tensor) -> Tensor:
        x = self.characters(text) + self.positions.weight[: text.shape[1]]
        return self.head(self.norm(self.blocks(x)))


@functools.cache
def data() -> tuple[Tensor, Tensor, str]:
    """Training text, validation windows, and the name of the data."""
    text, held_back = _sources(MODULES), _sources(VALIDATION)
    digest = hashlib.sha256((text + held_back).encode()).hexdigest()[:8]
    windows = _encode(held_back)[: VALIDATION_WINDOWS * (CONTEXT + 1)].view(-1, CONTEXT + 1)
    return _encode(text), windows, f"Python sources {platform.python_version()} {digest}"


def _sources(modules: tuple[str, ...]) -> str:
    library = Path(sysconfig.get_path("stdlib"))
    files = [library / f"{module}.py" for module in modules]
    # A package in one release is a module in another; what is missing is left out, and the name's digest shows it.
    files = [path if path.exists() else path.with_suffix("") / "__init__.py" for path in files]
    return "".join(path.read_text(encoding="utf-8") for path in files if path.exists())


def _encode(text: str) -> Tensor:
    codes = numpy.full(256, VOCABULARY - 1, dtype=numpy.int64)
    codes[numpy.frombuffer(ALPHABET.encode(), dtype=numpy.uint8)] = numpy.arange(len(ALPHABET))
    return torch.from_numpy(codes[numpy.frombuffer(text.encode("latin-1", errors="replace"), dtype=numpy.uint8)])


def batch(step: int, seed: int) -> Tensor:
    text = data()[0]
    starts = torch.randint(len(text) - CONTEXT, (BATCH, 1), generator=generator(seed, "batch", step))
    return text[starts + torch.arange(CONTEXT + 1)]


def loss(model: nn.Module, text: Tensor) -> Tensor:
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


def evaluate(model: nn.Module) -> float:
    return loss(model, data()[1]).item()


def workload(width: float = 1.0) -> Workload:
    """``width`` is a factor; the width itself is a multiple of the heads."""
    wide = max(1, round(WIDTH * width / HEADS)) * HEADS
    return Workload(
        name="chars",
        model=lambda seed: GPT(wide),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        metric="cross-entropy",
        max_steps=700,
        eval_every=25,
        data_name=data()[2],
        about=About("next character", f"GPT, {LAYERS} × {wide}", "CE"),
        tokens=lambda text: (text[:, 1:].numel(),) * 2,
    )
