"""A question about a model's memory, and the work that answers it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fallline.footprint.caching_allocator import Replayed
from fallline.footprint.devices import Device, largest_batch, largest_sequence, verdict
from fallline.footprint.document import Answer
from fallline.footprint.measuring import measure
from fallline.footprint.prediction import Prediction, Predictor
from fallline.footprint.remedies import remedies
from fallline.footprint.setting import Setting
from fallline.footprint.trainees import Trainee, Unbuildable

SHARED = (
    "Sizes of ranks follow from the definitions of ZeRO's stages and from the largest block; they were not measured on "
    "several devices."
)
OFFLOADED = "What is in the host is computed; no device has been used."
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
    return Answer(
        prediction=prediction,
        name=question.model.name,
        replayed=replayed,
        fits=fits,
        largest={} if before else {one.name: find(predictor, prediction.setting, one) for one in question.devices},
        largest_of=question.largest,
        remedies=remedies(predictor, prediction, lacking, replayed.reserved / prediction.peak if before else 1.0),
        remedied=lacking,
        compared=[predictor.predict(setting.replace(optimizer=name)) for name in question.compare],
        measured=measure(question.model.spec, prediction.setting, question.threads) if question.measure else None,
        notes=_notes(question),
        lengths=question.lengths,
    )


def _replayed(prediction: Prediction, before: Sequence[Prediction]) -> Replayed:
    return before[-1].replayed_after(before[:-1]) if before else prediction.replayed()


def _notes(question: Question) -> list[str]:
    found = list(question.model.notes)
    found += [DATA] if question.model.resident_data else []
    found += [SHARED] if question.setting.ranks > 1 else []
    return found + ([OFFLOADED] if question.setting.offload else [])
