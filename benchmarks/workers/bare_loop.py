"""Steps as trials take them, and as a loop written by hand does, in turns in one process on one processor.

python -m benchmarks.workers.bare_loop WORKLOAD ROUNDS

Both train the same contestant on the same batches; the loop seeds nothing and checks nothing.  It stays written by hand
because it measures the trainer: it must not use it.  In processes of their
own, or a whole run after the other, they differ by several times what is asked: by the memory that each got, and by
what else the machine does.  So they take turns, and in every round both have a model in new memory.
"""

import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator

import torch

import fallline
from fallline.race.contestants import named
from fallline.race.engine.worker import pin
from fallline.training.optimizer_factory import build
from fallline.training.training import Training
from fallline.workloads import load

TURNS = 30
"""Turns of each way in a round; the first few warm it up."""
WARM_UP = 4
STEPS = 5
"""Steps in a turn."""

workload, rounds = load(sys.argv[1]), int(sys.argv[2])
contestant = named("adamw")
(point,) = contestant.trial_points(trials=1, study=0, seed=0, tuned=False)
total = TURNS * STEPS
turns = range(0, total, STEPS)


def by_hand() -> Iterator[None]:
    torch.manual_seed(0)
    model = workload.model(0).train()
    peak, warmup = point["lr"], int(point["warmup_factor"] * total)
    betas = (1 - point["one_minus_beta1"], 1 - point["one_minus_beta2"])
    optimizer = fallline.create("adamw", model, lr=peak, betas=betas, weight_decay=point["weight_decay"])
    batch, loss = workload.batch, workload.loss
    assert batch is not None and loss is not None
    yield
    for start in turns:
        for step in range(start, start + STEPS):
            rising, falling = step / warmup, (step - warmup) / (total - warmup)
            rate = peak * (rising if rising < 1 else 0.5 + 0.5 * math.cos(math.pi * falling))
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            loss(model, batch(step, 0)).backward()
            optimizer.step()
        yield


def in_a_trial() -> Iterator[None]:
    training = Training(workload, 0, lambda model: build(contestant, point, model, total))
    yield
    for start in turns:
        training.advance(start + STEPS)
        yield


def seconds(of: Iterator[None]) -> float:
    begin = time.perf_counter()
    next(of)
    return time.perf_counter() - begin


pin(0)
ways: dict[str, Callable[[], Iterator[None]]] = {"by hand": by_hand, "in a trial": in_a_trial}
steps: dict[str, list[float]] = {name: [] for name in ways}
making: dict[str, list[float]] = {name: [] for name in ways}
order = random.Random(0)
for _ in range(rounds):
    running = {name: ways[name]() for name in order.sample(list(ways), len(ways))}
    for name, way in running.items():
        making[name].append(seconds(way))
    for turn in range(TURNS):
        for name in order.sample(list(ways), len(ways)):
            taken = seconds(running[name]) / STEPS
            if turn >= WARM_UP:
                steps[name].append(taken)
print(json.dumps({"steps": steps, "making": making["by hand"][1:]}))
