"""Optimizers against the best that people can install today, on GPT-2 small's shapes.

All eager and foreach implementations of an optimizer run once; those near the fastest are timed side by side with
ours.  The winner goes through ``torch.compile`` as well, with the seconds that this takes, as one more arm.

The bars come from a table in which pytorch_optimizer, the largest collection, was the best peer of all.  Where
another package is faster today there are two rows with the same bar, one against each.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import io
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import Parameter

import fallline
from benchmarks.arms import NotInstalled, tensors
from benchmarks.packages import class_of
from benchmarks.rows import Result, Row, milliseconds
from benchmarks.settings import Settings
from benchmarks.shapes import gpt2_small
from benchmarks.steps import note
from benchmarks.timing import Arm, Samples, interleave

OURS, COMPILED = "fallline", "through torch.compile"
NEAR = 1.3
"""Candidates slower than this many times the fastest, in their second step, are not timed further."""


@dataclasses.dataclass(frozen=True)
class Peer:
    module: str
    name: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def label(self) -> str:
        package = "torch" if self.module == "torch.optim" else self.module.partition(".")[0]
        return package + (" foreach" if self.options.get("foreach") else "")

    def make(self, params: Sequence[Parameter], common: Mapping[str, Any]) -> Any:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer = class_of(self.module, self.name)(params, **{**common, **self.options})
            if hasattr(optimizer, "train"):
                optimizer.train()
        return optimizer


@dataclasses.dataclass(frozen=True)
class Contest:
    name: str
    bar: float
    peers: tuple[Peer, ...]
    options: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"lr": 1e-5})
    """Of both."""
    ours: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def _both(module: str, name: str, **options: Any) -> tuple[Peer, Peer]:
    return Peer(module, name, {**options, "foreach": False}), Peer(module, name, {**options, "foreach": True})


KOZISTR = "pytorch_optimizer"
CONTESTS = (
    Contest("adan", 4.0, (*_both(KOZISTR, "Adan"), *_both("timm.optim.adan", "Adan"))),
    Contest(
        "adamp",
        3.5,
        (*_both(KOZISTR, "AdamP"), Peer("adamp", "AdamP"), Peer("timm.optim.adamp", "AdamP")),
    ),
    Contest(
        "qhm",
        1.7,
        (*_both(KOZISTR, "QHM"), Peer("qhoptim.pyt", "QHM")),
        {"lr": 1e-5, "momentum": 0.9, "nu": 0.7},
    ),
    Contest(
        "qhadam",
        2.8,
        (*_both(KOZISTR, "QHAdam"), Peer("qhoptim.pyt", "QHAdam")),
        {"lr": 1e-5, "nus": (0.7, 1.0)},
    ),
    Contest(
        "lion",
        2.5,
        (*_both(KOZISTR, "Lion"), *_both("timm.optim.lion", "Lion"), Peer("lion_pytorch", "Lion")),
    ),
    Contest(
        "adafactor",
        4.0,
        (
            *_both("torch.optim", "Adafactor"),
            *_both(KOZISTR, "AdaFactor", betas=(None, 0.999), relative_step=False),
            Peer("timm.optim.adafactor", "Adafactor"),
        ),
    ),
    Contest("amos", 2.5, _both(KOZISTR, "Amos")),
    Contest(
        "schedule_free_adamw",
        12.0,
        (*_both(KOZISTR, "ScheduleFreeAdamW"), *_both("schedulefree", "AdamWScheduleFree")),
    ),
    Contest(
        "prodigy",
        35.0,
        (*_both(KOZISTR, "Prodigy"), Peer("prodigyopt", "Prodigy")),
        {"d0": 1e-4},
    ),
    Contest("rmsprop", 2.0, _both("torch.optim", "RMSprop")),
    Contest("adadelta", 4.0, (*_both("torch.optim", "Adadelta"), *_both(KOZISTR, "AdaDelta"))),
    Contest("lamb", 3.0, (*_both(KOZISTR, "Lamb"), Peer("timm.optim.lamb", "Lamb"))),
    Contest("nadam", 2.8, _both("torch.optim", "NAdam")),
)


def run(settings: Settings, only: Sequence[str] = (), compile_too: bool = True) -> Result:
    shapes = gpt2_small(6 if settings.quick else 1)
    rows: list[Row] = []
    raw: dict[str, Any] = {}
    for contest in CONTESTS:
        if not only or contest.name in only:
            found, data = _contest(contest, shapes, settings, compile_too)
            rows += found
            raw[contest.name] = data
    return Result(rows, raw)


def _contest(
    contest: Contest, shapes: Sequence[tuple[int, ...]], settings: Settings, compile_too: bool
) -> tuple[list[Row], dict[str, Any]]:
    params = tensors(shapes, settings.seed)
    note(f"{contest.name}: {', '.join(peer.label for peer in contest.peers)}")
    arms, tried, missing = _candidates(contest, params)
    ours = fallline.create(contest.name, params, **{**contest.options, **contest.ours})
    what = f"{fallline.info(contest.name).class_name}, {sum(p.numel() for p in params) / 1e6:.0f} M parameters, float32"
    if not arms:
        return [Row("rule_peers", what, "–", contest.bar, note="; ".join(missing.values()))], {"missing": missing}
    allowed = _allowed(settings, min(tried.values()))
    samples = interleave({OURS: ours.step, **arms}, allowed, [(peer, OURS) for peer in arms])
    best = min(arms, key=lambda peer: samples.median(peer).value)
    note(f"  best {best}; {samples.rounds} rounds, {samples.stopped}, spread {samples.noise:.1%}")
    compiled = _compiled(arms[best], ours.step, allowed) if compile_too else None
    arms.clear()
    gc.collect()
    data = {"tried": tried, "missing": missing, **samples.as_json(), "compiled": compiled and compiled.as_json()}
    rows = [_row(what, contest.bar, best, samples, compiled)]
    known = min((label for label in tried if label.startswith(KOZISTR)), key=lambda label: tried[label], default=best)
    if not best.startswith(KOZISTR) and known != best:
        (peer,) = (peer for peer in contest.peers if peer.label == known)
        arm = peer.make(params, contest.options).step
        against = interleave({OURS: ours.step, known: arm}, _allowed(settings, tried[known]), [(known, OURS)])
        rows.append(_row(what, contest.bar, known, against, None))
        data["pytorch_optimizer"] = against.as_json()
    return rows, data


def _allowed(settings: Settings, seconds: float) -> Settings:
    """Fewer rounds where a step takes seconds."""
    rounds = min(settings.least_rounds, max(5, int(10 / seconds)))
    return dataclasses.replace(settings, least_rounds=rounds, seconds=settings.seconds / 2)


def _candidates(
    contest: Contest, params: Sequence[Parameter]
) -> tuple[dict[str, Arm], dict[str, float], dict[str, str]]:
    """Steps of the peers near the fastest, seconds of everybody's second step, and who is missing."""
    made: dict[str, Any] = {}
    tried: dict[str, float] = {}
    missing: dict[str, str] = {}
    for peer in contest.peers:
        try:
            optimizer = peer.make(params, contest.options)
            optimizer.step()
            tried[peer.label] = _seconds(optimizer.step)
        except NotInstalled as reason:
            missing[peer.label] = str(reason)
            continue
        except Exception as error:  # a peer that does not work here is no reason to stop
            missing[peer.label] = f"{peer.label}: does not work here ({type(error).__name__}: {error})"
            note(f"  {missing[peer.label]}")
            continue
        made[peer.label] = optimizer
        fastest = min(tried.values())
        for label in [one for one in made if tried[one] > NEAR * fastest]:
            del made[label]  # their states are gigabytes
        gc.collect()
    return {label: optimizer.step for label, optimizer in made.items()}, tried, missing


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@dataclasses.dataclass
class Compiled:
    """The best peer through torch.compile."""

    seconds: float
    """Of its first three steps, in which it compiles; a counter that is a number compiles once more each."""
    samples: Samples | None
    note: str = ""

    @property
    def text(self) -> str:
        if self.samples is None:
            return f"does not compile: {self.note}"
        ratio = self.samples.ratio(COMPILED, OURS)
        return f"compiled {milliseconds(self.samples.median(COMPILED))} ({ratio.short('×')}) after {self.seconds:.0f} s"

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def _compiled(step: Arm, ours: Arm, settings: Settings) -> Compiled:
    torch._dynamo.reset()
    compiled = torch.compile(step)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spent = sum(_seconds(compiled) for _ in range(3))
            samples = interleave({OURS: ours, COMPILED: compiled}, settings, [(COMPILED, OURS)])
    except Exception as error:
        return Compiled(0.0, None, f"{type(error).__name__}: {str(error).splitlines()[0][:100]}")
    return Compiled(spent, samples)


def _row(what: str, bar: float, best: str, samples: Samples, compiled: Compiled | None) -> Row:
    theirs = milliseconds(samples.median(best))
    return Row(
        "rule_peers",
        what,
        best,
        bar,
        value=samples.ratio(best, OURS),
        ours=milliseconds(samples.median(OURS)),
        theirs=theirs + (f"; {compiled.text}" if compiled else ""),
    )
