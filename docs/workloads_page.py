"""Writes ``docs/workloads.md`` from the workloads and their recorded targets: ``python docs/workloads_page.py``.

``--check`` writes nothing and fails if the page is not current.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from page_writing import write_or_check

from fallline.workloads import ALGOPERF, BUILT_IN, HELD_OUT, Workload, load
from fallline.workloads.targets import records

PAGE = Path(__file__).with_name("workloads.md")
EXAMPLE = Path(__file__).parents[1] / "examples" / "sine.py"

# AlgoPerf v0.5 as the lecture prints it: data set, model, loss, metric, validation target, budget in seconds on 8 V100.
PUBLISHED = {
    "clicks": ("Criteo 1TB", "DLRM-small", "CE", "CE", "0.123735", "7,703"),
    "mri": ("fastMRI", "U-Net", "L1", "SSIM", "0.7344", "8,859"),
    "images_resnet": ("ImageNet", "ResNet-50", "CE", "ER", "0.22569", "63,008"),
    "images_vit": ("ImageNet", "ViT", "CE", "ER", "0.22691", "77,520"),
    "speech_conformer": ("LibriSpeech", "Conformer", "CTC", "WER", "0.085884", "61,068"),
    "speech_deepspeech": ("LibriSpeech", "DeepSpeech", "CTC", "WER", "0.119936", "55,506"),
    "graphs": ("OGBG", "GNN", "CE", "mAP", "0.28098", "18,477"),
    "translation": ("WMT", "Transformer", "CE", "BLEU", "30.8491", "48,151"),
}

INTRODUCTION = """\
# Workloads

Written by `make docs` from the workloads and from `src/fallline/workloads/targets.json`; a test keeps it current.

Every workload runs offline on one thread, with a budget of seconds, not hours. Data is generated from a seed, or
already on the machine (Python's own sources), or Fashion-MNIST where it is installed; every result names the data it
used. `fallline race chars` races on one of them, `fallline race FILE.py` on one of your own.
"""

WITHIN = """\
A target is "lower" or "higher" as its metric demands: cross-entropy, error rate, WER, losses and f must fall, SSIM,
mAP and BLEU must rise. The budget is in training steps, and in seconds of training on one thread of {machine};
evaluations are not counted. "Baseline" is NAdamW, AlgoPerf's baseline, at the best setting that the search for targets
found for it, with linear warm-up over 5 % and a cosine over the whole budget: after how much of it the middle one of
three runs reached the target.

Targets were set in two thirds of the budget, rounded down to an evaluation: the budget is {over_horizon} times that.
It is {over_baseline} times what the baseline needed to the target at that searched setting; whoever needs longer,
compared with the baseline, misses the target.
"""

TARGETS = """\
## How targets are set

By AlgoPerf's procedure in miniature, `python -m benchmarks.set_targets NAME`: four reference methods (AdamW,
NAdamW, SGD with Nesterov's and with heavy-ball momentum), each tried at 10 quasirandom points of its search space in
two thirds of the budget; the best setting of all is repeated with 5 new seeds; the target is the median of the repeats'
best validation values. AlgoPerf has 200 points and 20 repeats, and ends every trial. Here, of a method's ten trials the
three with the lowest training losses go on after 15 % of the way, and the best of these after 40 %.

The command goes on where it was stopped, and `make targets` adds what is missing to all. Its runs are kept in
`benchmarks/target_runs`. `rosenbrock` has a target by choice.

A baseline is to reach its target in about ten seconds, 5 to 20. `quadratic_deep`, 0.35 s, is left below: DeepOBS's
problem has a hundred numbers and 700 steps, and only as it is can it be held against published results. Ten times the
steps gave 2.1 s, these with batches of 4 instead of 128 3.7 s, a thousand numbers 4.7 s, each with a target searched
anew. Where Fashion-MNIST is not installed, `fashion_mlp` has images of its own, because its network learns
the usual 10,000 by heart and is at its best after 1.9 s. They were chosen so that the baseline needs its 5 to 20 s:
19 settings were looked at in one run each of two or three methods, and four of them went through the search. In the
other three (60,000 images of the usual kind, 12 shapes to a class with less noise, 30 shapes moved less) momentum set a
target, an error rate of 0.092, 0.2155 and 0.1075, that NAdamW, which learns by heart sooner, did not reach; their runs
are not kept. The images chosen are hard: more than half are taken for another class.
"""

OWN = """\
## A workload of your own

One Python file with one function. This is the smallest, `examples/sine.py`:

```python
{example}```

`fallline race examples/sine.py` races on it; `FILE.py:name` takes another function. Without `target=` the baseline's
result is the target. The four functions:

- `model(seed)` makes a new model. torch's generator is seeded before.
- `batch(step, seed)` is a function of the two: no iterator that remembers where it was. `minibatch` gives the rows of
  a data set, in a new order each epoch. So a run can go on at any step, and goes on exactly.
- `loss(model, batch)` returns the loss to differentiate. torch's generator is seeded by (seed, step) before, so that
  dropout repeats.
- `evaluate(model)` returns one number, of data that training does not see; the model is in eval mode.

### A DataLoader, or a training loop of your own

In place of `batch`, a workload may give one of these:

- `batches=`: a `DataLoader`, a list or another iterable that can be begun again, or a function `seed → iterable`
  (`examples/dataloader.py`). It is begun again where it ends.
- `train=`: a function `train(model, optimizer, steps, seed)` that takes the steps of the range `steps` itself, calling
  `optimizer.step()` once for each (`examples/own_loop.py`). It is called once between two evaluations; the rate is set
  before every step. `loss` is then left out.

With either, a trial repeats as exactly as the iterable or the function does. torch's generators are seeded by (seed,
step) before every batch, and by (seed, first step) before every call of `train`, so that a shuffling `DataLoader`
has an order of its own for every seed; numpy's and Python's generators are not seeded. A trial that was interrupted
goes on from its checkpoint, but an iterable can only be read from its start: it is read again up to there, off the
clock, and a notice says so. With `train`, data that the function reads by itself begins anew.

Sentences of your own can be translated without more than this, one pair per line with a tab between:

```python
from fallline.workloads.translation import from_pairs


def workload():
    return from_pairs("pairs.tsv")
```

## Real data

`fallline data fashion-mnist` finds Fashion-MNIST (Debian's package `dataset-fashion-mnist`, or an earlier download),
checks sizes and checksums, and downloads it from its authors where it is missing. `FALLLINE_REAL_DATA=0` makes
workloads use generated data even where it is there, for races that are to be compared between machines.

## A published oracle

`quadratic_deep` is DeepOBS's noisy quadratic. `python -m benchmarks.deepobs` trains it with our SGD, momentum
and Adam at the published tuned settings, ten seeds each, and tests the final losses against the published ones.
"""


def page() -> str:
    known = {name: load(name) for name in BUILT_IN}
    machines = sorted({record["machine"] for by_data in records().values() for record in by_data.values()})
    rest = [name for name in BUILT_IN if name not in ALGOPERF and name not in HELD_OUT]
    parts = [
        INTRODUCTION,
        WITHIN.format(machine=" or ".join(machines), **budgets()),
        "## AlgoPerf's eight in miniature\n",
        table([row for name in ALGOPERF for row in rows(known[name])]),
        "AlgoPerf's own, on 8 V100 (v0.5, as printed; ER is the error rate; its logs score fastMRI at 0.723653):\n",
        published(),
        "## Held-out variants\n",
        "Each changes one thing of its base, as the six that AlgoPerf drew: "
        + "; ".join(f"`{name}`: {_what_changes(name)}" for name in HELD_OUT)
        + ".\n",
        table([row for name in HELD_OUT for row in rows(known[name])]),
        "## Others\n",
        table([row for name in rest for row in rows(known[name])]),
        TARGETS,
        settings(),
        OWN.format(example=EXAMPLE.read_text(encoding="utf-8")),
    ]
    return "\n".join(parts).rstrip() + "\n"


def budgets() -> dict[str, str]:
    """Budgets over the steps in which targets were set, and over what the baseline needed, as ranges."""
    known = [record for by_data in records().values() for record in by_data.values()]
    reached = [(record, (record.get("baseline") or {}).get("steps_to_target")) for record in known]
    return {
        "over_horizon": _range([record["max_steps"] / record["horizon"] for record in known]),
        "over_baseline": _range([record["max_steps"] / steps for record, steps in reached if steps]),
    }


def _range(ratios: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{end(ratios):.2f}" for end in (min, max))
    return " to ".join(ends)


HEAD = ("workload", "task", "data", "model", "loss", "metric", "target", "budget", "baseline")


def table(body: Sequence[tuple[str, ...]], head: tuple[str, ...] = HEAD) -> str:
    lines = [head, ("---",) * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def rows(workload: Workload) -> list[tuple[str, ...]]:
    """One for each kind of data that a target was set on."""
    about = workload.about
    known = records().get(workload.name) or {workload.data_name: {"target": workload.target}}
    return [
        (
            f"`{workload.name}`",
            about.task,
            data,
            about.model,
            about.loss,
            f"{workload.metric}, {workload.direction}",
            f"{record['target']:.5g}",
            f"{workload.max_steps} steps" + (f", {_seconds(record['max_seconds'])}" if "max_seconds" in record else ""),
            _baseline(record),
        )
        for data, record in sorted(known.items())
    ]


def _baseline(record: dict[str, Any]) -> str:
    if not record.get("baseline"):
        return "not run"
    steps = record["baseline"]["steps_to_target"]
    if steps is None:
        return "not reached"
    return f"{steps} steps, {_seconds(steps * record['step_ms'] / 1e3)}"


def _seconds(value: float) -> str:
    return f"{value:.2g} s" if value < 1 else f"{value:.3g} s" if value < 10 else f"{value:.0f} s"


def published() -> str:
    head = ("ours", "data", "model", "loss", "metric", "target", "budget, s")
    return table([(f"`{name}`", *cells) for name, cells in PUBLISHED.items()], head)


def _what_changes(name: str) -> str:
    import importlib

    module, _, function = BUILT_IN[name].partition(":")
    text = getattr(importlib.import_module(f"fallline.workloads.{module}"), function).__doc__
    return str(text).removeprefix("Held out: ").rstrip(".")


def settings() -> str:
    head = ("workload", "data", "trials × methods", "repeats", "best", "its setting", "set on")
    body = []
    for name in BUILT_IN:
        for data, record in sorted(records().get(name, {}).items()):
            setting = ", ".join(f"{key} {value:g}" for key, value in record["best_setting"].items())
            tried, repeats = f"{record['trials_per_method']} × 4", str(len(record["repeats"]))
            body.append((f"`{name}`", data, tried, repeats, record["best_method"], setting, record["date"]))
    return table(body, head)


if __name__ == "__main__":
    write_or_check(PAGE, page, __doc__, "make docs")
