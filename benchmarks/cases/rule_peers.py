"""Optimizers against the best that people can install today, on GPT-2 small's shapes.

All eager and foreach implementations of an optimizer run once; those near the fastest are timed side by side with
ours.

The bars come from a table of pytorch_optimizer, the largest collection, as its users would call it.  Its best way may
be another one (``foreach=False``, say), and so may be another package's; so there are two rows with the same bar.
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

from torch.nn import Parameter

import fallline
from benchmarks.arms import NotInstalled, tensors
from benchmarks.packages import class_of
from benchmarks.rows import Result, Row, milliseconds
from benchmarks.settings import Settings
from benchmarks.shapes import gpt2_small
from benchmarks.steps import note
from benchmarks.timing import Arm, Samples, interleave

OURS, KOZISTR = "fallline", "pytorch_optimizer"
AS_IT_COMES = f"{KOZISTR} as it comes"
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
        if self.module == KOZISTR and "foreach" not in self.options:
            return AS_IT_COMES
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
    """The options of both."""
    ours: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def make_ours(self, params: Sequence[Parameter]) -> Any:
        return fallline.create(self.name, params, **{**self.options, **self.ours})

    def label(self, params: Sequence[Parameter]) -> str:
        millions = sum(p.numel() for p in params) / 1e6
        return f"{fallline.info(self.name).class_name}, {millions:.0f} M parameters, float32"


def _both(module: str, name: str, **options: Any) -> tuple[Peer, Peer]:
    return Peer(module, name, {**options, "foreach": False}), Peer(module, name, {**options, "foreach": True})


def _kozistr(name: str, **options: Any) -> tuple[Peer, Peer, Peer]:
    return *_both(KOZISTR, name, **options), Peer(KOZISTR, name)


CONTESTS = (
    Contest("adan", 4.0, (*_kozistr("Adan"), *_both("timm.optim.adan", "Adan"))),
    Contest(
        "adamp",
        3.5,
        (*_kozistr("AdamP"), Peer("adamp", "AdamP"), Peer("timm.optim.adamp", "AdamP")),
    ),
    Contest(
        "qhm",
        1.7,
        (*_kozistr("QHM"), Peer("qhoptim.pyt", "QHM")),
        {"lr": 1e-5, "momentum": 0.9, "nu": 0.7},
    ),
    Contest(
        "qhadam",
        2.8,
        (*_kozistr("QHAdam"), Peer("qhoptim.pyt", "QHAdam")),
        {"lr": 1e-5, "nus": (0.7, 1.0)},
    ),
    Contest(
        "lion",
        2.5,
        (*_kozistr("Lion"), *_both("timm.optim.lion", "Lion"), Peer("lion_pytorch", "Lion")),
    ),
    Contest(
        "adafactor",
        4.0,
        (
            *_both("torch.optim", "Adafactor"),
            *_kozistr("AdaFactor", betas=(None, 0.999), relative_step=False),
            Peer("timm.optim.adafactor", "Adafactor"),
        ),
    ),
    Contest("amos", 2.5, _kozistr("Amos")),
    Contest(
        "schedule_free_adamw",
        12.0,
        (*_kozistr("ScheduleFreeAdamW"), *_both("schedulefree", "AdamWScheduleFree")),
    ),
    Contest(
        "prodigy",
        35.0,
        (*_kozistr("Prodigy"), Peer("prodigyopt", "Prodigy")),
        {"d0": 1e-4},
    ),
    Contest("rmsprop", 2.0, _both("torch.optim", "RMSprop")),
    Contest("adadelta", 4.0, (*_both("torch.optim", "Adadelta"), *_kozistr("AdaDelta"))),
    # pytorch_optimizer's does not clip, which would be one more pass over the gradients.
    Contest(
        "lamb",
        3.0,
        (*_kozistr("Lamb"), Peer("timm.optim.lamb", "Lamb", {"max_grad_norm": None})),
        ours={"max_grad_norm": None},
    ),
    Contest("nadam", 2.8, _both("torch.optim", "NAdam")),
)


def run(settings: Settings, only: Sequence[str] = ()) -> Result:
    shapes = gpt2_small(6 if settings.quick else 1)
    rows: list[Row] = []
    raw: dict[str, Any] = {}
    for contest in CONTESTS:
        if not only or contest.name in only:
            found, data = _contest(contest, shapes, settings)
            rows += found
            raw[contest.name] = data
    return Result(rows, raw)


def _contest(
    contest: Contest, shapes: Sequence[tuple[int, ...]], settings: Settings
) -> tuple[list[Row], dict[str, Any]]:
    params = tensors(shapes, settings.seed)
    note(f"{contest.name}: {', '.join(peer.label for peer in contest.peers)}")
    arms, tried, missing = candidates(contest, params)
    ours = contest.make_ours(params)
    what = contest.label(params)
    if not arms:
        return [Row("rule_peers", what, "–", contest.bar, note="; ".join(missing.values()))], {"missing": missing}
    allowed = allowance(settings, min(tried.values()))
    samples = interleave({OURS: ours.step, **arms}, allowed, [(peer, OURS) for peer in arms])
    best = min(arms, key=lambda peer: samples.median(peer).value)
    note(f"  best {best}; {samples.rounds} rounds, {samples.stopped}, spread {samples.noise:.1%}")
    arms.clear()
    gc.collect()
    data = {"tried": tried, "missing": missing, **samples.as_json()}
    rows = [_row(what, contest.bar, best, samples)]
    if AS_IT_COMES in tried and best != AS_IT_COMES:
        (peer,) = (peer for peer in contest.peers if peer.label == AS_IT_COMES)
        arms = {OURS: ours.step, AS_IT_COMES: peer.make(params, contest.options).step}
        against = interleave(arms, allowance(settings, tried[AS_IT_COMES]), [(AS_IT_COMES, OURS)])
        rows.append(_row(what, contest.bar, AS_IT_COMES, against))
        data[AS_IT_COMES] = against.as_json()
    return rows, data


def allowance(settings: Settings, seconds: float) -> Settings:
    """Fewer rounds where a step takes seconds."""
    rounds = min(settings.least_rounds, max(5, int(10 / seconds)))
    return dataclasses.replace(settings, least_rounds=rounds, seconds=settings.seconds / 2)


def candidates(
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
            tried[peer.label] = seconds(optimizer.step)
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


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _row(what: str, bar: float, best: str, samples: Samples) -> Row:
    return Row(
        "rule_peers",
        what,
        best,
        bar,
        value=samples.ratio(best, OURS),
        ours=milliseconds(samples.median(OURS)),
        theirs=milliseconds(samples.median(best)),
    )
