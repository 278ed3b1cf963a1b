"""A workload as it is entered in a race."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fallline.workloads.workload import Workload

FACTS = ("metric", "direction", "max_steps", "eval_every", "data")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A workload in a race: what to load, and what was asked of it."""

    spec: str
    """A built-in name, or the absolute path of a file with the function's name."""
    workload: Workload
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fields of the workload that the user changed, such as the target; ``rung`` where it is a rung of a ladder."""

    @property
    def name(self) -> str:
        return self.workload.name

    @property
    def draws(self) -> str:
        """The name that draws are seeded by: the rungs of a ladder have them in common."""
        return str(self.changes["rung"]["of"]) if "rung" in self.changes else self.name

    @property
    def file(self) -> Path | None:
        """The user's file that it is from; None for a built-in one."""
        path = Path(self.spec.rpartition(":")[0] if ".py:" in self.spec else self.spec)
        return path if path.suffix == ".py" else None

    def facts(self) -> dict[str, Any]:
        """The facts that make results comparable: with others it is another workload."""
        w = self.workload
        return dict(zip(FACTS, (w.metric, w.direction, w.max_steps, w.eval_every, w.data_name), strict=True))
