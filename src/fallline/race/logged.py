"""A race as trackers see it: a run for each trial that trained, and the race's document beside them."""

from __future__ import annotations

from pathlib import Path

from fallline.logs.material import Curve, Material, Run, Setting
from fallline.race.plan import Rules
from fallline.race.results import Results, Row
from fallline.race.stored import stored_document


def material_of(path: Path) -> Material:
    document = stored_document(path)
    with Results(path, writable=False) as results:
        rules, curves = results.rules(), results.curves()
        metrics = {name: about["facts"]["metric"] for name, about in results.workloads().items()}
        rows = [row for row in results.rows() if curves.get(row.id)]
    several = len({row.workload for row in rows}) > 1
    runs = [
        Run(
            name=_name(row, rules, several),
            group=f"{row.workload} {row.contestant}" if several else row.contestant,
            settings={"workload": row.workload, "study": row.study, "seed": row.seed, **_settings(row)},
            curves=[Curve(metrics[row.workload], *map(list, zip(*curves[row.id], strict=True)))],
            outcome=_outcome(row),
        )
        for row in rows
    ]
    return Material(path.stem, runs, document, [path])


def _name(row: Row, rules: Rules, several: bool) -> str:
    """One word, because trackers make folders of names."""
    parts = [row.workload] if several else []
    parts += [row.contestant, f"study-{row.study}"]
    return "-".join([*parts, f"trial-{row.number}"] if rules.trials > 1 else parts)


def _settings(row: Row) -> dict[str, Setting]:
    """Tables and lists as text, because trackers compare single values."""
    return {
        name: value if isinstance(value, (str, int, float, bool)) else str(value) for name, value in row.point.items()
    }


def _outcome(row: Row) -> dict[str, float]:
    found = {"steps": row.steps, "steps to target": row.steps_to_target, "seconds of training": row.training_seconds}
    return {name: float(value) for name, value in found.items() if value is not None}
