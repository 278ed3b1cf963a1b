"""``python -m benchmarks.language_and_vision``: is AdamW's edge over SGD larger on language than on vision?

Two tasks of language and two of vision.  Both methods run at the settings that were found best for each task when its
target was set: the best of 14 points each, ``workloads/targets.json``.  Ten studies, each with the same seeds for both.
Races go on where they were stopped.  Writes ``src/fallline/gallery/data/language_and_vision.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fallline.measure import machine
from fallline.race.results import Results
from fallline.workloads.loading import load
from fallline.workloads.targets import data_family, records
from fallline.workloads.workload import Workload

TASKS = {"chars": "language", "images_resnet": "vision", "translation": "language", "images_vit": "vision"}
METHODS = {"adamw": "adamw", "sgd": "nesterov"}
"""Contestant → the method of ``targets.json``."""
STUDIES = 10
ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "language_and_vision"
OUT = ROOT / "src" / "fallline" / "gallery" / "data" / "language_and_vision.json"
COMMAND = "python -m benchmarks.language_and_vision"


def main() -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--stored", action="store_true", help="race nothing; write the studies that have ended")
    racing = not parser.parse_args().stored
    WORK.mkdir(parents=True, exist_ok=True)
    for name in TASKS:
        if racing:
            race(name, contestants(name, settings_of(load(name))), WORK / f"{name}.sqlite")
        # After every task, and of all of them: who ends it early has what is there.
        found = {task: record for task in TASKS if (record := ended(task))["steps"]["adamw"]}
        OUT.write_text(json.dumps(stored(found), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def settings_of(workload: Workload) -> dict[str, dict[str, float]]:
    known = records()[workload.name][data_family(workload.data_name)]
    return {title: known["by_method"][method]["setting"] for title, method in METHODS.items()}


def ended(name: str) -> dict[str, Any]:
    """Everything known about a task: its description, and the studies that have ended."""
    workload = load(name)
    return {
        "field": TASKS[name],
        "data": workload.data_name,
        "metric": workload.metric,
        "target": workload.target,
        "max_steps": workload.max_steps,
        "settings": settings_of(workload),
        "steps": steps_to_target(WORK / f"{name}.sqlite"),
    }


def stored(found: Mapping[str, Any]) -> dict[str, Any]:
    counts = ", ".join(f"{name} ({len(task['steps']['adamw'])} studies)" for name, task in found.items())
    return {
        "what": f"races of {' and '.join(METHODS)} on {counts}",
        "command": COMMAND,
        "machine": machine.describe(),
        "tasks": found,
    }


def contestants(name: str, settings: Mapping[str, Mapping[str, float]]) -> Path:
    """A file of contestants with these settings."""
    tables = []
    for title, setting in settings.items():
        lines = dict(setting)
        more: dict[str, Any] = {"warmup_factor": 0.05}
        if "one_minus_momentum" in lines:
            more |= {"momentum": 1 - lines.pop("one_minus_momentum"), "nesterov": True}
        shown = ", ".join(f"{key} = {json.dumps(value)}" for key, value in {**lines, **more}.items())
        tables.append(f'[{title}]\noptimizer = "{title}"\nsettings = {{ {shown} }}\n')
    path = WORK / f"{name}.toml"
    path.write_text("\n".join(tables), encoding="utf-8")
    return path


def race(name: str, file: Path, results: Path) -> None:
    command = [sys.executable, "-m", "fallline", "race", name, "--contestants", str(file), "--trials", "1"]
    command += ["--studies", str(STUDIES), "--clock", "steps", "--no-early-stop", "--results", str(results), "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def steps_to_target(results: Path) -> dict[str, list[int | None]]:
    """Contestant → steps by study, of the studies that both have ended; None where the target was missed."""
    if not results.exists():
        return {name: [] for name in METHODS}
    query = "select study, steps_to_target from trial where contestant = ? and kind = 'race' and status != ''"
    with Results(results, writable=False) as file:
        ended = {name: dict(map(tuple, file.store.rows(query, (name,)))) for name in METHODS}
    both = sorted(set.intersection(*map(set, ended.values())))
    return {name: [by_study[study] for study in both] for name, by_study in ended.items()}


if __name__ == "__main__":
    sys.exit(main())
