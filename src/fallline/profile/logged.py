"""A profile as trackers see it: a run for each arm, repeat and size, and the profile's document beside them."""

from __future__ import annotations

import itertools
from pathlib import Path

from fallline.document.blocks import Document
from fallline.logs.material import Curve, Material, Run, Setting
from fallline.profile.arms import Arm
from fallline.profile.estimate import CellEstimate, estimate
from fallline.profile.quantities import MB
from fallline.profile.results import Results
from fallline.profile.trained import WHOLE

LOSS, SECONDS_PER_STEP = "training loss", "seconds per step"


def material_of(path: Path, document: Document) -> Material:
    """``document``: that of the same file."""
    with Results(path, writable=False) as results:
        cells = [estimate(results.load(plan)) for plan in results.plans()]
    runs = [
        _run(cell, arm, repeat)
        for cell in cells
        for arm in cell.record.plan.arms
        for repeat in range(cell.record.plan.repeats)
        if any(step.arm == arm.label and step.repeat == repeat for step in cell.record.steps)
    ]
    return Material(path.stem, runs, document, [path])


def _run(cell: CellEstimate, arm: Arm, repeat: int) -> Run:
    plan = cell.record.plan
    steps = [step for step in cell.record.steps if step.arm == arm.label and step.repeat == repeat]
    numbers = [step.step + 1 for step in steps]
    costs = [step.seconds[WHOLE] for step in steps]
    seconds = list(itertools.accumulate(costs))
    curves = [
        Curve(LOSS, numbers, [step.loss for step in steps], seconds),
        Curve(SECONDS_PER_STEP, numbers, costs, seconds),
    ]
    evaluations = cell.record.evaluations.get((repeat, arm.label), [])
    if evaluations:
        at, values = zip(*evaluations, strict=True)
        curves.append(Curve("validation", at, values, [seconds[-1]] * len(at)))
    about: dict[str, Setting] = {"workload": plan.workload, "repeat": repeat, "seed": plan.seed + repeat}
    about |= {"implementation": arm.implementation, "precision": plan.precision, "threads": plan.threads}
    settings = {
        name: value if isinstance(value, (str, int, float, bool)) else str(value)
        for name, value in arm.settings.items()
    }
    group = f"{plan.label} {arm.label}" if plan.label else arm.label
    return Run(_one_word(f"{group} seed {repeat}"), group, about | settings, curves, _outcome(cell, arm.label))


def _one_word(text: str) -> str:
    """Trackers make folders of names."""
    return "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in text)


def _outcome(cell: CellEstimate, label: str) -> dict[str, float]:
    """The numbers of the table, which are those of all repeats."""
    arm, facts = cell.arms.get(label), cell.record.arms[label].facts
    found = {f"{name} MB": facts[f"{name}_bytes"] / MB for name in ("peak", "state") if facts.get(f"{name}_bytes")}
    if arm is not None:
        unit, per_step = cell.unit
        # A slash would make a folder.
        found |= {unit.replace("/s", " per second"): per_step / arm.seconds, "ms per step": 1e3 * arm.seconds}
    return found
