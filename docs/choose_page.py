"""Writes ``docs/choose.md``, which optimizer to take, from our own races: ``python docs/choose_page.py``.

``--check`` writes nothing and fails if the page is not current.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leaderboard_page import facts, markdown, raced_times
from page_writing import write_or_check

import fallline
from fallline.memory.per_parameter import bytes_of, program_of
from fallline.score.leaderboard import Leaderboard, leaderboard
from fallline.workloads.targets import records

PAGE = Path(__file__).with_name("choose.md")

INTRODUCTION = """\
# Which optimizer for me

Written by `make docs` from the tables of [leaderboard.md](leaderboard.md), from the records behind the
[targets](workloads.md) and from `fallline.info`; a test keeps it current.

No optimizer is the best everywhere, and a published ranking need not hold for your model. So this page says where to
start, how far our own races carry that, what memory decides, and how to settle it for your own model.

## Where to start

An optimizer keeps *states*, such as averages of gradients, for each parameter. The third column has their bytes per
parameter: as usual, in 32 bits, and with `state_dtype="int8"`. For scale, a parameter and its gradient take 8 bytes.

| you have | take | bytes of states, 32 → 8 bits | because |
|---|---|---|---|
"""

STARTS = (
    ("a transformer, or no idea", "adamw", "lr 1e-4 to 1e-3, decay 0.1", "published settings exist for it; {nadamw}"),
    ("no known length of training", "schedule_free_adamw", "a constant rate", "{schedule_free}"),
    ("a convolutional network, and time to tune", "sgd", "momentum 0.9, Nesterov", "{vision}"),
    ("too little memory, a little", "adamw8bit", "settings of AdamW", "2 bytes of states per parameter instead of 8"),
    ("too little memory, by far", "lion8bit", "a third to a tenth of AdamW's lr", "one byte per parameter"),
    ("large hidden matrices", "muon", "lr 0.02, AdamW for the rest", "one state, and steps of whole matrices"),
    ("no time to tune a rate", "prodigy", "lr 1", "it estimates the rate, at the price of two more states"),
    ("very large batches", "lamb", "3 × AdamW's lr", "the step follows the norm of each tensor"),
)
"""Situation, optimizer, setting, reason."""
OPTIONS: Mapping[str, Mapping[str, Any]] = {"sgd": {"momentum": 0.9, "nesterov": True}}
"""Those of a recommended setting on which its bytes depend."""

METHODS = ("adamw", "nadamw", "nesterov", "heavy_ball")

MEMORY = (
    "sgd", "lion", "adamw", "schedule_free_adamw", "adafactor", "adan", "ademamix", "muon", "prodigy",
)  # fmt: skip

HELD_OUT = frozenset(
    ["clicks_embed_init", "mri_tanh", "images_resnet_large_bn_init", "speech_conformer_layernorm", "graphs_model_size",
     "translation_glu_tanh"]
)  # fmt: skip
"""Variants, which say the same once more."""

SETTLE = """\
## Settle it for your model

```sh
fallline race mine.py                     # five optimizers, tuned alike, until one can be taken
fallline race mine.py -o adamw -o lion    # only these
fallline race mine.py --memory-budget 2GB # only those whose states fit
fallline results ask race-mine.sqlite --against adamw   # afterwards: is any better than what I use now?
```

[own_workload.md](own_workload.md) says how to write `mine.py`, [race.md](race.md) what the answer means.
"""


def page() -> str:
    table = raced_times()
    board = leaderboard(table)
    known = records()
    words = {"schedule_free": schedule_free(board), "vision": vision(known), "nadamw": nadamw(known)}
    return "\n".join(
        [
            INTRODUCTION + starts(words),
            "## What our races say\n",
            by_workload(board),
            by_method(known),
            "## When memory decides\n",
            memory(),
            SETTLE.rstrip(),
            "",
        ]
    )


def starts(words: Mapping[str, str]) -> str:
    rows = []
    for situation, name, setting, reason in STARTS:
        info = fallline.info(name)
        link = f"[{info.class_name}](optimizers.md#{info.name})"
        rows.append(f"| {situation} | {link}, {setting} | {_bytes(name)} | {reason.format(**words)} |\n")
    return "".join(rows)


def _bytes(name: str) -> str:
    program = program_of(name, **OPTIONS.get(name, {}))
    wide, narrow = (bytes_of(program, state_dtype=form).states for form in ("float32", "int8"))
    return f"{wide:g}" if wide == narrow else f"{wide:g} → {narrow:.3g}"


def schedule_free(board: Leaderboard) -> str:
    (row,) = [row for row in board.rows if row.contestant == "schedule_free_adamw"]
    place = f"rank {row.rank} of {len(board.rows)}"
    return (
        f"it needs no schedule, and is {place} on [our leaderboard](leaderboard.md), {row.score:.2f} ({row.interval})"
    )


def vision(known: Mapping[str, Any]) -> str:
    """How tuned SGD with Nesterov's momentum did on pictures beside AdamW."""
    methods = known["images_resnet"]["Fashion-MNIST"]["by_method"]
    sgd, adamw = (methods[name]["value"] for name in ("nesterov", "adamw"))
    return (
        f"tuned with 14 points each, it ends at an error rate of {sgd:.3f} on `images_resnet` and AdamW at "
        f"{adamw:.3f}, and it has one state instead of two"
    )


def nadamw(known: Mapping[str, Any]) -> str:
    """How often NAdamW, which takes the same settings, was the best of the reference methods."""
    best = [winner for _, _, values, winner in methods_of(known)]
    link = "[NAdamW](optimizers.md#nadamw)"
    times = f"{best.count('nadamw')} of {len(best)}"
    return f"{link}, which takes the same ones, did best on {times} tasks below: try it next"


def by_workload(board: Leaderboard) -> str:
    about = {fact["name"]: fact for fact in facts()}
    body = []
    for workload in board.workloads:
        order = sorted(board.rows, key=lambda row: row.times[workload])
        first = order[0].times[workload]
        shown = [
            f"`{row.contestant}`" + ("" if row is order[0] else f" +{100 * (row.times[workload] / first - 1):.0f} %")
            for row in order[:3]
        ]
        reached = sum(math.isfinite(row.times[workload]) for row in order)
        body.append((f"`{workload}`", about[workload]["metric"], ", ".join(shown), f"{reached} of {len(order)}"))
    return (
        "Seconds to the target, each tuned with 5 trials a study, medians of 3 studies: the fastest three entries of "
        "AlgoPerf's on each of eight miniatures. Where the gap is some per cent, three studies cannot tell entries "
        f"apart: {board.verdict[0].lower()}{board.verdict[1:]}\n\n"
        + markdown(("workload", "metric", "fastest three", "entries that reach the target"), body)
    )


def by_method(known: Mapping[str, Any]) -> str:
    """The reference methods at their best of the same number of points, where a target was set on the data."""
    body: list[Sequence[str]] = []
    for workload, metric, values, best in methods_of(known):
        cells = [f"**{value:.4g}**" if name == best else f"{value:.4g}" for name, value in values.items()]
        body.append((f"`{workload}`", metric, *cells))
    head = ("workload", "metric", "AdamW", "NAdamW", "SGD, Nesterov", "SGD, heavy ball")
    return (
        "The four reference methods that set targets, each at the best of the same number of points, one run each, at "
        "the end of a short budget: the bold one is the best, and small differences are within what another seed "
        "changes.\n\n" + markdown(head, body)
    )


def methods_of(known: Mapping[str, Any]) -> list[tuple[str, str, dict[str, float], str]]:
    """For each workload, its metric, the value of each reference method, and the best of them."""
    listed = []
    for workload, by_data in known.items():
        for data, record in by_data.items():
            found = record.get("by_method", {})
            if workload in HELD_OUT or "generated shapes" in data or any(name not in found for name in METHODS):
                continue
            values = {name: found[name]["value"] for name in METHODS}
            better = min if record["direction"] == "lower" else max
            metric = f"{record['metric']}, {record['direction']} is better"
            listed.append((workload, metric, values, better(values, key=values.__getitem__)))
    return listed


def memory() -> str:
    body = []
    for name in MEMORY:
        info = fallline.info(name)
        kept, moved = info.bytes_per_parameter, info.bytes_moved
        body.append(
            (
                f"[{info.class_name}](optimizers.md#{info.name})",
                *(f"{kept[form]:.3g}" for form in ("float32", "int8", "int4")),
                *(f"{moved[form]:.3g}" for form in ("float32", "int8")),
            )
        )
    head = ("optimizer", "32 bits", "8 bits", "4 bits", "moved per step, 32", "moved per step, 8")
    return (
        "Bytes of states per float32 parameter of a large matrix, with the defaults of each class: SGD has none "
        "without momentum, and Adafactor's are those of rows and columns. Parameters and gradients are another 8. On "
        "a CPU a step takes as long as its bytes, so the right columns also order the speed of steps.\n\n"
        + markdown(head, body)
    )


if __name__ == "__main__":
    write_or_check(PAGE, page, __doc__, "make docs")
