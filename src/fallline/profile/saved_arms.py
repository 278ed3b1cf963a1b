"""The arms' checkpoints in a folder beside the results file: a run that was killed goes on from them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fallline.profile.plan import Plan
from fallline.training import checkpoints

SAVE_EVERY = 20.0
"""Seconds between checkpoints on disk."""


class SavedArms:
    """Writes and reads the checkpoints of one cell; the folder is there only while a repeat goes on."""

    def __init__(self, plan: Plan, results: Path, notice: Callable[[str], None]) -> None:
        """``notice`` is told of checkpoints that are lost; no result depends on them."""
        self.plan, self.notice = plan, notice
        self.folder = results.with_name(results.name + ".states")
        self._written = time.perf_counter()

    def read(self, labels: Sequence[str], repeat: int, until: int) -> dict[str, Any]:
        """The checkpoints of a repeat, by arm, that are not beyond a step."""
        saved = {}
        for label in labels:
            content = checkpoints.read(str(self._path(label, repeat)), self._identity(label, repeat))
            if content is not None and content["step"] <= until:
                saved[label] = content
        if lost := [label for label in labels if label not in saved]:
            self.notice(
                f"repeat {repeat + 1}: no readable checkpoint of {', '.join(lost)}; its steps are taken again, untimed"
            )
        return saved

    def write(self, contents: Mapping[str, Any], repeat: int) -> None:
        """Writes the checkpoints of a block unless others were written a moment ago."""
        if not contents or time.perf_counter() - self._written < SAVE_EVERY:
            return
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            self.notice(f"{self.folder}: checkpoints could not be written: {error.strerror or error}")
            contents = {}
        for label, content in contents.items():
            identity = {checkpoints.IDENTITY: self._identity(label, repeat)}
            if why := checkpoints.write(self._path(label, repeat), {**identity, **content}):
                self.notice(f"{label}: its checkpoint could not be written: {why}")
        self._written = time.perf_counter()

    def forget(self, repeat: int) -> None:
        """Removes the checkpoints of a repeat that is complete."""
        for path in self.folder.glob(f"{self.plan.key}-{repeat}-*"):
            path.unlink(missing_ok=True)
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _path(self, label: str, repeat: int) -> Path:
        return self.folder / f"{self.plan.key}-{repeat}-{hashlib.sha256(label.encode()).hexdigest()[:8]}.pt"

    def _identity(self, label: str, repeat: int) -> str:
        return f"{self.plan.key} {repeat} {label}"
