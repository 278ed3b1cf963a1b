"""``make profile-checks``: what a profile may cost and how often its verdicts are wrong, where it takes long.

simulated: tables of equal arms, with correlated rounds, in which any arm is called different, and planted 3 % that are
found.  twins: the same with real trainings of the 3 M-parameter GPT, the same arm twice and one that costs 3 % more.
memory: differences of peaks against those of states, beside the bytes that the C library has in use, which is told
nothing of either.  overhead: a profile's step against a loop written by hand, in turns, and phases against whole steps.
first rows: the time from the start of a preset until its first row is printed.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import fallline
from benchmarks import kept_checks
from benchmarks.simulated_profiles import simulated
from fallline.measure.memory import trim_malloc
from fallline.measure.student import mean_interval
from fallline.profile.arms import arm_of, arms_of
from fallline.profile.cell import Limits, Telling, measure
from fallline.profile.estimate import estimate
from fallline.profile.first_look import look_at
from fallline.profile.plan import Plan
from fallline.profile.published import PRESETS
from fallline.profile.results import Results
from fallline.profile.trained import WHOLE as WHOLE_STEP
from fallline.profile.trained import TrainedArm
from fallline.training.phases import STEP_PHASES
from fallline.workloads import Workload, load

PATH = Path(__file__).with_suffix(".json")
"""Kept with the sources: docs/profile.md gives its numbers."""
SLOW = Path(__file__).parent / "workers" / "slow_adamw.py"
STEP, WHOLE = 0.003, 0.064
PLANTED = 0.03


def simulated_tables(tables: int = 1000, arms: int = 7) -> dict[str, Any]:
    """Tables of a baseline and so many equal arms, and tables with one arm that costs 3 % of a step more."""
    wrong = found = 0
    for seed in range(tables):
        equal = {"adamw": STEP, **{f"twin {k}": STEP for k in range(arms)}}
        deltas = [arm.delta for arm in estimate(simulated(equal, seed=seed)).arms.values() if arm.delta is not None]
        wrong += any(not delta.holds(0.0) for delta in deltas)
        if seed < tables // 4:
            planted = simulated({**equal, "slow": STEP + PLANTED * WHOLE}, seed=tables + seed)
            delta = estimate(planted).arms["slow"].delta
            found += delta is not None and delta.high < 0
    share, power = wrong / tables, found / (tables // 4)
    return {"ok": share <= 0.026 and power >= 0.95, "tables": tables, "arms": arms, "wrong": share, "found": power}


def twins(runs: int = 40) -> dict[str, Any]:
    """Real trainings on one thread; each run has seeds of its own, is stored when it ends, and is not taken again."""
    torch.set_num_threads(1)
    spec = "gpt-tiny@batch=1,sequence=64"
    before = _stored().get("twins", {})
    earlier: Mapping[str, int] = before.get("earlier", {name: 0 for name in COUNTED})
    outcomes: list[dict[str, Any]] = list(before.get("outcomes", ()))
    extra = float(before.get("planted seconds") or PLANTED * _step_seconds(spec))
    os.environ["FALLLINE_BENCH_EXTRA_SECONDS"] = str(extra)
    while (number := earlier["runs"] + len(outcomes)) < runs:
        arms = arms_of([f"adamw,twin=adamw,slow={SLOW}:SlowAdamW[{_settings()}]"])
        plan = Plan(spec, tuple(arms), "adamw", threads=1, repeats=2, seed=1000 * number)
        with tempfile.TemporaryDirectory() as folder, Results(Path(folder) / "p.sqlite") as results:
            results.begin([plan], ["profile_checks"])
            measure(plan, results, Limits(steps=30), Telling())
            cell = estimate(results.load(plan))
        twin, slow = (cell.arms[name].delta for name in ("twin", "slow"))
        assert twin is not None and slow is not None
        found = {"twin": [twin.value, twin.low, twin.high], "slow": [slow.value, slow.low, slow.high]}
        outcomes.append({**found, "clock": cell.clock, "load": os.getloadavg()[0]})
        kept_checks.store(PATH, "twins", _of_twins(outcomes, earlier, extra))
        print(f"{number + 1}/{runs}: twin {twin}, slow {slow}, clock {cell.clock}", flush=True)
    return _of_twins(outcomes, earlier, extra)


COUNTED = ("runs", "called different", "planted found")


def _of_twins(outcomes: Sequence[Mapping[str, Any]], earlier: Mapping[str, int], extra: float) -> dict[str, Any]:
    """``earlier``: the counts of runs of which no more than these was kept."""
    runs, wrong, found = (earlier[name] for name in COUNTED)
    runs += len(outcomes)
    wrong += sum(not low <= 0.0 <= high for _, low, high in (one["twin"] for one in outcomes))
    found += sum(high < 0 for _, _, high in (one["slow"] for one in outcomes))
    return {
        # 98 % of what 2 % wrong tables would show: 3 of 40 or fewer.
        "ok": wrong <= 3 and found >= 0.95 * runs,
        "runs": runs,
        "called different": wrong,
        "planted found": found,
        "planted seconds": extra,
        "spread of twins": statistics.pstdev([one["twin"][0] for one in outcomes]),
        "load": [min(one["load"] for one in outcomes), max(one["load"] for one in outcomes)],
        "earlier": dict(earlier),
        "outcomes": list(outcomes),
    }


def _stored() -> dict[str, Any]:
    return json.loads(PATH.read_text()) if PATH.exists() else {}


def _settings() -> str:
    return ",".join(f"{name}={value}" for name, value in arm_of("adamw").settings.items())


def _step_seconds(spec: str) -> float:
    """Processor seconds of a step."""
    trained = TrainedArm(Plan(spec, (arm_of("adamw"),), "adamw"), arm_of("adamw"), load(spec), 0, 100, False)
    costs = [trained.step()[1] for _ in range(12)][4:]
    return statistics.median(sum(v for k, v in cost.items() if k.startswith("cpu.")) for cost in costs)


# ------------------------------------------------------------------ memory


MALLINFO = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
"""The fields of glibc's struct mallinfo2, in their order."""


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO]


def in_use() -> int:
    """The bytes that the C library has given out and not had back."""
    function = ctypes.CDLL(None).mallinfo2
    function.restype = _Mallinfo
    found = function()
    return int(found.uordblks + found.hblkhd)


def memory() -> dict[str, Any]:
    """Differences to AdamW of peaks, of states, and of the C library's bytes."""
    torch.set_num_threads(1)
    spec = "gpt-tiny@batch=2,sequence=64"
    workload = load(spec)
    arms = arms_of(["adamw,adamw8bit,lion,lion8bit,qhm,adafactor,adan,fusedadam"])
    plan = Plan(spec, tuple(arms), "adamw")
    looked = {arm.label: look_at(plan, arm.label, workload, 100) for arm in arms}
    _held_by(plan, "adamw", workload)  # throwaway: caches and pools are filled once
    library = {arm.label: _held_by(plan, arm.label, workload) for arm in arms}
    rows: dict[str, dict[str, float]] = {}
    for label in plan.labels[1:]:
        states, peak = (looked[label][fact] - looked["adamw"][fact] for fact in ("state_bytes", "peak_bytes"))
        rows[label] = {"states": states, "peak": peak, "C library": library[label] - library["adamw"]}
    # Kernels that reduce keep partial sums outside tensors: the library sees these, no more than a megabyte.
    close = [
        abs(row[name] - row["states"]) <= max(0.02 * abs(row["states"]), scratch)
        for row in rows.values()
        for name, scratch in (("peak", 0.0), ("C library", 1e6))
    ]
    modelled = all(
        facts["modelled_state_bytes"] in (None, facts["state_bytes"]) and facts["peak_bytes"]
        for facts in looked.values()
    )
    return {"ok": all(close) and modelled, "states as modelled": modelled, "differences to adamw": rows}


def _held_by(plan: Plan, label: str, workload: Any) -> int:
    gc.collect()
    trim_malloc()
    before = in_use()
    trained = TrainedArm(plan, plan.arm(label), workload, 0, 100, False)
    for _ in range(3):
        trained.step()
    trained.training.loop.batch = None  # type: ignore[union-attr]
    gc.collect()
    return in_use() - before


# ------------------------------------------------------------------ overhead


def overhead(blocks: int = 8, rounds: int = 12) -> dict[str, Any]:
    """Processor seconds of a profile's step over those of a loop by hand, both on the same batches, in turns.

    Where memory lies favours one or the other, so both are made anew for every block, in turns as to who is first.
    """
    torch.set_num_threads(1)
    spec = "gpt-tiny@batch=4,sequence=64"
    workload, arm = load(spec), arm_of("adamw")
    plan = Plan(spec, (arm,), "adamw")
    logs, gaps = [], []
    for block in range(blocks):
        makers: dict[str, Callable[[], Callable[[], Any]]] = {
            "profile": lambda block=block: TrainedArm(plan, arm, workload, block, 1000, False).step,  # type: ignore[misc]
            "hand": lambda block=block: _by_hand(workload, block),  # type: ignore[misc]
        }
        ways = {name: makers[name]() for name in (list(makers), list(makers)[::-1])[block % 2]}
        ratios = []
        for number in range(rounds + 2):
            seconds = {}
            for name in random.sample(list(ways), 2):
                start = time.thread_time()
                result = ways[name]()
                seconds[name] = time.thread_time() - start
                if name == "profile" and number >= 2:
                    phases = sum(result[1].get(phase, 0.0) for phase in STEP_PHASES)
                    gaps.append(phases / result[1][WHOLE_STEP] - 1)
            if number >= 2:
                ratios.append(seconds["profile"] / seconds["hand"] - 1)
        logs.append(statistics.median(ratios))
    found, gap = mean_interval(logs, 0.05), statistics.median(gaps)
    return {
        "ok": found.low <= 0.01 and abs(gap) <= 0.03,
        "overhead": found.value,
        "interval": [found.low, found.high],
        "phases over whole steps, less one": gap,
    }


def _by_hand(workload: Workload, seed: int) -> Callable[[], Any]:
    """A training loop as anybody writes it."""
    torch.manual_seed(0)
    model = workload.model(seed).train()
    optimizer = fallline.create("adamw", model, lr=1e-4)
    batch, loss, steps = workload.batch, workload.loss, itertools.count()
    assert batch is not None and loss is not None

    def step() -> None:
        loss(model, batch(next(steps), seed)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


# ------------------------------------------------------------------ first rows

FIRST_ROW = 20.0
"""Seconds from the start of the command, imports included."""


def first_rows() -> dict[str, Any]:
    """Seconds from the start of each preset's command until its first row is printed; the command is then ended."""
    seconds = {}
    for preset in PRESETS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "fallline", "profile", "--preset", preset, "--out", f"{folder}/p.sqlite"]
            start = time.perf_counter()
            process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
            assert process.stderr is not None
            for line in process.stderr:
                if " a step, " in line:
                    seconds[preset] = time.perf_counter() - start
                    break
            process.kill()
            process.communicate()
    ok = len(seconds) == len(PRESETS) and max(seconds.values()) <= FIRST_ROW
    return {"ok": ok, "seconds": seconds}


CHECKS: dict[str, Callable[[], dict[str, Any]]] = {
    "simulated": simulated_tables,
    "memory": memory,
    "overhead": overhead,
    "first rows": first_rows,
    "twins": twins,
}


if __name__ == "__main__":
    raise SystemExit(kept_checks.run("benchmarks.profile_checks", __doc__, CHECKS, PATH))
