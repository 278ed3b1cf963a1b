"""Does every rule with int8 states train as well as with float32?  A small network per rule, five seeds each.

A student of two layers learns a noisy teacher.  Both formats get the same initial weights and the same batches, so
seeds are pairs.  Two one-sided t-tests ask whether the mean relative difference of the final losses is above −1 % and
below +1 %; both must hold at 5 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import fallline
from benchmarks.int8_training import Equivalence, equivalence
from benchmarks.settings import RESULTS
from benchmarks.stored_runs import all_runs
from fallline.training.loop import Loop
from fallline.training.scheduled_optimizer import ScheduledOptimizer

FORMATS = ("float32", "int8")
MARGIN = 0.01
LEARNED = 0.7
"""The largest share of the first loss that may be left in float32: two formats that learn nothing agree too."""

RULES: dict[str, dict[str, Any]] = {
    "adadelta": dict(lr=20.0),
    "adafactor": dict(variant="hf", lr=0.05, relative_step=False, beta1=0.9),
    "adagrad": dict(lr=0.03),
    "adam": dict(lr=3e-3),
    "adamax": dict(lr=5e-3),
    "adamp": dict(lr=3e-3, weight_decay=0.01),
    "adamw": dict(lr=3e-3),
    "adan": dict(lr=5e-3, weight_decay=0.02),
    "ademamix": dict(lr=2e-3, alpha_warmup=300, beta3_warmup=300),
    "adopt": dict(lr=3e-3),
    "amos": dict(lr=0.03, momentum=0.9),
    "amos_algoperf": dict(lr=0.03, betas=(0.9, 0.99)),
    "amsgrad": dict(lr=3e-3),
    "caspr": dict(lr=3e-3, start_preconditioning_step=11, precondition_frequency=10),
    "generalized_adam": dict(lr=3e-3),
    "lamb": dict(lr=0.01),
    "lion": dict(lr=5e-4),
    "mars": dict(lr=3e-3),
    "muon": dict(lr=0.02),
    "nadam": dict(lr=3e-3),
    "nadamp": dict(lr=3e-3),
    "nadamw": dict(lr=3e-3),
    "normuon": dict(lr=0.02),
    "prodigy": dict(d0=1e-3),
    "qhadam": dict(lr=3e-3, nus=(0.7, 1.0)),
    "qhm": dict(lr=0.5, momentum=0.9, nu=0.7),
    "radam": dict(lr=5e-3),
    "rmsprop": dict(lr=1e-3, alpha=0.9, momentum=0.5),
    "schedule_free_adamw": dict(lr=5e-3, warmup_steps=20),
    "schedule_free_prodigy": dict(d0=1e-3, warmup_steps=20),
    "sgd": dict(lr=0.05, momentum=0.9),
    "sgdp": dict(lr=0.05, momentum=0.9),
    "shampoo": dict(lr=3e-3, grafting="adam", betas=(0.9, 0.99), epsilon=1e-8, precondition_frequency=10),
    "soap": dict(lr=3e-3),
    "sophiag": dict(lr=2e-3, bs=128, rho=0.04, weight_decay=0.01),
}
"""A setting with which each learns; amsgrad is a preset with a state more than adam."""


@dataclasses.dataclass(frozen=True)
class Problem:
    steps: int = 300
    batch: int = 128
    inputs: int = 64
    hidden: int = 128
    outputs: int = 64
    noise: float = 0.5


def rules() -> list[str]:
    """Those that have something to store in 8 bits."""
    return [name for name in RULES if "int8" in fallline.info(name).formats]


def train(problem: Problem, name: str, state_dtype: str, seed: int) -> dict[str, float]:
    """The loss on fixed data before and after training."""
    random = torch.Generator().manual_seed(seed)
    teacher = _network(problem, random)
    student = _network(problem, random)
    check = torch.randn(2048, problem.inputs, generator=random)
    wanted = _labels(teacher, check, problem.noise, random)
    optimizer = fallline.create(name, list(student.parameters()), **RULES[name], state_dtype=state_dtype)
    start = _loss(student, check, wanted)
    task = Imitation(problem, teacher, random)
    scheduled = ScheduledOptimizer.around(optimizer)
    loop = Loop(task, student, scheduled)
    while loop.done < problem.steps:
        loop.step()
        if isinstance(optimizer, fallline.SophiaG) and loop.done % 10 == 0:
            seen = student(task.inputs)
            sampled = seen.detach() + torch.randn(seen.shape, generator=random)
            (seen - sampled).square().mean().backward()
            optimizer.update_hessian()
            optimizer.zero_grad()
    scheduled.to_evaluate()
    coded = sum(key.endswith(":int8") for entry in optimizer.state.values() for key in entry)
    return {"start": start, "loss": _loss(student, check, wanted), "coded": float(coded)}


class Imitation:
    """The student learns the teacher's noisy answers to new inputs."""

    def __init__(self, problem: Problem, teacher: nn.Module, random: torch.Generator):
        self.problem, self.teacher, self.random = problem, teacher, random
        self.inputs = torch.empty(0)

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        self.inputs = torch.randn(self.problem.batch, self.problem.inputs, generator=self.random)
        return self.inputs, _labels(self.teacher, self.inputs, self.problem.noise, self.random)

    def loss(self, student: nn.Module, batch: tuple[Tensor, Tensor], step: int) -> Tensor:
        inputs, wanted = batch
        loss: Tensor = (student(inputs) - wanted).square().mean()
        return loss


def _network(problem: Problem, random: torch.Generator) -> nn.Sequential:
    network = nn.Sequential(
        nn.Linear(problem.inputs, problem.hidden), nn.Tanh(), nn.Linear(problem.hidden, problem.outputs)
    )
    for param in network.parameters():
        scale = 1.5 * param.shape[-1] ** -0.5 if param.ndim > 1 else 0.0
        param.data.copy_(torch.randn(param.shape, generator=random) * scale)
    return network


def _labels(teacher: nn.Module, x: Tensor, noise: float, random: torch.Generator) -> Tensor:
    with torch.no_grad():
        y: Tensor = teacher(x)
        return y + noise * torch.randn(y.shape, generator=random)


def _loss(network: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float((network(x) - y).square().mean())


# ---------------------------------------------------------------------------- the job


@dataclasses.dataclass(frozen=True)
class Outcome:
    rule: str
    wide: float
    narrow: float
    learned: bool
    coded: bool
    found: Equivalence

    @property
    def shown(self) -> bool:
        return self.learned and self.coded and self.found.shown

    @property
    def verdict(self) -> str:
        if not self.coded:
            return "nothing was stored in 8 bits"
        if not self.learned:
            return "says nothing: float32 did not learn"
        return f"the same within {MARGIN:.0%}" if self.found.shown else "not shown"


def outcome(rule: str, wide: Sequence[Mapping[str, float]], narrow: Sequence[Mapping[str, float]]) -> Outcome:
    """The outcome of one rule, from its runs seed by seed."""
    differences = [(b["loss"] - a["loss"]) / a["loss"] for a, b in zip(wide, narrow, strict=True)]
    return Outcome(
        rule,
        statistics.fmean(run["loss"] for run in wide),
        statistics.fmean(run["loss"] for run in narrow),
        all(run["loss"] < LEARNED * run["start"] for run in wide),
        all(run["coded"] > 0 for run in narrow),
        equivalence(differences, MARGIN),
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.int8_rules", description=__doc__)
    parser.add_argument("rules", nargs="*", metavar="RULE", help=f"some of them only: {', '.join(RULES)}")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="20 steps, 2 seeds: shows that all works")
    chosen = parser.parse_args()
    if unknown := sorted(set(chosen.rules) - set(RULES)):
        parser.error(f"RULE: there is no {unknown[0]!r}; there are {', '.join(RULES)}")
    if chosen.quick:
        chosen.seeds = 2
    if chosen.seeds < 2:
        parser.error(f"--seeds must be at least 2, got {chosen.seeds}: one difference has no spread")
    problem = Problem(steps=20) if chosen.quick else Problem()
    wanted = [name for name in rules() if not chosen.rules or name in chosen.rules]
    keys = [
        {"rule": rule, "options": RULES[rule], "format": name, "seed": seed, **dataclasses.asdict(problem)}
        for rule in wanted
        for seed in range(chosen.seeds)
        for name in FORMATS
    ]
    torch.set_num_threads(1)  # the network is small
    path = RESULTS / f"int8_rules{'-quick' if chosen.quick else ''}.json"
    results = all_runs(path, keys, lambda key: train(problem, key["rule"], key["format"], key["seed"]))
    each = 2 * chosen.seeds
    outcomes = [
        outcome(rule, results[i * each : (i + 1) * each : 2], results[i * each + 1 : (i + 1) * each : 2])
        for i, rule in enumerate(wanted)
    ]
    show(outcomes, problem, chosen.quick)
    return 0


def show(outcomes: Sequence[Outcome], problem: Problem, quick: bool) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    table = Table(header_style="bold", box=None)
    for heading in ("rule", "float32", "int8", "difference", "90 % interval", "p", ""):
        table.add_column(heading, justify="left" if heading in ("rule", "") else "right")
    for one in outcomes:
        found = one.found
        table.add_row(
            one.rule,
            f"{one.wide:.4f}",
            f"{one.narrow:.4f}",
            f"{found.mean:+.2%}",
            f"{found.low:+.2%} to {found.high:+.2%}",
            f"{found.p_value:.2g}",
            one.verdict,
        )
    console.print(table)
    console.print(sentence(outcomes, problem, quick))


def sentence(outcomes: Sequence[Outcome], problem: Problem, quick: bool = False) -> str:
    if quick:
        return f"A quick run of {problem.steps} steps: the numbers mean nothing."
    missed = [one.rule for one in outcomes if not one.shown]
    text = (
        f"{len(outcomes) - len(missed)} of {len(outcomes)} rules reach the same loss with int8 states, within "
        f"{MARGIN:.0%} after {problem.steps} steps"
    )
    return text + (f"; not shown for {', '.join(missed)}." if missed else ".")


if __name__ == "__main__":
    sys.exit(main())
