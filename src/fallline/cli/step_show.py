"""Shows what ``fallline step`` measured, from the results file."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Format:
    kind: str
    quiet: bool
    against: str | None
    figure: Path | None

    def check(self) -> None:
        pass


def present(plan: Any, results: Any, chosen: Format, limits: Any) -> None:
    records = results.load(plan.cells)
    print(len(records), "records")
