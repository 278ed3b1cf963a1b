"""Changes of a setting that save memory: the bytes that each saves, and what it costs in time."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Sequence

from fallline.document.numbers import counted
from fallline.footprint.devices import Device, gb, verdict
from fallline.footprint.prediction import Prediction, Predictor
from fallline.footprint.setting import Setting
from fallline.footprint.speed import LINK, Speed, carried, lasting
from fallline.footprint.trainees import Unbuildable
from fallline.memory.per_parameter import bytes_of, program_of

RANKS = 8
"""Where the user names no number."""
LEAST_SAVED = 0.005
"""The least share of the peak that a change has to save to be named."""
WORTH_RECOMPUTING = 0.05
"""The least share of the peak that activations have where checkpointing is tried."""
OTHER_OPTIMIZERS = ("lion", "adafactor", "lion8bit")
SENT = {"zero1": 2, "zero2": 2, "zero3": 3}
"""How many times the bytes of the gradients a rank sends in a step (Rajbhandari et al. 2020, section 7)."""


class Price(enum.IntEnum):
    """Costs from the least that is asked of a user to the most."""

    NOTHING = 0
    SMALLER_BATCHES = 1
    OPERATIONS = 2
    FEWER_BITS = 3
    HOST = 4
    TUNING = 5
    DEVICES = 6


@dataclasses.dataclass(frozen=True)
class Remedy:
    option: str
    """The option to add to the command."""
    peak: int
    saves: int
    price: Price
    cost: str
    seconds: float | None = None
    """The time by which an iteration gets longer, as an estimate; None where no number can be had."""
    fits: bool | None = None
    """Whether it is enough for the device in question; None without one."""


@dataclasses.dataclass(frozen=True)
class _Change:
    option: str
    setting: Setting
    price: Price
    cost: str
    """Without the operations of a recomputation, which a trace counts."""
    sent: int = 0
    """Bytes that cross a link in every step."""


def remedies(
    predictor: Predictor, base: Prediction, device: Device | None, overhead: float = 1.0, speed: Speed | None = None
) -> list[Remedy]:
    """Single changes, and several together where none of the cheap single ones is enough for the device.

    First come those that are enough, then those that save most. ``overhead`` is the factor by which an allocator needs
    more than the tensors, where that is known. ``speed`` is that of the device.
    """
    speed = speed or Speed()

    def tried(change: _Change) -> Remedy | None:
        return _tried(predictor, base, change, speed, lambda one: device is not None and _fits(one, device, overhead))

    found = [one for change in _singles(base) if (one := tried(change)) is not None]
    if device is not None and not any(one.fits and one.price <= Price.OPERATIONS for one in found):
        for change in _together(base.setting):
            one = tried(change)
            found += [one] if one is not None else []
            if one is not None and one.fits:
                break
    if device is None:
        found = [dataclasses.replace(one, fits=None) for one in found]
    return sorted(found, key=lambda one: (one.fits is False, -one.saves))


def _fits(prediction: Prediction, device: Device, overhead: float) -> bool:
    return overhead * prediction.peak <= device.size and verdict(prediction, device).fits


def cheapest(found: Sequence[Remedy]) -> Remedy | None:
    """The cheapest of those that are enough."""
    enough = [one for one in found if one.fits]
    return min(enough, key=lambda one: (one.price, -one.saves), default=None)


def _tried(
    predictor: Predictor, base: Prediction, change: _Change, speed: Speed, fits: Callable[[Prediction], bool]
) -> Remedy | None:
    """None where it saves nothing to speak of, or cannot be done with this model or this optimizer."""
    try:
        prediction = _predicted(predictor, change.setting)
    except (Unbuildable, ValueError):
        return None
    saves = base.peak - prediction.peak
    if saves < LEAST_SAVED * base.peak:
        return None
    cost, seconds = _cost(base, change, prediction, speed)
    return Remedy(change.option, prediction.peak, saves, change.price, cost, seconds, fits(prediction))


def _predicted(predictor: Predictor, setting: Setting) -> Prediction:
    """From the traces that are there, where only the batch differs."""
    known = next(iter(predictor.batches_traced(setting)), None)
    if known is None or setting.batch is None:
        return predictor.predict(setting)
    return predictor.at_batch(setting.replace(batch=known), setting.batch)


def _cost(base: Prediction, change: _Change, prediction: Prediction, speed: Speed) -> tuple[str, float | None]:
    """In words, and in seconds where they can be computed."""
    if not change.setting.checkpointing or base.setting.checkpointing:
        return change.cost, carried(change.sent) if change.sent else None
    traced = prediction.trace
    more = traced.recomputed_flops / max(1, traced.flops - traced.recomputed_flops)
    seconds = speed.seconds(prediction.recomputed)
    twice = f"{counted(traced.pieces, 'block')} computed twice"
    return f"{more:.0%} more operations ({twice}), {lasting(seconds)} at {speed.words}{change.cost}", seconds


def _singles(base: Prediction) -> Iterator[_Change]:
    setting = base.setting
    if setting.state_dtype == "float32" and not setting.offload:
        for format in ("int8", "int4"):
            changed = setting.replace(state_dtype=format)
            price = Price.NOTHING if format == "int8" else Price.FEWER_BITS
            yield _Change(f"--state-dtype {format}", changed, price, _step_cost(setting, setting.optimizer, format))
    if not setting.checkpointing and _activations(base) >= WORTH_RECOMPUTING * base.peak:
        yield _Change("--checkpointing", setting.replace(checkpointing=True), Price.OPERATIONS, "; the same results")
    if setting.precision == "float32":
        yield _Change(
            "--precision mixed", setting.replace(precision="mixed"), Price.FEWER_BITS,
            "no more operations, and faster ones where the hardware has units for 16 bits; gradients of 16 bits",
        )  # fmt: skip
        yield _Change(
            "--precision bfloat16", setting.replace(precision="bfloat16"), Price.FEWER_BITS,
            "the same without 32-bit weights: small steps are lost unless they are rounded stochastically",
        )  # fmt: skip
    if setting.batch and setting.batch > 1 and setting.batch % 2 == 0:
        half, times = setting.batch // 2, 2 * setting.accumulation
        yield _Change(
            f"--batch {half} --accumulation {times}", setting.replace(batch=half, accumulation=times),
            Price.SMALLER_BATCHES,
            "no more operations, but twice as many, smaller batches, slower where these leave units idle; batch norms "
            "see half",
        )  # fmt: skip
    yield from _with_hardware(setting, base)
    for name in OTHER_OPTIMIZERS:
        if name != setting.optimizer and not setting.offload:
            other = setting.replace(optimizer=name, state_dtype="float32")
            cost = f"another algorithm, to be tuned anew; {_step_cost(setting, name, 'float32')}"
            yield _Change(f"--optimizer {name}", other, Price.TUNING, cost)


def _activations(base: Prediction) -> int:
    return base.at_peak.get("activations", 0) + base.at_peak.get("temporaries", 0)


def _with_hardware(setting: Setting, base: Prediction) -> Iterator[_Change]:
    """Host memory and further devices."""
    memory = base.optimizer
    if not setting.offload:
        moved = memory.gradients + memory.parameters
        cost = f"{_crossing(moved, 'cross the bus')}, and the host computes the step; the same results"
        yield _Change("--offload", setting.replace(offload=True), Price.HOST, cost, moved)
    if setting.shard is None:
        ranks = setting.ranks if setting.ranks > 1 else RANKS
        for stage, times in SENT.items():
            changed = setting.replace(shard=stage, ranks=ranks)
            sent = times * memory.gradients
            cost = f"{ranks} devices, each of which sends {_crossing(sent, '')}; the same results"
            yield _Change(f"--shard {stage} --ranks {ranks}", changed, Price.DEVICES, cost, sent)


def _crossing(size: int, verb: str) -> str:
    words = f"{gb(size)} {verb}".strip()
    return f"{words} in a step, {lasting(carried(size))} at {LINK / 1e9:.0f} GB/s"


def _together(setting: Setting) -> Iterator[_Change]:
    """Changes that need no other hardware and no other algorithm, two and then three of them."""
    changes: dict[str, object] = {}
    options = []
    for option, field, value, usual in (
        ("--state-dtype int8", "state_dtype", "int8", "float32"),
        ("--checkpointing", "checkpointing", True, False),
        ("--precision bfloat16", "precision", "bfloat16", "float32"),
    ):
        if getattr(setting, field) == usual:
            changes[field] = value
            options.append(option)
        if len(options) > 1:
            price = Price.FEWER_BITS if "precision" in changes else Price.OPERATIONS
            cost = "; weights of 16 bits, to be rounded stochastically" if "precision" in changes else ""
            yield _Change(" ".join(options), setting.replace(**changes), price, cost)


def _step_cost(setting: Setting, optimizer: str, format: str) -> str:
    """The bytes that a step moves for each parameter, before and after."""
    dtype = str(setting.weight_dtype).removeprefix("torch.")
    before = bytes_of(program_of(setting.optimizer), dtype, setting.state_dtype).moved
    after = bytes_of(program_of(optimizer), dtype, format).moved
    moves = f"moves {after:.3g} in place of {before:.3g} bytes per parameter"
    return f"no more time, as the step {moves}" if after <= before else f"a longer step, which {moves}"
