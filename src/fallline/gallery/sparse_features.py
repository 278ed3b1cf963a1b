"""AdaGrad on sparse features: logistic regression on words that follow Zipf's law."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from fallline.document.figures import Axis, Chart, Panels, Series
from fallline.gallery.exhibit import Exhibit, Wishes
from fallline.gallery.stepping import Recipe
from fallline.training.optimizer_factory import build
from fallline.training.training import Training
from fallline.workloads.seeding import generator, minibatch
from fallline.workloads.workload import Workload

WORDS, TEXTS, BATCH, EPOCHS = 60, 400, 4, 5
RATES = (0.03, 0.1, 0.3, 1.0, 3.0)
METHODS = {"sgd": "SGD", "adagrad": "AdaGrad"}
SEEDS = 5
BINS = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 60))
"""Words that are about as rare."""


class Regression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(WORDS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weights


def exhibit(wishes: Wishes) -> Exhibit:
    seeds = range(wishes.seed, wishes.seed + SEEDS)
    curves = {
        name: {rate: np.array([losses(name, rate, seed) for seed in seeds]) for rate in RATES} for name in METHODS
    }
    best = {name: min(RATES, key=lambda rate: _end(curves[name][rate])) for name in METHODS}
    ends = {name: _end(curves[name][best[name]]) for name in METHODS}
    every = TEXTS // BATCH // 4
    steps = list(range(0, EPOCHS * TEXTS // BATCH + 1, every))
    drawn = []
    for name, title in METHODS.items():
        found = curves[name][best[name]]
        band = (found.min(0).tolist(), found.max(0).tolist())
        drawn.append(Series(f"{title}, lr {best[name]:g}", steps, found.mean(0).tolist(), *band))
    high = max(max(series.high or ()) for series in drawn)
    left = Chart(
        "loss", "Loss on all texts", Axis("steps", 0, steps[-1]),
        Axis("cross-entropy", 0.97 * min(ends.values()), high), drawn,
    )  # fmt: skip
    relative = {}
    for name in METHODS:
        moved = steps_by_rarity(name, best[name], seeds)
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


def _end(curves: np.ndarray) -> float:
    found = float(curves[:, -1].mean())
    return found if math.isfinite(found) else math.inf


def losses(name: str, rate: float, seed: int) -> list[float]:
    """The loss on all texts, four times an epoch."""
    training = _training(name, rate, seed)
    found = [training.evaluate()]
    for step in training.workload.evaluation_steps():
        training.advance(step)
        found.append(training.evaluate())
    return found


def steps_by_rarity(name: str, rate: float, seeds: range) -> list[float]:
    """How far a weight moves per unit of gradient after training: geometric means of words about as rare."""
    logs = np.mean([np.log(steps_per_word(name, rate, seed)) for seed in seeds], axis=0)
    return [math.exp(logs[low - 1 : high].mean()) for low, high in BINS]


def steps_per_word(name: str, rate: float, seed: int) -> np.ndarray:
    """How far each weight moves per unit of gradient at the end of training."""
    training = _training(name, rate, seed)
    training.advance(training.workload.max_steps)
    weights = next(training.model.parameters())
    before = weights.detach().clone()
    # So small a gradient that it does not change what AdaGrad has summed up.
    weights.grad = torch.full_like(weights, 1e-3)
    training.optimizer.step()
    found: np.ndarray = ((before - weights.detach()) / 1e-3).double().numpy()
    return found


def _training(name: str, rate: float, seed: int) -> Training:
    task = problem()
    return Training(task, seed, lambda model: build(Recipe(name), {"lr": rate}, model, task.max_steps))


def problem() -> Workload:
    """The same texts for everybody; a seed decides their order."""
    random = generator(0, "sparse features")
    frequencies = 1 / torch.arange(1, WORDS + 1)
    x = (torch.rand(TEXTS, WORDS, generator=random) < frequencies).float()
    truth = 2 * torch.randn(WORDS, generator=random)
    y = (torch.rand(TEXTS, generator=random) < torch.sigmoid(x @ truth)).float()

    def batch(step: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = minibatch(step, seed, TEXTS, BATCH)
        return x[rows], y[rows]

    return Workload(
        name="sparse features",
        model=lambda seed: Regression(),
        batch=batch,
        loss=lambda model, texts: F.binary_cross_entropy_with_logits(model(texts[0]), texts[1]),
        evaluate=lambda model: F.binary_cross_entropy_with_logits(model(x), y).item(),
        metric="cross-entropy",
        max_steps=EPOCHS * TEXTS // BATCH,
        eval_every=TEXTS // BATCH // 4,
        data_name=f"{TEXTS} generated texts",
    )
