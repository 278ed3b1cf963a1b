"""Muon, SOAP and Shampoo: the step of matrices, against torch's and pytorch_optimizer's.

Two ratios are given for Muon.  torch.optim.Muon computes in bfloat16, which processors without units for it emulate:
how much faster float32 is there says nothing about the method.  The same loop in float32 has neither advantage.
ONEDNN_MAX_CPU_ISA=AVX512_CORE takes these units from all arms alike, and the rows then say so.

SOAP and Shampoo do most of their work in every tenth step, so a sample is one step, steps of all arms alternate, and
steps with and without a refresh are told apart.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

import fallline
from benchmarks.arms import NotInstalled, tensors
from benchmarks.cases.rule_peers import allowance, seconds
from benchmarks.packages import class_of
from benchmarks.rows import Result, Row, milliseconds
from benchmarks.settings import Settings
from benchmarks.steps import note
from benchmarks.timing import interleave
from fallline.measure.stats import Estimate, bootstrap_median, paired_ratio

TORCH, FLOAT32, KOZISTR = "torch.optim.Muon", "its loop in float32", "pytorch_optimizer"
OURS, NEAR, SHORT, STAGGERED = "fallline", "zolotarev", "bfloat16", "staggered"
EVERY = 10
"""Steps between refreshes."""
INTERVALS = (10, 50, 100)


def blocks(width: int, layers: int) -> list[tuple[int, int]]:
    """The hidden matrices of a GPT."""
    return [(3 * width, width), (width, width), (4 * width, width), (width, 4 * width)] * layers


def run(settings: Settings) -> Result:
    wide = 96 if settings.quick else 768
    small = 64 if settings.quick else 256
    rows: list[Row] = []
    raw: dict[str, Any] = {}
    for width, layers, bars in ((wide, 2, (6.0, 1.7, 10.0, 2.7)), (small, 4, (4.0, None, None, None))):
        shapes = blocks(width, layers)
        what = f"{len(shapes)} matrices of width {width}"
        found, raw[f"Muon, {width}"] = _muon(what, shapes, bars, settings)
        rows += found
    found, raw["SOAP"] = _soap(blocks(small, 4), settings)
    rows += found
    found, raw["Shampoo"] = _shampoo(blocks(small, 4), settings)
    return Result(rows + found, raw)


WITHOUT_BFLOAT16 = ("SSE41", "AVX", "AVX2", "AVX512_CORE", "AVX512_CORE_VNNI")
"""Limits of oneDNN's instructions under which it uses no units for bfloat16."""


def bfloat16_units() -> str:
    """How matrices of bfloat16 are multiplied here."""
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    if limit in WITHOUT_BFLOAT16:
        return f"emulated, ONEDNN_MAX_CPU_ISA={limit}"
    capabilities = torch.cpu.get_capabilities()
    return "in hardware" if any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16")) else "emulated"


# ------------------------------------------------------------------ Muon


class FloatMuon(torch.optim.Optimizer):
    """torch.optim.Muon's step without bfloat16."""

    def __init__(self, params: Sequence[Parameter], lr: float):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for param in self.param_groups[0]["params"]:
            state = self.state[param]
            if not state:
                state["momentum_buffer"] = torch.zeros_like(param)
            buffer = state["momentum_buffer"].lerp_(param.grad, 1 - 0.95)
            lr = self.param_groups[0]["lr"]
            scale = math.sqrt(max(1.0, param.shape[0] / param.shape[1]))
            param.mul_(1 - lr * 0.1).add_(_loop(param.grad.lerp(buffer, 0.95)), alpha=-lr * scale)


def _loop(matrix: Tensor) -> Tensor:
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        update = torch.addmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.addmm(x, update, x, beta=a)
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def _muon(
    what: str, shapes: Sequence[tuple[int, int]], bars: Sequence[float | None], settings: Settings
) -> tuple[list[Row], Any]:
    note(f"muon: {what}")
    arms: dict[str, Any] = {
        OURS: fallline.Muon(tensors(shapes, settings.seed), lr=1e-5),
        NEAR: fallline.Muon(tensors(shapes, settings.seed), lr=1e-5, variant="zolotarev"),
        SHORT: fallline.Muon(tensors(shapes, settings.seed), lr=1e-5, ns_dtype="bfloat16"),
        TORCH: torch.optim.Muon(tensors(shapes, settings.seed), lr=1e-5),
        FLOAT32: FloatMuon(tensors(shapes, settings.seed), lr=1e-5),
    }
    pairs = [(peer, ours) for ours in (OURS, NEAR) for peer in (TORCH, FLOAT32)] + [(TORCH, SHORT)]
    arms[FLOAT32].step()
    allowed = allowance(settings, seconds(arms[FLOAT32].step))
    samples = interleave({name: one.step for name, one in arms.items()}, allowed, pairs)
    names = {OURS: "Muon", NEAR: 'Muon, variant="zolotarev"', SHORT: 'Muon, ns_dtype="bfloat16"'}
    against = {TORCH: f"{TORCH}, bfloat16 {bfloat16_units()}", FLOAT32: FLOAT32}
    rows = [
        Row(
            "matrix",
            f"{names[ours]}, {what}",
            against[peer],
            bar,
            value=samples.ratio(peer, ours),
            ours=milliseconds(samples.median(ours)),
            theirs=milliseconds(samples.median(peer)),
        )
        for (peer, ours), bar in zip(pairs, (*bars, None), strict=True)
    ]
    return rows, samples.as_json()


# ------------------------------------------------------------------ SOAP and Shampoo


def _soap(shapes: Sequence[tuple[int, int]], settings: Settings) -> tuple[list[Row], Any]:
    options: dict[str, Any] = {"lr": 1e-5, "precondition_frequency": EVERY}
    arms: dict[str, Any] = {
        OURS: fallline.SOAP(tensors(shapes, settings.seed), **options),
        STAGGERED: fallline.SOAP(tensors(shapes, settings.seed), stagger=True, **options),
    }
    what = f"SOAP, {len(shapes)} matrices of width {shapes[0][1]}"
    missing = ""
    try:
        arms[KOZISTR] = class_of(KOZISTR, "SOAP")(tensors(shapes, settings.seed), **options)
    except NotInstalled as reason:
        missing = str(reason)
    times = steps_in_turn(arms, settings)
    plain = {name: [t for k, t in enumerate(found) if (k + 1) % EVERY] for name, found in times.items()}
    means = {name: in_intervals(found) for name, found in times.items()}
    if missing:
        rows = [Row("matrix", what, KOZISTR, 1.4, note=missing)]
    else:
        rows = [
            _against(f"{what}, steps without a refresh", plain, 1.4),
            _against(f"{what}, mean of {EVERY} steps", means, 1.0),
        ]
    return [*rows, _slowest(what, times[STAGGERED], 2.5)], times


def _shampoo(shapes: Sequence[tuple[int, int]], settings: Settings) -> tuple[list[Row], Any]:
    options: dict[str, Any] = {
        "lr": 1e-5,
        "betas": (0.9, 0.99),
        "epsilon": 1e-8,
        "grafting": "adam",
        "merge_dims": "none",
        "max_preconditioner_dim": shapes[0][1],
    }
    arms = {
        OURS: fallline.Shampoo(tensors(shapes, settings.seed), precondition_frequency=EVERY, **options),
        STAGGERED: fallline.Shampoo(
            tensors(shapes, settings.seed), precondition_frequency=EVERY, stagger=True, **options
        ),
    }
    what = f"Shampoo, {len(shapes)} matrices of width {shapes[0][1]}"
    times = steps_in_turn(arms, settings)
    plain = bootstrap_median([t for k, t in enumerate(times[OURS]) if (k + 1) % EVERY])
    refreshing = bootstrap_median([t for k, t in enumerate(times[OURS]) if not (k + 1) % EVERY])
    rows = []
    for interval in INTERVALS:
        mean = plain.value + (refreshing.value - plain.value) / interval
        shown = Estimate(mean, mean, mean, plain.count)
        ratio = Estimate(mean / plain.value, mean / plain.high, mean / plain.low, plain.count)
        rows.append(
            Row(
                "matrix",
                f"{what}, mean where roots are refreshed every {interval} steps",
                "its step without a refresh",
                None,
                value=ratio,
                ours=milliseconds(shown),
                theirs=milliseconds(plain),
            )
        )
    return [*rows, _slowest(what, times[STAGGERED], 1.4)], times


def steps_in_turn(arms: Mapping[str, Any], settings: Settings) -> dict[str, list[float]]:
    """Seconds of each step of whole intervals, arms in turn; the first interval, in which states begin, is left out."""
    times: dict[str, list[float]] = {name: [] for name in arms}
    begun = time.perf_counter()
    intervals = 0
    for arm in arms.values():
        for _ in range(EVERY + 1 if "SOAP" in type(arm).__name__ else EVERY):
            arm.step()  # SOAP's first call only begins
    while intervals < 3 or (time.perf_counter() - begun < settings.seconds and intervals < settings.most_rounds):
        for _ in range(EVERY):
            for name, arm in arms.items():
                start = time.perf_counter()
                arm.step()
                times[name].append(time.perf_counter() - start)
        intervals += 1
    return times


def in_intervals(times: Sequence[float]) -> list[float]:
    """The mean step of each interval."""
    return [sum(times[k : k + EVERY]) / EVERY for k in range(0, len(times), EVERY)]


def _against(what: str, times: Mapping[str, Sequence[float]], bar: float) -> Row:
    return Row(
        "matrix",
        what,
        KOZISTR,
        bar,
        value=paired_ratio(times[KOZISTR], times[OURS]),
        ours=milliseconds(bootstrap_median(times[OURS])),
        theirs=milliseconds(bootstrap_median(times[KOZISTR])),
    )


def _slowest(what: str, times: Sequence[float], bar: float) -> Row:
    """The slowest place in the interval, its median over intervals, so that one interruption does not decide."""
    places = [bootstrap_median(times[place::EVERY]) for place in range(EVERY)]
    mean = sum(place.value for place in places) / EVERY
    slowest = max(places, key=lambda place: place.value)
    return Row(
        "matrix",
        f"{what}, staggered: the slowest step",
        "the mean step",
        bar,
        at_least=False,
        value=Estimate(slowest.value / mean, slowest.low / mean, slowest.high / mean, slowest.count),
        ours=milliseconds(slowest),
        theirs=milliseconds(Estimate(mean, mean, mean, slowest.count)),
    )
