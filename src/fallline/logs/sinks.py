"""The trackers by name, and the one function that writes to any of them."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
from pathlib import Path

from fallline.logs.material import Material

SINKS = ("tensorboard", "trackio", "wandb", "mlflow")
"""Each a module of this package, and the name of the package that it needs."""


class SinkUnavailable(RuntimeError):
    """Raised if the tracker's package is not installed, or does not take what it is given."""


def check(sink: str) -> None:
    """Refuses a tracker that could not be written to, before any work is done for it."""
    if sink not in SINKS:
        raise SinkUnavailable(f"{sink}: no such tracker; there are {', '.join(SINKS)}")
    if importlib.util.find_spec(sink) is None:
        raise SinkUnavailable(f"{sink} is not installed; pip install {sink}")


def log(material: Material, sink: str, folder: Path) -> str:
    """Writes everything and returns a line that says where; ``folder`` is for trackers that write beside results."""
    check(sink)
    try:
        # Some trackers print to stdout, which belongs to the result.
        with contextlib.redirect_stdout(sys.stderr):
            return str(importlib.import_module(f"fallline.logs.{sink}").write(material, folder))
    except Exception as error:
        # Whatever a tracker raises, the results are stored, and only the copy is missing.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SinkUnavailable(f"{sink}: could not be written ({reason})") from error
