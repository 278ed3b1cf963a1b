"""The answer in sentences: the question in one line, and verdicts for devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fallline.footprint.devices import Verdict, gb
from fallline.footprint.remedies import cheapest

if TYPE_CHECKING:
    from fallline.footprint.answer import Answer


def headline(answer: Answer) -> str:
    """The question in one line."""
    setting, prediction = answer.setting, answer.prediction
    size = f"batch {setting.batch}" + (f" × {setting.sequence} tokens" if setting.sequence else "")
    parts = [f"{setting.optimizer}", setting.precision, size]
    if setting.state_dtype != "float32":
        parts.insert(1, f"states in {setting.state_dtype}")
    if setting.accumulation > 1:
        parts.append(f"gradients of {setting.accumulation} batches added up")
    parts += ["checkpointing"] * setting.checkpointing + ["states in the host"] * setting.offload
    if setting.ranks > 1:
        parts.append(f"{setting.shard or 'no shards'} on {setting.ranks} ranks, one of them shown")
    return f"{answer.name}: {prediction.parameters / 1e6:,.1f} M parameters, {', '.join(parts)}"


def verdicts(answer: Answer) -> list[str]:
    """The sentences that answer."""
    prediction = answer.prediction
    found = [
        f"{answer.name} needs {gb(prediction.peak)} of tensors at its peak, in {prediction.moment}, and a caching "
        f"allocator reserves {gb(answer.replayed.reserved)} for it."
    ]
    if prediction.share.host:
        found.append(f"The host holds {gb(prediction.share.host)} besides.")
    fits = [fit.device.name for fit in answer.fits if fit.fits]
    lacks = [fit for fit in answer.fits if not fit.fits]
    if fits:
        found.append(f"It trains on {_listed(fits)}.")
    for fit in lacks:
        found.append(f"It does not train on {fit.device.name}: {_why_not(fit)}.")
    if answer.remedied is not None:
        best = cheapest(answer.remedies)
        if best is None:
            found.append(f"No change in the table makes it fit on {answer.remedied.name}.")
        else:
            found.append(
                f"With {best.option} it needs {gb(best.peak)} and fits on {answer.remedied.name}: {best.cost}."
            )
    if answer.measured is not None:
        off = prediction.peak / answer.measured.peak - 1
        found.append(
            f"Measured here, the peak of tensors is {gb(answer.measured.peak)}: the prediction is off by {off:+.2%}."
        )
    return found


def _why_not(fit: Verdict) -> str:
    if fit.failed is None:
        return f"{gb(fit.needs - fit.device.size)} are lacking"
    failed = fit.failed
    return (
        f"an allocation of {gb(failed.asked)} fails although {gb(failed.free)} ({failed.free / failed.capacity:.0%}) "
        f"are free, because the largest free piece has {gb(failed.largest_free)}"
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
