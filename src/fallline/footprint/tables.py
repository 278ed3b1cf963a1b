"""The answer as tables: categories, modules, devices, changes, optimizers, and what was measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from fallline.document.blocks import Table
from fallline.document.cells import Cell, Column, Mark, Missing, Number, Text
from fallline.document.numbers import counted
from fallline.footprint.answer import Answer
from fallline.footprint.measuring import Measured

PLACES = 12
"""The number of modules that the table shows."""


def _size(title: str, values: Sequence[float], **options: Any) -> tuple[Column, float]:
    """A column of bytes in the unit of its largest value, with the factor."""
    scale, unit = (1e9, "GB") if max(values, default=0) >= 0.9995e9 else (1e6, "MB")
    return Column(f"{title}\n{unit}", unit=unit, digits="three", **options), scale


def _per_parameter() -> Column:
    return Column("bytes per\nparameter", unit="bytes", digits="three", name="bytes per parameter")


def categories(answer: Answer) -> Table:
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
    per = _per_parameter()
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


def modules(answer: Answer) -> Table:
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


def devices(answer: Answer) -> Table:
    columns = [Column("device", align="left", key=True), Column("verdict", align="left", prose=True)]
    rows: list[list[Cell]] = [
        [Text(fit.device.name, mark=None if fit.fits else Mark.WARNING), Text(fit.sentence)] for fit in answer.fits
    ]
    if answer.largest:
        columns.append(Column(f"largest\n{answer.largest_of}", digits="thousands"))
        for row, fit in zip(rows, answer.fits, strict=True):
            most = answer.largest[fit.device.name]
            row.append(Number(most) if most else Missing("none fits"))
    return Table("Devices", columns, rows)


def remedies(answer: Answer) -> Table:
    """With a column that says which are enough, where there is a device that lacks memory."""
    found, device = answer.remedies, answer.remedied
    saves, scale = _size("saves", [one.saves for one in found])
    peak, peak_scale = _size("then at\nthe peak", [one.peak for one in found])
    columns = [
        Column("change", align="left", key=True, prose=True),
        *([Column("enough", align="left")] if device else []),
        saves,
        peak,
        Column("cost", align="left", prose=True),
    ]
    rows: list[list[Cell]] = [
        [
            Text(one.option),
            *([Text("yes" if one.fits else "no")] if device else []),
            Number(one.saves / scale),
            Number(one.peak / peak_scale),
            Text(one.cost),
        ]
        for one in found
    ]
    return Table("Changes that save memory" + (f", for {device.name}" if device else ""), columns, rows)


def compared(answer: Answer) -> Table:
    sizes = [one.peak for one in answer.compared]
    states, scale = _size("states", sizes)
    peak, _ = _size("at the peak", sizes)
    columns = [
        Column("optimizer", align="left", key=True),
        states,
        _per_parameter(),
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


def measured(answer: Answer, found: Measured) -> Table:
    prediction = answer.prediction
    pairs: dict[str, tuple[int | None, int | None]] = {
        "parameters": (prediction.optimizer.parameters, found.parameters),
        "gradients": (prediction.optimizer.gradients, found.gradients),
        "states": (prediction.optimizer.optimizer, found.states),
        "peak of tensors": (prediction.peak, found.peak),
    }
    if found.resident is not None and found.libraries is not None:
        pairs["libraries, before there is a model"] = (None, found.libraries)
        pairs["reductions, allocator and scratch memory"] = (prediction.optimizer.workspace, found.allocator)
        pairs["peak of the process"] = (prediction.process + found.libraries, found.resident)
    column, scale = _size("predicted", [found.resident or found.peak])
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
    return Table(f"Predicted and measured here, {counted(found.steps, 'step')}", columns, rows)
