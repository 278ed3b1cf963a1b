"""Finds the model that a user names."""

from __future__ import annotations

import difflib
from pathlib import Path

from fallline.footprint.trainees.config_json import from_config
from fallline.footprint.trainees.from_workload import from_workload, loaded
from fallline.footprint.trainees.language import NAMED, by_numbers, named
from fallline.footprint.trainees.trainee import Trainee, Unbuildable
from fallline.workloads.loading import BUILT_IN


def trainee(spec: str) -> Trainee:
    """A name, numbers, a ``config.json`` or its folder, ``FILE.py[:function]``, or a built-in workload.

    >>> trainee("gpt2-xl").sequence
    1024
    """
    found = named(spec) or by_numbers(spec)
    if found is not None:
        return found
    path = Path(spec).expanduser()
    if spec.endswith(".json"):
        return from_config(path, spec)
    if path.is_dir() and (path / "config.json").is_file():
        return from_config(path / "config.json", spec)
    if spec.endswith(".py") or ".py:" in spec or spec.replace("-", "_").lower() in BUILT_IN:
        return from_workload(loaded(spec), spec)
    close = difflib.get_close_matches(spec, [*NAMED, *BUILT_IN], n=3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(close)}?"
        if close
        else f"there are {', '.join(NAMED)}, gpt:… and llama:… with numbers, config.json, FILE.py and workloads"
    )
    raise Unbuildable(f"there is no model {spec!r}; {hint}")
