"""The lecture's experiment: an MLP on Fashion-MNIST under four methods, in six panels, at tuned rates and at one rate.

Time is that of training alone, by the trainer's clock; evaluations are not in it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from fallline.document.figures import Axis, Chart, Panels, Series
from fallline.gallery.exhibit import Exhibit, Wishes
from fallline.gallery.fashion_samples import GENERATED, is_real, source
from fallline.gallery.stepping import Recipe
from fallline.training.optimizer_factory import build
from fallline.training.phases import TRAINING
from fallline.training.training import Training
from fallline.workloads.fashion_mlp import BATCH, STAND_IN, workload
from fallline.workloads.images import images
from fallline.workloads.workload import Workload

EPOCHS, SEEDS = 10, 3
SHARED_RATE = 4e-4
"""The lecture's, for all four."""
SMOOTH = 20
"""Iterations that a point of the curves of training is the mean of."""


@dataclasses.dataclass(frozen=True)
class Method:
    title: str
    optimizer: str
    settings: dict[str, Any]
    rates: tuple[float, ...]


METHODS = (
    Method("SGD", "sgd", {}, (0.1, 0.3, 1.0)),
    Method("momentum", "sgd", {"momentum": 0.9}, (0.03, 0.1, 0.3)),
    Method("Nesterov", "sgd", {"momentum": 0.9, "nesterov": True}, (0.03, 0.1, 0.3)),
    Method("Adam", "adam", {}, (1e-3, 3e-3, 1e-2)),
)
"""Half a decade between rates: the best of them was in the middle for every method when they were chosen."""


@dataclasses.dataclass(frozen=True)
class Curves:
    """One training."""

    loss: np.ndarray
    accuracy: np.ndarray
    """One for every mini-batch, before its step."""
    test_loss: np.ndarray
    test_accuracy: np.ndarray
    """Before training and after every epoch."""
    seconds: np.ndarray


class Recorded:
    """The workload with an ear on it: accuracies of mini-batches, and the loss on the test images."""

    def __init__(self, task: Workload):
        known = images(STAND_IN)
        self.accuracies: list[float] = []
        self.tested: list[tuple[float, float]] = []
        self.per_epoch = len(known.train) // BATCH

        def loss(model: nn.Module, examples: tuple[Tensor, Tensor]) -> Tensor:
            scores = model(examples[0])
            self.accuracies.append((scores.detach().argmax(1) == examples[1]).float().mean().item())
            return F.cross_entropy(scores, examples[1])

        def evaluate(model: nn.Module) -> float:
            scores = model(known.test)
            found = F.cross_entropy(scores, known.test_labels).item()
            self.tested.append((found, (scores.argmax(1) == known.test_labels).float().mean().item()))
            return found

        self.workload = task.replace(loss=loss, evaluate=evaluate, metric="cross-entropy")


class Run:
    """One training, which takes an epoch at a time, so that several take turns."""

    def __init__(self, method: Method, rate: float, seed: int, epochs: int = EPOCHS):
        self.recorded = Recorded(workload())
        steps = epochs * self.recorded.per_epoch
        point = {**method.settings, "lr": rate}
        self.training = Training(
            self.recorded.workload, seed, lambda model: build(Recipe(method.optimizer), point, model, steps)
        )
        self.losses: list[float] = []
        self.seconds = [0.0]
        self.training.evaluate()

    def epoch(self) -> None:
        first = self.training.done + 1
        self.losses += [self.training.advance(step) for step in range(first, first + self.recorded.per_epoch)]
        self.seconds.append(self.training.clock.seconds[TRAINING])
        self.training.evaluate()

    def curves(self) -> Curves:
        tested = np.array(self.recorded.tested)
        accuracies = np.array(self.recorded.accuracies)
        return Curves(np.array(self.losses), accuracies, tested[:, 0], tested[:, 1], np.array(self.seconds))


def trained(wanted: Sequence[tuple[Method, float, int]], epochs: int = EPOCHS) -> list[Curves]:
    """Trainings of (method, rate, seed), in turns by epochs: what else the machine does meets all of them alike."""
    runs = [Run(*one, epochs) for one in wanted]
    for _ in range(epochs):
        for run in runs:
            run.epoch()
    return [run.curves() for run in runs]


def by_method(rates: Mapping[str, float], seeds: range) -> dict[str, list[Curves]]:
    found = iter(trained([(method, rates[method.title], seed) for method in METHODS for seed in seeds]))
    return {method.title: [next(found) for _ in seeds] for method in METHODS}


def best_rate(method: Method, seed: int) -> float:
    """The rate with the least test loss after a training with a seed that no curve is drawn of."""
    found = trained([(method, rate, seed) for rate in method.rates])
    ends = {rate: float(run.test_loss[-1]) for rate, run in zip(method.rates, found, strict=True)}
    return min(ends, key=lambda rate: ends[rate] if math.isfinite(ends[rate]) else math.inf)


def exhibit(wishes: Wishes) -> Exhibit:
    known = images(STAND_IN)
    seeds = range(wishes.seed, wishes.seed + SEEDS)
    rates = {method.title: best_rate(method, wishes.seed + 1000) for method in METHODS}
    tuned = by_method(rates, seeds)
    shared = by_method({method.title: SHARED_RATE for method in METHODS}, seeds)
    parameters = sum(weight.numel() for weight in workload().new_model(0).parameters())
    figures = [
        six_panels("fashion_training", f"MLP with {parameters:,} parameters on {known.name}, each method at its rate",
                   {f"{title}, lr {rates[title]:g}": runs for title, runs in tuned.items()}),
        six_panels("fashion_training_shared", f"The same with one rate for all, lr {SHARED_RATE:g}", shared),
    ]  # fmt: skip
    numbers = {
        "parameters": parameters,
        "data": known.name,
        "rates": rates,
        "tuned": {title: ends(runs) for title, runs in tuned.items()},
        "shared": {title: ends(runs) for title, runs in shared.items()},
    }
    return Exhibit(figures, caption(numbers, is_real(known)), numbers, f"trained here on {source(known)}")


def ends(runs: Sequence[Curves]) -> dict[str, float]:
    """Mean over seeds after the last epoch, and the range of the accuracy."""
    accuracies = [float(run.test_accuracy[-1]) for run in runs]
    return {
        "test_loss": float(np.mean([run.test_loss[-1] for run in runs])),
        "test_accuracy": float(np.mean(accuracies)),
        "low": min(accuracies),
        "high": max(accuracies),
        "seconds": float(np.mean([run.seconds[-1] for run in runs])),
    }


def caption(numbers: dict[str, Any], real: bool) -> str:
    def listed(found: dict[str, dict[str, float]]) -> str:
        order = sorted(found, key=lambda title: -found[title]["test_accuracy"])
        return ", ".join(f"{title} {100 * found[title]['test_accuracy']:.1f} %" for title in order)

    def lost(title: str) -> float:
        return 100 * (numbers["tuned"][title]["test_accuracy"] - numbers["shared"][title]["test_accuracy"])

    text = (
        f"{numbers['parameters']:,} parameters (784-100-10, ELU), batches of {BATCH:,}, {EPOCHS} epochs, mean and "
        f"range of {SEEDS} seeds. Test accuracy at the end with the best of three rates each: "
        f"{listed(numbers['tuned'])}. With {SHARED_RATE:g} for all: {listed(numbers['shared'])}; that costs "
        f"Adam {lost('Adam'):.1f} points and SGD {lost('SGD'):.1f}: a comparison at one rate compares how well it "
        "suits each. Pixels are standardised; seconds are those of training alone, on this machine."
    )
    return text if real else f"{text} {GENERATED}"


# ------------------------------------------------------------------ six panels


def six_panels(name: str, title: str, runs: dict[str, list[Curves]]) -> Panels:
    any_run = next(iter(runs.values()))[0]
    iterations, epochs = len(any_run.loss), len(any_run.test_loss) - 1
    longest = max(float(np.mean([run.seconds[-1] for run in found])) for found in runs.values())
    smooth = np.arange(SMOOTH / 2, iterations, SMOOTH)[: iterations // SMOOTH]
    charts = [
        _chart("training loss", "iteration", iterations, runs, "loss", smooth),
        _chart("training accuracy", "iteration", iterations, runs, "accuracy", smooth),
        _chart("test loss", "epoch", epochs, runs, "test_loss", np.arange(epochs + 1)),
        _chart("test accuracy", "epoch", epochs, runs, "test_accuracy", np.arange(epochs + 1)),
        _chart("test loss", "seconds of training", longest, runs, "test_loss", None),
        _chart("test accuracy", "seconds of training", longest, runs, "test_accuracy", None),
    ]
    order = (0, 2, 4, 1, 3, 5)
    return Panels(name, title, [charts[at] for at in order], 3, caption=f"mean and range of {SEEDS} seeds")


def _chart(
    title: str, label: str, end: float, runs: dict[str, list[Curves]], field: str, places: np.ndarray | None
) -> Chart:
    """One panel; without places the horizontal axis is each method's own seconds."""
    series = []
    for name, found in runs.items():
        values = np.stack([_smoothed(getattr(run, field), field) for run in found])
        x = np.mean([run.seconds for run in found], axis=0) if places is None else places
        series.append(Series(name, x.tolist(), values.mean(0).tolist(), values.min(0).tolist(), values.max(0).tolist()))
    edges = [value for one in series for edge in (one.low, one.high) for value in (edge or ())[1:]]
    settled = [value for value in edges if math.isfinite(value)]
    low, high = min(settled), max(settled)
    room = 0.05 * (high - low) or 0.01
    top = min(high + room, 2.4) if "loss" in field else high + room
    return Chart(
        f"{field}_{label}", f"{title} / {label.split()[0]}", Axis(label, 0.0, end), Axis(title, low - room, top), series
    )


def _smoothed(values: np.ndarray, field: str) -> np.ndarray:
    """Curves of mini-batches as means of some iterations; others as they are."""
    if field not in ("loss", "accuracy"):
        return values
    whole = len(values) // SMOOTH * SMOOTH
    found: np.ndarray = values[:whole].reshape(-1, SMOOTH).mean(axis=1)
    return found
