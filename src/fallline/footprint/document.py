"""The answer of ``fallline memory`` as a document."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.document.blocks import Block, Document, Note, Paragraph, Provenance, Table, Verdict
from fallline.document.cells import Cell, Column, Missing, Number, Text
from fallline.document.cells import Mark as CellMark
from fallline.document.figures import Bar, Mark, Part, StackedBars
from fallline.document.numbers import counted
from fallline.footprint.caching_allocator import Replayed
from fallline.footprint.devices import Device, gb
from fallline.footprint.devices import Verdict as Fit
from fallline.footprint.measuring import Measured
from fallline.footprint.prediction import STEP, Prediction
from fallline.footprint.remedies import Remedy, cheapest
from fallline.footprint.setting import PRECISIONS, Setting

ON_A_GPU = (
    "The trace is that of a CPU, and attention on a GPU saves other tensors. Plain causal attention is alike on both: "
    "queries, keys, values, output and a number per row. With a mask or dropout a CPU keeps the scores, which fused "
    "kernels of a GPU do not; without such a kernel a GPU keeps them too. The context of a GPU and workspaces of its "
    "libraries come on top; they are not modelled."
)
FRAGMENTATION = "fragmentation"
PLACES = 12
"""The number of modules that the table shows."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """All that a question about memory came to."""

    prediction: Prediction
    name: str
    replayed: Replayed
    fits: Sequence[Fit]
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


def document(answer: Answer) -> Document:
    blocks: list[Block] = [
        Paragraph(headline(answer), tone="strong"),
        bars(answer),
        _categories(answer),
        _modules(answer),
    ]
    if answer.compared:
        blocks += [_compared(answer), compared_bars(answer)]
    if answer.measured is not None:
        blocks.append(_measured(answer, answer.measured))
    blocks.append(_devices(answer))
    if answer.remedies:
        blocks.append(_remedies(answer))
    blocks += [Note(text) for text in (*answer.notes, ON_A_GPU)]
    blocks += [Verdict(text) for text in verdicts(answer)]
    return Document(blocks, Provenance(), result=result(answer))


# ------------------------------------------------------------------ sentences


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


def _why_not(fit: Fit) -> str:
    if fit.failed is None:
        return f"{gb(fit.needs - fit.device.size)} are lacking"
    failed = fit.failed
    return (
        f"an allocation of {gb(failed.asked)} fails although {gb(failed.free)} ({failed.free / failed.capacity:.0%}) "
        f"are free, because the largest free piece has {gb(failed.largest_free)}"
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# ------------------------------------------------------------------ figures


def bars(answer: Answer) -> StackedBars:
    """The bar of the moment when most is needed, with what the allocator reserves beyond it."""
    sections = dict(answer.prediction.at_peak)
    over = answer.replayed.reserved - answer.prediction.peak
    if over > 0:
        sections[FRAGMENTATION] = over
    return _bars("memory", f"At the peak, in {answer.prediction.moment}", {answer.name: sections}, answer.fits)


def compared_bars(answer: Answer) -> StackedBars:
    """A bar for each optimizer; states of all names are one section."""
    found = {}
    for one in answer.compared:
        states = sum(one.share.states.values())
        rest = {name: size for name, size in one.at_peak.items() if name not in one.share.states}
        found[one.setting.optimizer] = {"states": states, **rest}
    return _bars("memory-compared", "Optimizers at their peaks", found, answer.fits)


def _bars(name: str, title: str, found: Mapping[str, Mapping[str, int]], fits: Sequence[Fit]) -> StackedBars:
    longest = max((sum(sections.values()) for sections in found.values()), default=0)
    scale, unit = (1e9, "GB") if longest >= 0.9995e9 else (1e6, "MB")
    made = [
        Bar(title, [Part(section, size / scale) for section, size in sections.items() if size >= longest / 2000])
        for title, sections in found.items()
    ]
    limits = [Mark(fit.device.size / scale, fit.device.name) for fit in fits]
    return StackedBars(name, title, unit, made, limits, detail=True)


# ------------------------------------------------------------------ tables


def _size(title: str, values: Sequence[float], **options: Any) -> tuple[Column, float]:
    """A column of bytes in the unit of its largest value, with the factor."""
    scale, unit = (1e9, "GB") if max(values, default=0) >= 0.9995e9 else (1e6, "MB")
    return Column(f"{title}\n{unit}", unit=unit, digits="three", **options), scale


def _categories(answer: Answer) -> Table:
    prediction = answer.prediction
    full = {**prediction.in_full, **{name: size for name, size in prediction.at_peak.items()}}
    rows_of = {name: (prediction.in_full.get(name), prediction.at_peak.get(name)) for name in full}
    kept = rows_of.pop("activations kept", None)
    if kept is not None and "activations" in rows_of:
        rows_of["activations"] = (kept[0], rows_of["activations"][1])
    elif kept is not None:
        rows_of["activations"] = (kept[0], None)
    column, scale = _size("in full", [prediction.peak])
    peak = dataclasses.replace(column, title=column.title.replace("in full", "at the peak"))
    per = Column("bytes per\nparameter", digits="three")
    count = max(1, prediction.parameters)
    rows: list[list[Cell]] = [
        [
            Text(name),
            Missing() if whole is None else Number(whole / scale),
            Number((at or 0) / scale),
            Missing() if whole is None or name == "activations" else Number(whole / count),
        ]
        for name, (whole, at) in rows_of.items()
        if max(whole or 0, at or 0) >= prediction.peak / 10_000
    ]
    rows.append([Text("in all"), Missing(), Number(prediction.peak / scale), Missing()])
    replayed = answer.replayed.reserved
    rows.append([Text("reserved by a caching allocator"), Missing(), Number(replayed / scale), Missing()])
    return Table(
        "Tensors by category",
        [Column("", name="category", align="left", key=True), column, peak, per],
        rows,
        detail=True,
    )


def _modules(answer: Answer) -> Table:
    kept = answer.prediction.trace.kept
    shown, rest = kept[:PLACES], kept[PLACES:]
    column, scale = _size("kept", [one.bytes for one in shown])
    rows: list[list[Cell]] = [
        [Text(one.place or ("the model itself" if one.type else "the loss")), Text(one.type or "–"),
         Number(one.modules), Number(one.bytes / scale)]
        for one in shown
    ]  # fmt: skip
    if rest:
        rows.append([Text("all others"), Text("–"), Missing(), Number(sum(one.bytes for one in rest) / scale)])
    columns = [
        Column("module", align="left", key=True), Column("type", align="left"), Column("modules", digits="whole"),
        column,
    ]  # fmt: skip
    return Table("Activations kept for the backward pass", columns, rows, detail=True)


def _devices(answer: Answer) -> Table:
    columns = [Column("device", align="left", key=True), Column("verdict", align="left", prose=True)]
    rows: list[list[Cell]] = [
        [Text(fit.device.name, mark=None if fit.fits else CellMark.WARNING), Text(fit.sentence)] for fit in answer.fits
    ]
    if answer.largest:
        columns.append(Column(f"largest\n{answer.largest_of}", digits="thousands"))
        for row, fit in zip(rows, answer.fits, strict=True):
            most = answer.largest[fit.device.name]
            row.append(Number(most) if most else Missing("none fits"))
    return Table("Devices", columns, rows)


def _remedies(answer: Answer) -> Table:
    saves, scale = _size("saves", [one.saves for one in answer.remedies])
    peak, peak_scale = _size("then at\nthe peak", [one.peak for one in answer.remedies])
    title = "Changes that save memory" + (f", for {answer.remedied.name}" if answer.remedied else "")
    columns = [
        Column("change", align="left", key=True, prose=True), Column("enough", align="left"), saves, peak,
        Column("cost", align="left", prose=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            Text(one.option),
            Text("yes" if one.fits else "no") if one.fits is not None else Missing(),
            Number(one.saves / scale),
            Number(one.peak / peak_scale),
            Text(one.cost),
        ]
        for one in answer.remedies
    ]
    return Table(title, columns, rows)


def _compared(answer: Answer) -> Table:
    sizes = [one.peak for one in answer.compared]
    states, scale = _size("states", sizes)
    peak, _ = _size("at the peak", sizes)
    columns = [
        Column("optimizer", align="left", key=True),
        states,
        Column("bytes per\nparameter", digits="three"),
        peak,
    ]
    rows: list[list[Cell]] = []
    for one in answer.compared:
        held = sum(one.share.states.values())
        rows.append(
            [
                Text(one.setting.optimizer),
                Number(held / scale),
                Number(held / max(1, one.parameters)),
                Number(one.peak / scale),
            ]
        )
    return Table("Optimizers", columns, rows)


def _measured(answer: Answer, measured: Measured) -> Table:
    prediction = answer.prediction
    pairs: dict[str, tuple[int | None, int | None]] = {
        "parameters": (prediction.optimizer.parameters, measured.parameters),
        "gradients": (prediction.optimizer.gradients, measured.gradients),
        "states": (prediction.optimizer.optimizer, measured.states),
        "peak of tensors": (prediction.peak, measured.peak),
    }
    if measured.resident is not None and measured.libraries is not None:
        pairs["libraries, before there is a model"] = (None, measured.libraries)
        pairs["allocator and scratch memory"] = (None, measured.allocator)
        pairs["peak of the process"] = (prediction.peak + measured.libraries, measured.resident)
    column, scale = _size("predicted", [measured.resident or measured.peak])
    other = dataclasses.replace(column, title=column.title.replace("predicted", "measured"))
    rows: list[list[Cell]] = [
        [
            Text(name),
            Missing() if before is None else Number(before / scale),
            Missing() if after is None else Number(after / scale),
            Missing() if not before or not after else Number(100 * (before / after - 1)),
        ]
        for name, (before, after) in pairs.items()
    ]
    columns = [Column("", name="category", align="left", key=True), column, other, Column("off by\n%", digits=2)]
    return Table(f"Predicted and measured here, {counted(measured.steps, 'step')}", columns, rows)


# ------------------------------------------------------------------ for programs


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
        "notes": [*answer.notes, ON_A_GPU],
        "verdicts": verdicts(answer),
    }


def _failed(fit: Fit) -> dict[str, int] | None:
    if fit.failed is None:
        return None
    return {"asked": fit.failed.asked, "free": fit.failed.free, "largest_free": fit.failed.largest_free}
