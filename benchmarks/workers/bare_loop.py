"""Steps as trials take them, and as a loop written by hand does, in turns in one process on one processor.

python -m benchmarks.workers.bare_loop WORKLOAD TURNS

Both take the same steps on the same batches.  The loop has no schedule, seeds nothing and checks nothing.  In processes
of their own, or a whole run after the other, they differ by several times what is asked: by the memory that each got,
and by what else the machine does.
"""

import json
import random
import sys
import time
from collections.abc import Iterator

import torch

import fallline
from fallline.race.building import build
from fallline.race.contestants import named
from fallline.race.training import advance
from fallline.race.worker import pin
from fallline.workloads import load

STEPS = 5
"""Of a turn."""
WARM_UP = 4

workload, turns = load(sys.argv[1]), int(sys.argv[2])


def by_hand() -> Iterator[None]:
    torch.manual_seed(0)
    model = workload.model(0).train()
    optimizer = fallline.create("adamw", model, lr=1e-3)
    for start in range(0, turns * STEPS, STEPS):
        for step in range(start, start + STEPS):
            optimizer.zero_grad()
            workload.loss(model, workload.batch(step, 0)).backward()
            optimizer.step()
        yield


def in_a_trial() -> Iterator[None]:
    model = workload.new_model(0)
    built = build(named("adamw"), {}, model, turns * STEPS)
    for start in range(0, turns * STEPS, STEPS):
        advance(workload, model, built, 0, start, start + STEPS)
        yield


pin(0)
ways = {"by hand": by_hand(), "in a trial": in_a_trial()}
seconds: dict[str, list[float]] = {name: [] for name in ways}
order = random.Random(0)
for _ in range(turns):
    for name in order.sample(list(ways), len(ways)):
        begin = time.perf_counter()
        next(ways[name])
        seconds[name].append((time.perf_counter() - begin) / STEPS)
print(json.dumps({name: found[WARM_UP:] for name, found in seconds.items()}))
