"""A question about a model's memory, and the work that answers it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fallline.footprint.answer import Answer
from fallline.footprint.caching_allocator import Replayed
from fallline.footprint.devices import Device, gb, largest_batch, largest_sequence, verdict
from fallline.footprint.measuring import Measured, measure
from fallline.footprint.prediction import Prediction, Predictor
from fallline.footprint.remedies import remedies
from fallline.footprint.setting import Setting
from fallline.footprint.speed import LINK, Speed
from fallline.footprint.trainees import Trainee, Unbuildable

SHARED = (
    "Sizes of ranks follow from the definitions of ZeRO's stages and from the largest block; they were not measured on "
    "several devices."
)
OFFLOADED = "What is in the host is computed; no device has been used."
ON_A_GPU = (
    "The trace is that of a CPU, and attention on a GPU saves other tensors. Plain causal attention is alike on both: "
    "queries, keys, values, output and a number per row. With a mask or dropout a CPU keeps the scores, which fused "
    "kernels of a GPU do not; without such a kernel a GPU keeps them too. The context of a GPU and workspaces of its "
    "libraries come on top; they are not modelled."
)
WORTH_SAYING = 0.01
"""The least share of the peak that a reader should know of."""
DATA = "The data that the workload keeps in memory are not counted."


@dataclasses.dataclass(frozen=True)
class Question:
    model: Trainee
    setting: Setting
    devices: Sequence[Device]
    compare: Sequence[str] = ()
    lengths: Sequence[int] = ()
    """Lengths of sequences that are trained one after the other, for fragmentation."""
    largest: str = "batch"
    measure: bool = False
    threads: int | None = None
    speed: Speed | None = None
    """The speed of the device; None: that of this machine if it is measured, otherwise a usual one."""


def answer(question: Question) -> Answer:
    """Predicts, asks the allocator, looks for the largest and for remedies, and measures if that was asked."""
    predictor = Predictor(question.model)
    before: list[Prediction] = []
    setting = question.setting
    if question.lengths:
        setting = setting.replace(sequence=max(question.lengths))
        predictor.completed(setting)  # refuses what the model does not take
        before = [predictor.at_sequence(setting, length) for length in question.lengths]
    prediction = predictor.predict(setting)
    replayed = _replayed(prediction, before)
    fits = [verdict(before[-1] if before else prediction, device, before[:-1]) for device in question.devices]
    lacking = next((fit.device for fit in reversed(fits) if not fit.fits), None)
    find = largest_batch if question.largest == "batch" else largest_sequence
    if question.largest == "sequence" and question.model.sequence is None:
        raise Unbuildable(f"{question.model.spec}: has no sequences, so that there is no longest one")
    measured = (
        measure(question.model.spec, prediction.setting, question.threads, timed=True) if question.measure else None
    )
    speed = question.speed or _speed_of(prediction, measured)
    overhead = replayed.reserved / prediction.peak if before else 1.0
    found = remedies(predictor, prediction, lacking, overhead, speed)
    return Answer(
        prediction=prediction,
        name=question.model.name,
        replayed=replayed,
        fits=fits,
        largest={} if before else {one.name: find(predictor, prediction.setting, one) for one in question.devices},
        largest_of=question.largest,
        remedies=found,
        remedied=lacking,
        compared=[predictor.predict(setting.replace(optimizer=name)) for name in question.compare],
        measured=measured,
        notes=[*_notes(question), *_kept(prediction), *([_estimated(speed)] if found else []), ON_A_GPU],
        lengths=question.lengths,
    )


def _replayed(prediction: Prediction, before: Sequence[Prediction]) -> Replayed:
    return before[-1].replayed_after(before[:-1]) if before else prediction.replayed()


def _speed_of(prediction: Prediction, measured: Measured | None) -> Speed:
    if measured is None or not measured.seconds or not prediction.operations:
        return Speed()
    return Speed(prediction.operations / measured.seconds, measured=True)


def _estimated(speed: Speed) -> str:
    given = "" if speed.measured else " (--speed sets another)"
    return (
        f"Costs in time are estimates: operations at {speed.words}{given}, what is sent at {LINK / 1e9:.0f} GB/s, "
        "and a step by the bytes that it moves."
    )


def _kept(prediction: Prediction) -> list[str]:
    """A remark on memory that is no tensor, where there is much of it."""
    size = prediction.optimizer.workspace
    if size < WORTH_SAYING * prediction.peak:
        return []
    return [
        f"On a CPU the kernels of {prediction.setting.optimizer} keep {gb(size)} for the results of their reductions "
        "besides; these are no tensors, and stand in no table."
    ]


def _notes(question: Question) -> list[str]:
    found = list(question.model.notes)
    found += [DATA] if question.model.resident_data else []
    found += [SHARED] if question.setting.ranks > 1 else []
    return found + ([OFFLOADED] if question.setting.offload else [])
