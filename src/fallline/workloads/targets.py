"""Targets and how they were found: the records in ``targets.json``, written by ``benchmarks/set_targets.py``.

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


def record(name: str, family: str) -> dict[str, Any] | None:
    """The record of one target: value, date, machine, the methods and their settings; None if it was never set."""
    return records().get(name, {}).get(family)


def data_family(data_name: str) -> str:
    """The data's name without its version: all releases of Python share one target.

    >>> data_family("Python sources 3.11.7 0a1b2c3d"), data_family("generated clicks")
    ('Python sources', 'generated clicks')
    """
    return data_name if not data_name.startswith("Python sources") else "Python sources"


def with_target(workload: Workload) -> Workload:
    """The workload with its recorded target; without, if that was set for another budget."""
    known = record(workload.name, data_family(workload.data_name))
    if known is None or known["max_steps"] != workload.max_steps:
        return workload
    return workload.replace(target=known.get("target"))
