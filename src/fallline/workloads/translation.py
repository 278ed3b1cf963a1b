"""translation: an encoder-decoder transformer translates a generated language; cross-entropy, BLEU.

The source language has subject–verb–object order with adjectives before their nouns.  The target language puts the verb
last and adjectives behind, and its articles, adjectives and verbs agree with the gender and number of their noun, so
that a word's translation depends on others.  ``from_pairs`` takes sentences of your own instead.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fallline.workloads.attention import Attention
from fallline.workloads.seeding import minibatch, numpy_generator
from fallline.workloads.workload import HIGHER, About, Workload

WIDTH, LAYERS, HEADS, DROPOUT, BATCH = 48, 2, 4, 0.1, 32
TRAINING, VALIDATION, MAX_STEPS = 6000, 128, 700
PAD, START, END, UNKNOWN = range(4)
NOUNS, ADJECTIVES, VERBS = 24, 8, 12

Pairs = Sequence[tuple[str, str]]


# ------------------------------------------------------------------ the languages


def generated_pairs(count: int) -> list[tuple[str, str]]:
    random = numpy_generator(0, "translation")
    return [_sentence(random) for _ in range(count)]


def _sentence(random: numpy.random.Generator) -> tuple[str, str]:
    subject, plural, source, target = _noun_phrase(random, "o")
    verb = random.integers(VERBS)
    ending = "en" if plural else "et"
    source += [f"verb{verb}" + ("" if plural else "s")]
    if random.random() < 0.75:
        _, _, source_object, target_object = _noun_phrase(random, "u")
        source += source_object
        target += target_object
    if random.random() < 0.4:
        _, _, source_place, target_place = _noun_phrase(random, "i")
        source += ["in", *source_place]
        target = [*target_place, "na", *target]
    # Verbs agree with the gender of their subject too.
    return " ".join(source), " ".join([*target, f"vi{verb}{ending}{subject % 3}"])


def _noun_phrase(random: numpy.random.Generator, case: str) -> tuple[int, bool, list[str], list[str]]:
    noun, plural, definite = int(random.integers(NOUNS)), bool(random.random() < 0.4), random.random() < 0.5
    adjectives = random.integers(ADJECTIVES, size=random.integers(0, 2))
    agreement = f"{case}{noun % 3}{'p' if plural else 's'}"
    source = ["the" if definite else "a", *(f"adj{a}" for a in adjectives), f"noun{noun}" + ("s" if plural else "")]
    target = [f"{'la' if definite else 'un'}{agreement}", f"no{noun}{'p' if plural else ''}"]
    target += [f"ad{a}{agreement}" for a in reversed(adjectives)]
    return noun, plural, source, target


# ------------------------------------------------------------------ text to numbers


class Vocabulary:
    """Words by frequency, after the four signs."""

    def __init__(self, sentences: Sequence[str], largest: int = 4000):
        counts: dict[str, int] = {}
        for word in " ".join(sentences).split():
            counts[word] = counts.get(word, 0) + 1
        kept = sorted(counts, key=lambda word: (-counts[word], word))[: largest - 4]
        self.words = ["", "", "", "?", *kept]
        self.numbers = {word: number for number, word in enumerate(kept, 4)}

    def encode(self, sentence: str) -> list[int]:
        return [self.numbers.get(word, UNKNOWN) for word in sentence.split()]

    def decode(self, numbers: Sequence[int]) -> str:
        kept = numbers[: numbers.index(END)] if END in numbers else numbers
        return " ".join(self.words[number] for number in kept if number >= UNKNOWN)


class Corpus(NamedTuple):
    source_words: Vocabulary
    target_words: Vocabulary
    source: Tensor  # (count, longest), padded
    target: Tensor  # (count, longest), START … END, padded
    references: list[str]  # of the validation sentences, which come last


def corpus(pairs: Pairs) -> Corpus:
    training, validation = pairs[:-VALIDATION], pairs[-VALIDATION:]
    source_words = Vocabulary([source for source, _ in training])
    target_words = Vocabulary([target for _, target in training])
    source = _padded([source_words.encode(source) for source, _ in pairs])
    target = _padded([[START, *target_words.encode(target), END] for _, target in pairs])
    return Corpus(source_words, target_words, source, target, [target for _, target in validation])


def _padded(rows: list[list[int]]) -> Tensor:
    table = torch.full((len(rows), max(map(len, rows))), PAD)
    for row, numbers in zip(table, rows, strict=True):
        row[: len(numbers)] = torch.tensor(numbers)
    return table


# ------------------------------------------------------------------ the model


class FeedForward(nn.Module):
    def __init__(self, activation: nn.Module, gated: bool):
        super().__init__()
        self.activation, self.gated = activation, gated
        self.wide = nn.Linear(WIDTH, 4 * WIDTH * (2 if gated else 1))
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.wide(x)
        if self.gated:
            gate, wide = wide.chunk(2, dim=-1)
            return self.narrow(self.activation(gate) * wide)
        return self.narrow(self.activation(wide))


class Block(nn.Module):
    """A layer of the encoder, or with ``cross`` of the decoder."""

    def __init__(self, cross: bool, activation: nn.Module, gated: bool):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3 if cross else 2))
        self.attention = Attention(WIDTH, HEADS, causal=cross)
        self.cross = Attention(WIDTH, HEADS) if cross else None
        self.feed = FeedForward(activation, gated)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, visible: Tensor, encoded: Tensor | None = None) -> Tensor:
        x = x + self.dropout(self.attention(self.norms[0](x), visible=None if self.cross else visible))
        if self.cross is not None:
            x = x + self.dropout(self.cross(self.norms[1](x), encoded, visible))
        return x + self.dropout(self.feed(self.norms[-1](x)))


class Transformer(nn.Module):
    def __init__(self, corpus: Corpus, activation: nn.Module, gated: bool):
        super().__init__()
        self.longest = max(corpus.source.shape[1], corpus.target.shape[1]) + 4
        self.source = nn.Embedding(len(corpus.source_words.words), WIDTH)
        self.target = nn.Embedding(len(corpus.target_words.words), WIDTH)
        self.positions = nn.Embedding(self.longest, WIDTH)
        for table in (self.source, self.target, self.positions):
            nn.init.normal_(table.weight, std=WIDTH**-0.5)
        self.encoder = nn.ModuleList(Block(False, activation, gated) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Block(True, activation, gated) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))

    def encode(self, source: Tensor) -> Tensor:
        x = self.source(source) + self.positions.weight[: source.shape[1]]
        for block in self.encoder:
            x = block(x, source != PAD)
        return self.norms[0](x)

    def decode(self, target: Tensor, encoded: Tensor, source: Tensor) -> Tensor:
        x = self.target(target) + self.positions.weight[: target.shape[1]]
        for block in self.decoder:
            x = block(x, source != PAD, encoded)
        return self.norms[1](x) @ self.target.weight.T

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.decode(target, self.encode(source), source)

    def translate(self, source: Tensor) -> Tensor:
        """Greedily, until every sentence has ended."""
        encoded = self.encode(source)
        target = torch.full((len(source), 1), START)
        ended = torch.zeros(len(source), dtype=torch.bool)
        while target.shape[1] < self.longest and not ended.all():
            word = self.decode(target, encoded, source)[:, -1].argmax(-1)
            target = torch.cat([target, word.unsqueeze(1)], dim=1)
            ended |= word == END
        return target[:, 1:]


# ------------------------------------------------------------------ the workload


def loss(model: nn.Module, pairs: tuple[Tensor, Tensor]) -> Tensor:
    source, target = pairs
    return F.cross_entropy(model(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)


def bleu(translations: Sequence[str], references: Sequence[str]) -> float:
    try:
        import sacrebleu
    except ImportError as error:
        raise ModuleNotFoundError("BLEU needs sacrebleu; pip install 'fallline[bench]'") from error
    # Words are whole: nothing is to be split.
    return float(sacrebleu.corpus_bleu(list(translations), [list(references)], tokenize="none", force=True).score)


def _workload(
    name: str, known: Corpus, data_name: str, activation: nn.Module, gated: bool = False, max_steps: int = MAX_STEPS
) -> Workload:
    training = len(known.source) - VALIDATION

    def batch(step: int, seed: int) -> tuple[Tensor, Tensor]:
        rows = minibatch(step, seed, training, BATCH)
        return known.source[rows], known.target[rows]

    def evaluate(model: Transformer) -> float:
        translated = model.translate(known.source[training:]).tolist()
        return bleu([known.target_words.decode(row) for row in translated], known.references)

    return Workload(
        name=name,
        model=lambda seed: Transformer(known, activation, gated),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        metric="BLEU",
        direction=HIGHER,
        max_steps=max_steps,
        eval_every=max(1, max_steps // 20),
        data_name=data_name,
        about=About("translation", f"transformer, {LAYERS} + {LAYERS} × {WIDTH}", "CE"),
    )


@functools.cache
def generated_corpus() -> Corpus:
    return corpus(generated_pairs(TRAINING + VALIDATION))


def workload() -> Workload:
    return _workload("translation", generated_corpus(), "generated sentences", nn.ReLU())


def glu_tanh() -> Workload:
    """Held out: gated feed-forward layers with tanh."""
    return _workload("translation_glu_tanh", generated_corpus(), "generated sentences", nn.Tanh(), gated=True)


def from_pairs(path: str | Path, max_steps: int = MAX_STEPS) -> Workload:
    """Sentences of your own: one pair per line, source and target with a tab between; the last 128 validate."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    pairs = []
    for number, line in enumerate(lines, 1):
        source, tab, target = line.partition("\t")
        if not (tab and source.strip() and target.strip()):
            raise ValueError(f"{path}, line {number}: needs two sentences with a tab between, got {line[:40]!r}")
        pairs.append((source, target))
    if len(pairs) < VALIDATION + BATCH:
        raise ValueError(f"{path}: has {len(pairs)} pairs; {VALIDATION + BATCH} are the fewest that work")
    return _workload("translation", corpus(pairs), f"pairs of {Path(path).name}", nn.ReLU(), max_steps=max_steps)
