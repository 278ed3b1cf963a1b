"""Generated speech for the two speech workloads: spectrograms of words, made of sounds with formants.

Twelve letters, each a sound with three formants (peaks over frequency) of its own.  Speakers differ in the length of
their vocal tract, which scales all formants, and in pace; sounds flow into each other; rooms are noisy.  A model sees
the spectrogram and must write the words.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fallline.workloads.metrics.word_error_rate import word_error_rate
from fallline.workloads.seeding import minibatch, numpy_generator
from fallline.workloads.workload import About, Workload

LETTERS = "aeioubdgklmn"
BLANK, SPACE = 0, 1  # then the letters, from 2
SYMBOLS = 2 + len(LETTERS)
BANDS, FRAMES = 24, 80
WORDS, LONGEST = 60, 3  # of the lexicon; words in an utterance
TRAINING, VALIDATION, BATCH = 3000, 150, 16
NOISE = 0.5


class Speech(NamedTuple):
    spectra: Tensor  # (count, FRAMES, BANDS)
    frames: Tensor  # (count,)
    labels: Tensor  # (count, longest), padded with BLANK
    lengths: Tensor  # (count,)

    def rows(self, index: Tensor | slice) -> Speech:
        return Speech(*(part[index] for part in self))


def transcript(symbols: list[int]) -> str:
    return "".join(" " if symbol == SPACE else LETTERS[symbol - 2] for symbol in symbols if symbol != BLANK)


@functools.cache
def data() -> tuple[Speech, Speech, list[str]]:
    """Training, validation, and what is said in the validation set."""
    random = numpy_generator(0, "speech")
    formants = numpy.sort(random.uniform(2, BANDS - 3, (SYMBOLS, 3)), axis=1)
    loudness = random.uniform(0.5, 1.0, (SYMBOLS, 3))
    loudness[SPACE] = 0.05
    lexicon = [random.integers(2, SYMBOLS, random.integers(2, 5)) for _ in range(WORDS)]
    count = TRAINING + VALIDATION
    sounds = numpy.full((count, FRAMES), SPACE)
    labels = numpy.zeros((count, 5 * LONGEST), dtype=numpy.int64)
    frames, lengths = numpy.zeros((2, count), dtype=numpy.int64)
    for row in range(count):
        words = [lexicon[w] for w in random.integers(WORDS, size=random.integers(1, LONGEST + 1))]
        said = numpy.concatenate([numpy.append(word, SPACE) for word in words])[:-1]
        spoken = numpy.repeat(said, random.integers(4, 7, len(said)))[:FRAMES]
        sounds[row, : len(spoken)], frames[row] = spoken, len(spoken)
        labels[row, : len(said)], lengths[row] = said, len(said)
    spectra = _spectra(sounds, formants, loudness, random)
    everything = Speech(*map(torch.from_numpy, (spectra, frames, labels, lengths)))
    validation = everything.rows(slice(TRAINING, None))
    return everything.rows(slice(0, TRAINING)), validation, [transcript(row) for row in validation.labels.tolist()]


def _spectra(
    sounds: numpy.ndarray, formants: numpy.ndarray, loudness: numpy.ndarray, random: numpy.random.Generator
) -> numpy.ndarray:
    count = len(sounds)
    tract = random.uniform(0.85, 1.15, (count, 1)).astype(numpy.float32)
    bands = numpy.arange(BANDS, dtype=numpy.float32)
    spectra = numpy.zeros((count, FRAMES, BANDS), dtype=numpy.float32)
    for formant in range(3):
        centre = formants[sounds, formant].astype(numpy.float32) * tract
        centre = 0.25 * numpy.roll(centre, 1, 1) + 0.5 * centre + 0.25 * numpy.roll(centre, -1, 1)
        peak = numpy.exp(-0.5 * ((bands - centre[..., None]) / 1.2) ** 2)
        spectra += peak * loudness[sounds, formant].astype(numpy.float32)[..., None]
    spectra += NOISE * random.standard_normal(spectra.shape, dtype=numpy.float32)
    return (spectra - spectra.mean()) / spectra.std()


def batch(step: int, seed: int) -> Speech:
    return data()[0].rows(minibatch(step, seed, TRAINING, BATCH))


def loss(model: nn.Module, speech: Speech) -> Tensor:
    """CTC, per letter.  A model gives (batch, frames / 2, SYMBOLS)."""
    scores = F.log_softmax(model(speech.spectra, speech.frames), dim=-1).transpose(0, 1)
    return F.ctc_loss(scores, speech.labels, (speech.frames + 1) // 2, speech.lengths, BLANK, zero_infinity=True)


def evaluate(model: nn.Module) -> float:
    """Word error rate of the most probable symbols, repetitions and blanks taken out."""
    _, speech, said = data()
    best = model(speech.spectra, speech.frames).argmax(-1)
    heard = []
    for row, frames in zip(best, ((speech.frames + 1) // 2).tolist(), strict=True):
        heard.append(transcript(torch.unique_consecutive(row[:frames]).tolist()))
    return word_error_rate(heard, said)


def recognition(name: str, model: Callable[[], nn.Module], *, about: str, max_steps: int, eval_every: int) -> Workload:
    """The task that both speech workloads share."""
    return Workload(
        name=name,
        model=lambda seed: model(),
        batch=batch,
        loss=loss,
        evaluate=evaluate,
        metric="WER",
        max_steps=max_steps,
        eval_every=eval_every,
        data_name="generated speech",
        about=About("speech recognition", about, "CTC"),
    )
