"""Targets and how they were found: the records in ``targets.json``, written by ``set_targets``.

A target belongs to a workload and its data: ``images_resnet`` has one for Fashion-MNIST and one for the stand-in.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from fallline.workloads.workload import Workload

FILE = Path(__file__).with_name("targets.json")


@functools.cache
def records() -> dict[str, dict[str, Any]]:
    """``{workload: {data: record}}``."""
    if not FILE.exists():
        return {}
    loaded: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return loaded


def record(name: str, data_family: str) -> dict[str, Any] | None:
    """What is known of one target: value, date, machine, the methods and their settings; None if it was never set."""
    return records().get(name, {}).get(data_family)


def with_target(workload: Workload, data_family: str | None = None) -> Workload:
    """The workload with its recorded target and seconds.  ``data_family`` is the data's name without its version."""
    known = record(workload.name, data_family or workload.data_name)
    if known is None or known["max_steps"] != workload.max_steps:
        return workload
    return workload.replace(target=known["target"], max_seconds=known["max_seconds"])
