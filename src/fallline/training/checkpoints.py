"""Checkpoint files: whole or not at all, read without unpickling code, written as often as is cheap."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

SAVE_EVERY = 30.0
"""Seconds between checkpoints, and before the first.  Saving a small model takes 12 ms; with an interruption in ten
hours, writing and repeating together cost least when they come this far apart (Young's formula)."""
SAVING_SHARE = 1000
"""Checkpoints lie at least so many times their own duration apart: at most 0.1 % of the time goes into them."""
IDENTITY = "of"
"""The key under which a checkpoint says which training it belongs to."""


class Saver:
    """Saves one training, as often as was asked for or as is cheap."""

    def __init__(self, path: str | None, identity: str, every: float | None = None):
        """``every``: seconds between checkpoints; 0 saves whenever it is called, None as often as is cheap."""
        self._path = None if path is None else Path(path)
        self._identity = identity
        self._asked = every
        self._last = time.perf_counter()
        self._took = 0.0

    def save(self, content: Callable[[], Mapping[str, Any]]) -> str | None:
        """Saves what ``content`` gives if it is time to; returns why it could not, if it could not."""
        start = time.perf_counter()
        apart = max(SAVE_EVERY, SAVING_SHARE * self._took) if self._asked is None else self._asked
        if self._path is None or start - self._last < apart:
            return None
        reason = write(self._path, {IDENTITY: self._identity, **content()})
        self._last = time.perf_counter()
        self._took = self._last - start
        return reason


def write(path: Path, content: Mapping[str, Any]) -> str | None:
    """Writes a checkpoint; returns why it could not, in which case the one before stays.

    A full disk, or a state of somebody's optimizer that cannot be saved, is no reason to end a training.
    """
    # A file that is being written has another name.
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        torch.save(dict(content), partial)
        os.replace(partial, path)
    except Exception as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return None


def read(path: str | None, identity: str) -> dict[str, Any] | None:
    """A checkpoint of this training; None if there is none, if it is damaged, or if it is another training's."""
    if path is None or not Path(path).is_file():
        return None
    try:
        content: dict[str, Any] = torch.load(path, weights_only=True)
        return content if content[IDENTITY] == identity else None
    except Exception:
        return None
