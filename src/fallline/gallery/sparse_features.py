"""AdaGrad on sparse features: logistic regression on words that follow Zipf's law."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import fallline
from fallline.document.figures import Axis, Chart, Panels, Series
from fallline.gallery.exhibit import Exhibit, Wishes
from fallline.gallery.stepping import positions
from fallline.workloads.seeding import generator, minibatch

WORDS, TEXTS, BATCH, EPOCHS = 60, 400, 4, 5
STEPS, EVERY = EPOCHS * TEXTS // BATCH, TEXTS // BATCH // 4
"""The loss on all texts is computed four times an epoch."""
RATES = (0.03, 0.1, 0.3, 1.0, 3.0)
METHODS = {"sgd": "SGD", "adagrad": "AdaGrad"}
SEEDS = 5
BINS = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 60))
"""Words that are about as rare."""
SMALL = 1e-3
"""So small a gradient that it does not change what AdaGrad has summed up."""


def exhibit(wishes: Wishes) -> Exhibit:
    task = problem()
    orders = orders_of(task, range(wishes.seed, wishes.seed + SEEDS))
    runs = {name: {rate: run(task, orders, name, rate) for rate in RATES} for name in METHODS}
    best = {name: min(RATES, key=lambda rate: runs[name][rate].end) for name in METHODS}
    chosen = {name: runs[name][best[name]] for name in METHODS}
    ends = {name: one.end for name, one in chosen.items()}
    steps = list(range(0, STEPS + 1, EVERY))
    drawn = []
    for name, title in METHODS.items():
        found = chosen[name].losses
        band = (found.min(0).tolist(), found.max(0).tolist())
        drawn.append(Series(f"{title}, lr {best[name]:g}", steps, found.mean(0).tolist(), *band))
    high = max(max(series.high or ()) for series in drawn)
    left = Chart(
        "loss", "Loss on all texts", Axis("steps", 0, steps[-1]),
        Axis("cross-entropy", 0.97 * min(ends.values()), high), drawn,
    )  # fmt: skip
    relative = {}
    for name, one in chosen.items():
        moved = by_rarity(one.moved)
        relative[name] = [step / moved[0] for step in moved]
    right = Chart(
        "rates", "How far a gradient of 1 moves a word",
        Axis("the word is in one of so many texts", 1, WORDS, {1: "1", 3: "3", 10: "10", 30: "30"}, log=True),
        Axis("relative to the commonest word", 0.7, 1.3 * relative["adagrad"][-1],
             {1: "1", 2: "2", 4: "4", 8: "8", 16: "16"}, log=True),
        [
            Series(f"{METHODS[name]}, lr {best[name]:g}", [math.sqrt(low * high) for low, high in BINS], found)
            for name, found in relative.items()
        ],
    )  # fmt: skip
    saved = 100 * (1 - ends["adagrad"] / ends["sgd"])
    caption = (
        f"Logistic regression on {WORDS} words, the k-th of which is in one of k texts, {EPOCHS} epochs; each method "
        f"at the best of {len(RATES)} rates, mean and range over {SEEDS} orders of the texts. AdaGrad ends at a "
        f"cross-entropy of {ends['adagrad']:.3f} and SGD at {ends['sgd']:.3f}, {saved:.0f} % less. At the end the same "
        f"gradient moves a rare word (one of {BINS[-1][0]} to {BINS[-1][1]} texts) {relative['adagrad'][-1]:.1f} times "
        f"as far as the commonest under AdaGrad, and {relative['sgd'][-1]:.1f} times under SGD."
    )
    numbers = {"ends": ends, "rates": best, "rarest_step": {name: found[-1] for name, found in relative.items()}}
    figure = Panels("sparse_features", "AdaGrad keeps larger steps for rare features", [left, right], 2)
    return Exhibit([figure], caption, numbers, "computed here, on generated texts")


@dataclasses.dataclass(frozen=True)
class Run:
    """One method at one rate, over all orders of the texts."""

    losses: np.ndarray
    """Orders × evaluations: the loss on all texts."""
    moved: np.ndarray
    """Orders × words: how far each weight moves per unit of gradient at the end."""

    @property
    def end(self) -> float:
        found = float(self.losses[:, -1].mean())
        return found if math.isfinite(found) else math.inf


@dataclasses.dataclass(frozen=True)
class Problem:
    """The same texts for everybody."""

    x: Tensor
    y: Tensor


def problem() -> Problem:
    random = generator(0, "sparse features")
    frequencies = 1 / torch.arange(1, WORDS + 1)
    x = (torch.rand(TEXTS, WORDS, generator=random) < frequencies).double()
    truth = 2 * torch.randn(WORDS, generator=random).double()
    y = (torch.rand(TEXTS, generator=random) < torch.sigmoid(x @ truth)).double()
    return Problem(x, y)


def orders_of(task: Problem, seeds: range) -> tuple[Tensor, Tensor]:
    """The batches of all steps, a seed for each order: steps × orders × batch (× words)."""
    orders = [[minibatch(step, seed, TEXTS, BATCH) for step in range(STEPS)] for seed in seeds]
    rows = torch.stack([torch.stack(order) for order in orders], dim=1)
    return task.x[rows], task.y[rows]


def run(task: Problem, orders: tuple[Tensor, Tensor], name: str, rate: float) -> Run:
    """All orders at once, as the rows of one parameter, because both methods step every weight by itself."""
    x, y = orders

    def gradient(step: int, at: Tensor) -> Tensor:
        if step > STEPS:
            return torch.full_like(at, SMALL)
        texts, labels = x[step - 1], y[step - 1]
        wrong = torch.sigmoid((texts @ at[:, :, None])[:, :, 0]) - labels
        return (wrong[:, None, :] @ texts)[:, 0] / BATCH

    path = positions(lambda at: fallline.create(name, at, lr=rate), torch.zeros(SEEDS, WORDS), gradient, STEPS + 1)
    scores = path[: STEPS + 1 : EVERY] @ task.x.T
    losses = F.binary_cross_entropy_with_logits(scores, task.y.expand_as(scores), reduction="none").mean(-1)
    return Run(losses.T.numpy(), ((path[STEPS] - path[STEPS + 1]) / SMALL).numpy())


def by_rarity(moved: np.ndarray) -> list[float]:
    """Geometric means over all orders and over words about as rare."""
    logs = np.log(moved).mean(axis=0)
    return [math.exp(logs[low - 1 : high].mean()) for low, high in BINS]
