"""Writes ``docs/ladder.md`` from ``benchmarks/ladder_checks.json``: ``python docs/ladder_page.py``.

``--check`` writes nothing and fails if the page is not current.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from page_writing import write_or_check

PAGE = Path(__file__).with_name("ladder.md")
TRANSCRIPT = Path(__file__).with_name("ladder") / "chars.txt"
CHECKS = Path(__file__).parents[1] / "benchmarks" / "ladder_checks.json"
OURS = "shrunken"
METHODS = {
    "no trend": "no trend: the mean of the rungs",
    "last rung": "the last rung as it is",
    "free lines": "a line for each optimizer",
    OURS: "**shrunken trends**",
}
GROUPS = {
    "marin: longer": "A: longer by one doubling",
    "marin in time: longer": "A, in time: longer by one doubling",
    "epfl: longer": "B: longer by one doubling",
    "epfl with all: longer": "B with all 20: longer by one doubling",
    "marin: too far": "A: farther than a ladder is extended",
    "marin in time: too far": "A, in time: farther than a ladder is extended",
    "epfl: too far": "B: farther than a ladder is extended",
    "marin: larger": "A: another size, same horizon",
    "marin: by size": "A: a ladder of sizes",
}
SHOWN = ("300m 8×", "520m 8×", "520m 4×", "1.2b 8×")

TEXT = """\
# Does it carry over?

Written by `python docs/ladder_page.py` from [benchmarks/ladder_checks.json](../benchmarks/ladder_checks.json); a
test keeps it current.

A race answers for the training that was raced. `--ladder` runs the same race at several sizes and says how each
contestant's advantage over the reference changes from one to the next:

```sh
fallline race mine.py --ladder steps=0.5,1,2        # half, the same and twice as many steps
fallline race mine.py --ladder width=0.5,1,2        # def workload(width: float = 1.0) -> fallline.Workload
fallline results status race-mine-steps.sqlite      # shows it again
```

A *rung* is one of these sizes. `steps` multiplies the budget and the interval between evaluations. Any other axis
is an argument of the workload's function with a number as its default; it gets the size as it is given. `chars`
takes a `width` as a factor, `graphs` as a number of units. A rung is a workload of the race, named `mine×2` or
`mine width=2`, in one results file: interruptions, engines and `--plan` work as in any race, and rungs or studies
may be added later.

**Common draws.** A study has the same first weights, batches and search points on every rung.

**Targets.** Every rung has a target of its own: what the reference reaches there in two thirds of the budget. One
target for all rungs would be out of reach on the short ones and met at once on the long ones. With `--ruleset
budget` the metric at the end of the same time is compared instead.

**Studies.** Every contestant runs on all rungs, {studies} studies by default: nobody leaves early, as its trend
would leave too.

**Clock.** A ladder of steps is raced in steps: a step costs the same on every rung, and measuring it on each would
only add noise. Other axes use the clock of the race.

## What it says

```
$ fallline race chars --ladder steps=0.5,1,2 -o adamw,lion,adan,schedule_free_adamw \\
    --ruleset self --self-factor 1 --studies 3
{transcript}```

![Advantages over AdamW on chars, against the steps](ladder/chars.png)

Three studies on a small model cannot say more. The answer is "ahead" or "behind" where the whole 95 % interval
beyond the ladder is on one side, "even" where it lies within 5 % on both, and "cannot know" otherwise, with the
reason: noise, which more studies would lower, or advantages that change irregularly from rung to rung. A contestant
that misses the target in most studies of the last rung, or on all rungs but one, has no trend; a single miss counts
as the budget.

## How a trend is found

Two or three rungs are few, so contestants borrow from each other (`fallline/race/ladder/trend.py`). All differences
between contestants shrink or grow by one common factor with every doubling; each has a slope of its own, which is
shrunk towards that common trend; beyond that, advantages wander from rung to rung; and means over studies have
noise, which the studies tell. How large these parts are is learnt from all contestants together and averaged over,
because three rungs do not fix them.

A trend is extended by half of the ladder's length, in doublings, and by two doublings at most: `0.5,1,2` says
something of 4×. Two rungs show one change, which may be noise, so they are extended by half a doubling; and no
published table has ladders long enough to check more than two doublings.

## Checked on published tables

A: 11 optimizers at 130 M to 1.2 B parameters and 1 to 16 times Chinchilla's tokens (marin-community, "Fantastic
optimizers"), the best of each setting, one run each. B: validation losses of 20 optimizers at five checkpoints of
one pass (epfml, llm-optimizer-benchmark), without five that are a nat behind. Advantages are over AdamW. Some cells
are given, as rungs; a later one is predicted. τ is Kendall's, between predicted and true order, AdamW included; the
error is the mean over optimizers, in nats, or in doublings of AdamW's time. "In time" divides a difference of
losses by what a doubling of the tokens brings AdamW there, which is closer to what a race compares.

The widths of the priors were chosen on A, by the density that predictions give to later cells. That differences
shrink together with their irregularities was chosen with both tables in view, and B was looked at while widths were
tried: it confirms, but it is not a test that was never seen.

{table}
Intervals of 95 %, and what is answered:

{answers}
These figures have consequences:

- *A line for each optimizer has the lowest τ for a longer training, or nearly so.* Two or three cells do not fix
  it.
- *For a longer training nothing orders optimizers better than the last rung as it is.* Shrunken trends do it about
  as well, name the winner less often on A ({winner} instead of {winner_last}), and err less on the loss: by {saved}
  on A and {saved_b} on B. On A in time, where advantages hardly change, they err as much as the last rung, and more
  than it farther on.
- *So the longest rung counts most.* A ladder does not replace it; it says how sure one may be.
- *Every answer one doubling beyond a ladder of steps was right*: {right} of {answered}. But these are {answered} of
  {predictions} predictions, and where "cannot know" was said a guess would have been right in {guessed} of
  {unanswered}: the answers are cautious. The tables have one run in most cells, so their noise is not known; a race
  knows its own.
- *Intervals* hold {covered} of the true values one doubling ahead instead of 95 %: too few on A in time, too many
  on B.
- *One common factor does not fit everybody*: with the five of B that hardly learn, shrunken trends err more than the
  last rung ({error_all} against {error_last} nats). Leave out of a ladder whoever is far behind.
- *A ladder of steps says nothing certain of another size*: its intervals hold {larger} of the values there. A
  ladder of sizes may be raced instead.

Single targets, from a ladder at 130 M:

{single}
Lines do not fail here as they do beyond the end of a ladder: these goals have the horizon of the last rung, so lines
are read off inside it.

`python -m benchmarks.ladder_checks --tables FOLDER` computes the figures; the tables themselves are not part of the
project.
"""


def page() -> str:
    found = json.loads(CHECKS.read_text(encoding="utf-8"))
    steps = [found[name] for name in ("marin: longer", "epfl: longer")]
    both = {key: sum(row[key] for row in steps) for key in ("predictions", "answered", "answered right")}
    guessed = sum(row["unanswered right"] for row in steps)
    covers = [found[name]["covered"] for name in ("marin: longer", "marin in time: longer", "epfl: longer")]
    return TEXT.format(
        studies=3,
        transcript=TRANSCRIPT.read_text(encoding="utf-8"),
        table=_methods(found),
        answers=_answers(found),
        winner=_winner(found["marin: longer"], OURS),
        winner_last=_winner(found["marin: longer"], "last rung"),
        saved=_saved(found["marin: longer"]),
        saved_b=_saved(found["epfl: longer"]),
        right=both["answered right"],
        answered=both["answered"],
        predictions=both["predictions"],
        guessed=guessed,
        unanswered=both["predictions"] - both["answered"],
        covered=f"{100 * min(covers):.0f} to {100 * max(covers):.0f} %",
        larger=f"{100 * found['marin: larger']['covered']:.0f} %",
        error_all=f"{found['epfl with all: longer']['methods'][OURS]['error']:.2g}",
        error_last=f"{found['epfl with all: longer']['methods']['last rung']['error']:.2g}",
        single=_single(found["marin: larger"]["each"]),
    )


def _saved(group: Mapping[str, Any]) -> str:
    methods = group["methods"]
    return f"{100 * (1 - methods[OURS]['error'] / methods['last rung']['error']):.0f} %"


def _winner(group: Mapping[str, Any], method: str) -> str:
    return f"{100 * group['methods'][method]['winner']:.0f} %"


def _methods(found: Mapping[str, Any]) -> str:
    head = ("cells", "method", "τ", "right winner", "error")
    body = []
    for name, title in GROUPS.items():
        for method, words in METHODS.items():
            row = found[name]["methods"][method]
            first = f"{title} ({found[name]['cases']} cases)" if method == "no trend" else ""
            body.append((first, words, f"{row['tau']:.2f}", f"{100 * row['winner']:.0f} %", f"{row['error']:.2g}"))
    return markdown(head, body)


def _answers(found: Mapping[str, Any]) -> str:
    head = ("cells", "predictions", "in the interval", "answered", "of these right", "cannot know", "a guess right")
    body = []
    for name, title in GROUPS.items():
        row = found[name]
        silent = row["predictions"] - row["answered"]
        body.append(
            (
                title,
                str(row["predictions"]),
                f"{100 * row['covered']:.0f} %",
                str(row["answered"]),
                str(row["answered right"]),
                str(silent),
                str(row["unanswered right"]),
            )
        )
    return markdown(head, body)


def _single(cases: Sequence[Mapping[str, Any]]) -> str:
    body = []
    for case in cases:
        if case["to"] in SHOWN and case["from"][0].startswith("130m"):
            taus = (case["methods"][method] for method in METHODS)
            cells = (f"{row['tau']:.2f}{'' if row['winner'] else ' (wrong winner)'}" for row in taus)
            body.append((f"{case['to']}, {case['optimizers']} optimizers", *cells))
    return markdown(("goal", *METHODS), body)


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, ["---"] * len(head), *body))


if __name__ == "__main__":
    write_or_check(PAGE, page, __doc__, "python docs/ladder_page.py")
