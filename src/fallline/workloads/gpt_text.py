"""A GPT of the family that predicts the next byte of a text: Python's standard library, or any file.

Every machine with Python has the first. Bytes are the tokens, so that no tokenizer is needed and a published size keeps
its published number of parameters. With padding, a batch holds whole documents (the top-level pieces of a source file,
the paragraphs of another text), each cut or padded to the same length.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import platform
import re
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy
import torch
from torch import Tensor, nn

from fallline.workloads import gpt
from fallline.workloads.errors import WorkloadError
from fallline.workloads.gpt import IGNORED, SIZES, Shape
from fallline.workloads.seeding import generator
from fallline.workloads.workload import About, Workload

NO_PADDING, LONGEST, MAX_LENGTH = "none", "longest", "max_length"
PADDINGS = (NO_PADDING, LONGEST, MAX_LENGTH)
FILL = 0
"""The token at a padded position; its target is ignored."""
MOST_BYTES = 8_000_000
"""Text beyond this is not read: no profile gets so far."""
LEFT_OUT = frozenset({"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"})
VALIDATION_PART = 10
"""Every tenth document is for validation."""
VALIDATION_BATCHES = 4
STEPS = 1000
SHORTEST = 16
"""Shorter documents are joined with the next one."""

Batch = tuple[Tensor, Tensor]
"""Inputs and targets, both (batch, sequence)."""


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Text as bytes, and where its documents begin and end."""

    training: Tensor
    validation: Tensor
    training_ends: Tensor
    validation_ends: Tensor
    name: str


@functools.lru_cache(maxsize=2)
def corpus(data: str = "") -> Corpus:
    """The documents of a file, or those of Python's standard library."""
    documents, name = (_file(data), Path(data).name) if data else (_library(), f"Python {platform.python_version()}")
    digest = hashlib.sha256(b"\0".join(documents)).hexdigest()[:8]
    held_back = documents[VALIDATION_PART - 1 :: VALIDATION_PART] or documents
    kept = [one for at, one in enumerate(documents) if at % VALIDATION_PART != VALIDATION_PART - 1]
    (train, train_ends), (held, held_ends) = _joined(kept), _joined(held_back)
    return Corpus(train, held, train_ends, held_ends, f"{name} {digest}")


def _library() -> list[bytes]:
    root = Path(sysconfig.get_path("stdlib"))
    found: list[bytes] = []
    size = 0
    for path in sorted(root.rglob("*.py")):
        if size >= MOST_BYTES:
            break
        if not LEFT_OUT & set(path.relative_to(root).parts):
            pieces = _pieces(path.read_bytes(), rb"\n(?=def |class |@)")
            size += sum(map(len, pieces))
            found += pieces
    return found


def _file(data: str) -> list[bytes]:
    path = Path(data).expanduser()
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES)
    except OSError as error:
        raise WorkloadError(f"{data}: cannot be read ({error.strerror}); name a text file") from None
    if b"\0" in text:
        raise WorkloadError(f"{data}: a binary file; name a text file")
    if not text.strip():
        raise WorkloadError(f"{data}: an empty file; name a text file")
    if len(text) < 1000:
        raise WorkloadError(f"{data}: {len(text)} bytes are too few to train on; name a text of at least 1,000")
    return _pieces(text, rb"\n\s*\n")


def _pieces(text: bytes, between: bytes) -> list[bytes]:
    """The documents of a text; short ones are joined with what follows."""
    found: list[bytes] = []
    waiting = b""
    for piece in re.split(between, text):
        waiting = waiting + b"\n" + piece if waiting else piece
        if len(waiting) >= SHORTEST:
            found.append(waiting)
            waiting = b""
    return [*found, waiting] if waiting else found


def _joined(documents: list[bytes]) -> tuple[Tensor, Tensor]:
    text = torch.from_numpy(numpy.frombuffer(b"".join(documents), dtype=numpy.uint8).copy())
    return text, torch.tensor([len(one) for one in documents]).cumsum(0)


# ------------------------------------------------------------------ batches


def windows(text: Tensor, starts: Tensor, sequence: int) -> Batch:
    """Text cut anywhere: every position has a target."""
    rows = text[starts[:, None] + torch.arange(sequence + 1)].long()
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def padded(text: Tensor, ends: Tensor, chosen: Tensor, sequence: int, padding: str) -> Batch:
    """Whole documents from their beginning, cut at ``sequence`` and padded to it or to the longest of the batch."""
    pieces = []
    for at in chosen.tolist():
        start = int(ends[at - 1]) if at else 0
        pieces.append(text[start : min(int(ends[at]), start + sequence + 1)].long())
    wide = sequence if padding == MAX_LENGTH else max(1, max(len(piece) for piece in pieces) - 1)
    inputs, targets = torch.full((len(pieces), wide), FILL), torch.full((len(pieces), wide), IGNORED)
    for row, piece in enumerate(pieces):
        inputs[row, : len(piece) - 1], targets[row, : len(piece) - 1] = piece[:-1], piece[1:]
    return inputs, targets


def tokens_of(batch: Batch) -> tuple[int, int]:
    """Tokens that are learned from, and all positions that are computed."""
    targets = batch[1]
    return int((targets != IGNORED).sum()), targets.numel()


def sampled_loss(model: Callable[[Tensor], Tensor], batch: Batch) -> Tensor:
    """The loss on labels drawn from the model's own output, from which SophiaG estimates curvature."""
    inputs, targets = batch
    logits = model(inputs)
    with torch.no_grad():
        drawn = torch.distributions.Categorical(logits=logits.float(), validate_args=False).sample()
        drawn = torch.where(targets == IGNORED, IGNORED, drawn)
    return nn.functional.cross_entropy(logits.flatten(0, 1), drawn.flatten(), ignore_index=IGNORED)


# ------------------------------------------------------------------ the workload


def workload(
    size: str = "tiny",
    batch: int = 16,
    sequence: int = 256,
    width: int = 0,
    layers: int = 0,
    heads: int = 0,
    data: str = "",
    padding: str = NO_PADDING,
    checkpointing: int = 0,
) -> Workload:
    """A GPT on text; width, layers and heads are those of the size where they are 0."""
    if padding not in PADDINGS:
        raise WorkloadError(f"padding must be one of {', '.join(PADDINGS)}, got {padding!r}")
    if batch < 1 or sequence < 1:
        raise WorkloadError(f"batch and sequence must be at least 1, got {batch} and {sequence}")
    given = {name: value for name, value in (("width", width), ("layers", layers), ("heads", heads)) if value}
    if width and not heads:
        given["heads"] = max(1, width // (SIZES[size].width // SIZES[size].heads)) if size in SIZES else 1
    shape = gpt.shape_of(size, **given)
    shape = shape.replace(context=max(shape.context, sequence))
    text = corpus(data)
    if min(len(text.training), len(text.validation)) <= sequence + 1:
        raise WorkloadError(
            f"{data or 'the text'}: {len(text.training):,} bytes are less than one sequence of {sequence}"
        )
    return Workload(
        name=f"gpt-{size}" if not size.startswith("gpt") else size,
        model=lambda seed: gpt.GPT(shape, bool(checkpointing)),
        batch=lambda step, seed: _drawn(text.training, text.training_ends, batch, sequence, padding, seed, step),
        loss=lambda model, pair: gpt.loss(model, *pair),
        evaluate=evaluation(text, min(batch, 8), sequence, padding, gpt.loss),
        metric="cross-entropy",
        max_steps=STEPS,
        eval_every=50,
        data_name=text.name,
        about=About("next byte", _described(shape), "CE"),
        tokens=tokens_of,
        sampled_loss=sampled_loss,
    )


def _drawn(text: Tensor, ends: Tensor, batch: int, sequence: int, padding: str, seed: int, step: int) -> Batch:
    draws = generator(seed, "batch", step)
    if padding == NO_PADDING:
        return windows(text, torch.randint(len(text) - sequence, (batch,), generator=draws), sequence)
    return padded(text, ends, torch.randint(len(ends), (batch,), generator=draws), sequence, padding)


def evaluation(
    text: Corpus, batch: int, sequence: int, padding: str, loss: Callable[[nn.Module, Tensor, Tensor], Tensor]
) -> Callable[[nn.Module], float]:
    """The mean loss over the same few batches of the validation text."""

    def evaluate(model: nn.Module) -> float:
        device = next(model.parameters()).device
        losses = []
        for number in range(VALIDATION_BATCHES):
            pair = _drawn(text.validation, text.validation_ends, batch, sequence, padding, 0, number)
            inputs, targets = (one.to(device) for one in pair)
            losses.append(loss(model, inputs, targets).item())
        return sum(losses) / len(losses)

    return evaluate


def _described(shape: Shape) -> str:
    return f"GPT, {shape.layers} × {shape.width}, {shape.parameters / 1e6:.1f} M parameters"
