"""The time that checkpointing costs, beside the operations that it adds: ``python -m benchmarks.memory.checkpointing``.

Both trainings are in one process and take steps in turns. CPU time of one thread is compared, so that other programs on
the machine count little.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from benchmarks.memory.cases import MODELS, spec_of
from fallline.footprint.prediction import Predictor
from fallline.footprint.setting import Setting
from fallline.footprint.trace import TraineeTask, prepare
from fallline.footprint.trainees import Unbuildable, trainee


def main() -> None:
    from benchmarks.memory import __main__ as store
    from benchmarks.memory import page

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    for model in chosen.models:
        try:
            found = timed(model, chosen.rounds)
        except Unbuildable as error:
            print(error)
            continue
        stored = store.read()
        stored[f"{model} time"] = found
        store.write(stored)
        print(model, {name: round(value, 4) for name, value in found.items()}, flush=True)
    page.write_tables(store.read(), ["recomputation"])


def timed(model: str, rounds: int) -> dict[str, float]:
    """CPU seconds of a forward and backward pass; the ratio is the median over pairs of neighbours."""
    predictor = Predictor(trainee(spec_of(model)))
    traced = {again: predictor.predict(Setting("adamw", checkpointing=again)) for again in (False, True)}
    passes = {again: _pass(model, again) for again in (False, True)}
    for run in passes.values():
        run()
    pairs = [(passes[False](), passes[True]()) for _ in range(rounds)]
    plain, again = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {
        "plain": plain,
        "checkpointed": again,
        "ratio": statistics.median(after / before for before, after in pairs),
        "operations": traced[True].operations / traced[False].operations,
        "per second": traced[False].operations / plain,
    }


def _pass(model: str, again: bool) -> Callable[[], float]:
    asked = trainee(spec_of(model))
    setting = Predictor(asked).completed(Setting("adamw", checkpointing=again))
    assert setting.batch is not None
    net = asked.build()
    prepare(net, setting)
    task = TraineeTask(asked, setting, asked.inputs(setting.batch, setting.sequence))

    def run() -> float:
        net.zero_grad()
        begun = time.thread_time()
        task.loss(net, task.inputs, 0).backward()
        # The backward pass of a CPU runs in the thread that called it.
        return time.thread_time() - begun

    return run


if __name__ == "__main__":
    main()
