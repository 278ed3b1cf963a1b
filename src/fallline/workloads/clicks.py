"""clicks: will this advertisement be clicked?  A small DLRM on generated logs; cross-entropy.

Each generated event has 13 numbers and 26 categories whose popularity follows a power law, as in Criteo's logs.  Hidden
vectors of the categories and hidden weights of the numbers decide how probable a click is.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fallline.workloads.seeding import minibatch, numpy_generator
from fallline.workloads.workload import About, Workload

DENSE, CATEGORIES, ROWS = 13, 26, 500
WIDTH, BATCH = 24, 512
TRAINING, VALIDATION = 512_000, 4_096


class Events(NamedTuple):
    numbers: Tensor  # (events, 13) float32
    ids: Tensor  # (events, 26) int32, already offset into one table
    clicked: Tensor  # (events,) float32

    def rows(self, index: Tensor | slice) -> Events:
        return Events(self.numbers[index], self.ids[index], self.clicked[index])


class DLRM(nn.Module):
    """Numbers through an MLP, categories through embeddings; all pairs of vectors are multiplied, then an MLP."""

    def __init__(self, embedding_std: float):
        super().__init__()
        self.table = nn.Embedding(CATEGORIES * ROWS, WIDTH)
        nn.init.normal_(self.table.weight, std=embedding_std)
        self.bottom = nn.Sequential(nn.Linear(DENSE, 64), nn.ReLU(), nn.Linear(64, WIDTH), nn.ReLU())
        pairs = torch.triu_indices(CATEGORIES + 1, CATEGORIES + 1, offset=1)
        self.pairs: Tensor
        self.register_buffer("pairs", pairs[0] * (CATEGORIES + 1) + pairs[1], persistent=False)
        self.top = nn.Sequential(
            nn.Linear(WIDTH + pairs.shape[1], 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, numbers: Tensor, ids: Tensor) -> Tensor:
        dense = self.bottom(numbers)
        vectors = torch.cat([dense.unsqueeze(1), self.table(ids)], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)[:, self.pairs]
        return self.top(torch.cat([dense, products], dim=1)).squeeze(1)


@functools.cache
def data() -> tuple[Events, Events]:
    rng = numpy_generator(0, "clicks")
    count, hidden = TRAINING + VALIDATION, 3
    numbers = rng.standard_normal((count, DENSE), dtype=numpy.float32)
    popularity = rng.random((count, CATEGORIES), dtype=numpy.float32) ** 3
    ids = (popularity * ROWS).astype(numpy.int32) + numpy.arange(CATEGORIES, dtype=numpy.int32) * ROWS
    # A factorisation machine: single effects plus products of hidden vectors, as (Σv)² − Σv².
    vectors = rng.standard_normal((CATEGORIES * ROWS, hidden), dtype=numpy.float32)
    single = rng.standard_normal(CATEGORIES * ROWS, dtype=numpy.float32)
    total, squares, effect = (numpy.zeros((count, n), dtype=numpy.float32) for n in (hidden, hidden, 1))
    for column in ids.T:
        total += vectors[column]
        squares += vectors[column] ** 2
        effect[:, 0] += single[column]
    products = 0.5 * (total**2 - squares).sum(1)
    bend = numpy.tanh(numbers @ rng.standard_normal((DENSE, 4), dtype=numpy.float32)).sum(1)
    logit = 0.35 * effect[:, 0] + 0.06 * products + 0.5 * bend - 1.5
    clicked = (rng.random(count) < 1 / (1 + numpy.exp(-logit))).astype(numpy.float32)
    everything = Events(torch.from_numpy(numbers), torch.from_numpy(ids), torch.from_numpy(clicked))
    return everything.rows(slice(0, TRAINING)), everything.rows(slice(TRAINING, None))


def loss(model: nn.Module, events: Events) -> Tensor:
    return F.binary_cross_entropy_with_logits(model(events.numbers, events.ids), events.clicked)


def workload(name: str = "clicks", embedding_std: float = ROWS**-0.5) -> Workload:
    return Workload(
        name=name,
        model=lambda seed: DLRM(embedding_std),
        batch=lambda step, seed: data()[0].rows(minibatch(step, seed, TRAINING, BATCH)),
        loss=loss,
        evaluate=lambda model: loss(model, data()[1]).item(),
        metric="cross-entropy",
        max_steps=1000,
        eval_every=40,
        data_name="generated clicks",
        about=About("click prediction", "DLRM-small", "CE"),
    )


def embed_init() -> Workload:
    """Held out: embeddings start at unit variance."""
    return workload("clicks_embed_init", embedding_std=1.0)
