"""``python -m benchmarks.language_and_vision``: is AdamW's edge over SGD larger on language than on vision?

Two tasks of language and two of vision.  Both methods run at the settings that were found best for each task when its
target was set: the best of 14 points each, ``workloads/targets.json``.  Ten studies, each with the same seeds for both.
Races go on where they were stopped.  Writes ``src/fallline/gallery/data/language_and_vision.json``.
"""

from __future__ import annotations

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

TASKS = {"chars": "language", "images_resnet": "vision", "translation": "language", "images_vit": "vision"}
METHODS = {"adamw": "adamw", "sgd": "nesterov"}
"""Contestant → the method of ``targets.json``."""
STUDIES = 10
ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "language_and_vision"
OUT = ROOT / "src" / "fallline" / "gallery" / "data" / "language_and_vision.json"
COMMAND = "python -m benchmarks.language_and_vision"


def main() -> int:
    WORK.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for name, field in TASKS.items():
        workload = load(name)
        known = records()[name][data_family(workload.data_name)]
        settings = {title: known["by_method"][method]["setting"] for title, method in METHODS.items()}
        results = WORK / f"{name}.sqlite"
        race(name, contestants(name, settings), results)
        found[name] = {
            "field": field,
            "data": workload.data_name,
            "metric": workload.metric,
            "target": workload.target,
            "max_steps": workload.max_steps,
            "settings": settings,
            "steps": {title: steps_to_target(results, title) for title in METHODS},
        }
        # After every task: who ends it early has what is there.
        OUT.write_text(json.dumps(stored(found), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def stored(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "what": f"races of {', '.join(METHODS)} on {', '.join(found)}, {STUDIES} studies each",
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


def steps_to_target(results: Path, contestant: str) -> list[int | None]:
    """By study; None where the target was not met within the budget."""
    query = "select study, steps_to_target from trial where contestant = ? and kind = 'race' order by study"
    with Results(results, writable=False) as stored:
        return [None if steps is None else int(steps) for _, steps in stored.store.rows(query, (contestant,))]


if __name__ == "__main__":
    sys.exit(main())
