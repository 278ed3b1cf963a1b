"""All that a question about memory came to, and the same as plain numbers for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.footprint.caching_allocator import Replayed
from fallline.footprint.devices import Device, Verdict
from fallline.footprint.measuring import Measured
from fallline.footprint.prediction import STEP, Prediction
from fallline.footprint.remedies import Remedy
from fallline.footprint.sentences import verdicts
from fallline.footprint.setting import PRECISIONS, Setting


@dataclasses.dataclass(frozen=True)
class Answer:
    """The prediction, and what follows from it for devices."""

    prediction: Prediction
    name: str
    replayed: Replayed
    fits: Sequence[Verdict]
    largest: Mapping[str, int]
    """By device, the largest batch or sequence."""
    largest_of: str
    """``batch`` or ``sequence``."""
    remedies: Sequence[Remedy]
    remedied: Device | None
    """The device that the remedies are for."""
    compared: Sequence[Prediction] = ()
    measured: Measured | None = None
    notes: Sequence[str] = ()
    lengths: Sequence[int] = ()
    """The sequences of the replay, if they differ."""

    @property
    def setting(self) -> Setting:
        return self.prediction.setting


def result(answer: Answer) -> dict[str, Any]:
    prediction, setting = answer.prediction, answer.setting
    return {
        "model": answer.name,
        "parameters": prediction.parameters,
        "setting": dataclasses.asdict(setting),
        "precision": PRECISIONS[setting.precision],
        "peak_bytes": prediction.peak,
        "peak_in": "step" if prediction.moment == STEP else "forward_backward",
        "bytes_at_peak": dict(prediction.at_peak),
        "bytes_in_full": dict(prediction.in_full),
        "host_bytes": prediction.share.host,
        "workspace_bytes": prediction.optimizer.workspace,
        "reserved_bytes": answer.replayed.reserved,
        "activations": [dataclasses.asdict(one) for one in prediction.trace.kept],
        "flops": prediction.trace.flops,
        "recomputed_flops": prediction.trace.recomputed_flops,
        "lengths": list(answer.lengths),
        "devices": [
            {
                "device": fit.device.name,
                "bytes": fit.device.size,
                "fits": fit.fits,
                "verdict": fit.sentence,
                f"largest_{answer.largest_of}": answer.largest.get(fit.device.name),
                "failed": _failed(fit),
            }
            for fit in answer.fits
        ],
        "remedies": [{**dataclasses.asdict(one), "price": one.price.name.lower()} for one in answer.remedies],
        "remedies_for": answer.remedied.name if answer.remedied else None,
        "compared": [
            {"optimizer": one.setting.optimizer, "state_bytes": sum(one.share.states.values()), "peak_bytes": one.peak}
            for one in answer.compared
        ],
        "measured": None if answer.measured is None else dataclasses.asdict(answer.measured),
        "notes": list(answer.notes),
        "verdicts": verdicts(answer),
    }


def _failed(fit: Verdict) -> dict[str, int] | None:
    if fit.failed is None:
        return None
    return {"asked": fit.failed.asked, "free": fit.failed.free, "largest_free": fit.failed.largest_free}
