"""Trajectories on the Rosenbrock function, as the lecture draws them: one learning rate for all."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from fallline.catalogue import info
from fallline.document.figures import Axis, Chart, Landscape, Series
from fallline.gallery.exhibit import Exhibit, NoExhibit, Wishes
from fallline.gallery.stepping import Recipe
from fallline.training.optimizer_factory import build
from fallline.training.training import Training
from fallline.workloads.rosenbrock import workload

LECTURE = ("fromage", "adamw", "nag_gs", "lion")
LR = 0.003
OPTIMUM = (1.0, 1.0)
X, Y = (-1.9, 1.9), (-0.8, 2.9)
GRID = 240
LEVELS = tuple(float(level) for level in np.logspace(-1.5, 3.5, 16))
CLOSE = 0.01
"""A distance to the optimum that counts as having arrived."""


def exhibit(wishes: Wishes) -> Exhibit:
    names = wishes.optimizers or LECTURE
    lr = LR if wishes.lr is None else wishes.lr
    steps = workload().max_steps
    paths = {name: trajectory(name, lr, steps, wishes.seed) for name in names}
    ends = {name: how_it_ended(path) for name, path in paths.items()}
    order = sorted(names, key=lambda name: ends[name].distance)
    titles = {name: f"{info(name).class_name}\n{ends[name].distance:.2g} away at the end" for name in names}
    valley = Landscape(
        name="rosenbrock",
        title=f"f(x, y) = (1 − x)² + 100 (y − x²)², learning rate {lr:g}, {steps:,} steps",
        x=Axis("x", *X),
        y=Axis("y", *Y),
        columns=np.linspace(*X, GRID).tolist(),
        rows=np.linspace(*Y, GRID).tolist(),
        heights=_heights(),
        levels=LEVELS,
        paths=[Series(titles[name], paths[name][:, 0].tolist(), paths[name][:, 1].tolist()) for name in order],
        optimum=OPTIMUM,
        caption="contours of f on a logarithmic scale; a dot marks where each one is at the end",
    )
    numbers = {"lr": lr, "steps": steps, "ends": {name: dataclasses.asdict(end) for name, end in ends.items()}}
    source = "computed here: the workload rosenbrock, every optimizer at its defaults but for the rate"
    return Exhibit([valley, distances(paths, order, steps)], caption(ends, order, lr, steps), numbers, source)


def distances(paths: Mapping[str, np.ndarray], order: Sequence[str], steps: int) -> Chart:
    """How far each one is from the optimum, by steps: paths in a valley hide how fast they were walked."""
    found = {name: np.hypot(*(paths[name] - OPTIMUM).T) for name in order}
    least = min(float(np.maximum(path, 1e-4).min()) for path in found.values())
    return Chart(
        "rosenbrock_distance", "Distance to the optimum", Axis("steps", 0, steps),
        Axis("distance", 0.7 * least, 5.0, log=True),
        [Series(info(name).class_name, list(range(len(path))), path.tolist()) for name, path in found.items()],
        direct=True,
    )  # fmt: skip


def trajectory(name: str, lr: float, steps: int, seed: int) -> np.ndarray:
    """The start and the point after every step, up to the last one that is finite."""
    try:
        training = Training(workload(), seed, lambda model: build(Recipe(name), {"lr": lr}, model, steps))
        at = next(training.model.parameters())
        seen = [_place(at)]
        for step in range(1, steps + 1):
            training.advance(step)
            if not np.isfinite(_place(at)).all():
                break
            seen.append(_place(at))
    except ValueError as error:
        raise NoExhibit(f"{name} cannot be drawn at lr {lr:g}: {error}") from error
    return np.array(seen)


def _place(at: torch.Tensor) -> np.ndarray:
    found: np.ndarray = at.detach().double().numpy().copy()
    return found


@dataclasses.dataclass(frozen=True)
class End:
    """Where a path ended, and the first step at which it was close to the optimum."""

    x: float
    y: float
    f: float
    distance: float
    steps: int
    close_at: int | None


def how_it_ended(path: np.ndarray) -> End:
    distances = np.hypot(*(path - OPTIMUM).T)
    near = np.flatnonzero(distances < CLOSE)
    x, y = map(float, path[-1])
    height = (1 - x) ** 2 + 100 * (y - x * x) ** 2
    return End(x, y, height, float(distances[-1]), len(path) - 1, int(near[0]) if len(near) else None)


def caption(ends: Mapping[str, End], order: Sequence[str], lr: float, steps: int) -> str:
    parts = []
    for name in order:
        end, title = ends[name], info(name).class_name
        if end.steps != steps:
            parts.append(f"{title} diverges at step {end.steps + 1:,}")
            continue
        near = "" if end.close_at is None else f", and is first within {CLOSE} of it at step {end.close_at:,}"
        parts.append(f"{title} ends {end.distance:.2g} from the optimum{near}")
    return (
        f"All start at the same point and take {steps:,} steps at a learning rate of {lr:g}. {'; '.join(parts)}. "
        "One rate for all is the lecture's choice: it says how the methods move, not which of them is better."
    )


def _heights() -> list[list[float]]:
    x, y = np.meshgrid(np.linspace(*X, GRID), np.linspace(*Y, GRID))
    heights: list[list[float]] = np.maximum((1 - x) ** 2 + 100 * (y - x * x) ** 2, math.ulp(1.0)).tolist()
    return heights
