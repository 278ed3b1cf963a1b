"""The limits of a run: how many rounds, how long, how large."""

from __future__ import annotations

import dataclasses
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


@dataclasses.dataclass(frozen=True)
class Settings:
    quick: bool = False
    """A run to see that everything works: few rounds, small tensors, no conclusions."""
    build: bool = False
    """Also time a build from a clean clone, which takes minutes."""
    compiled: bool = False
    """Also time peers through torch.compile, which takes half an hour."""
    seed: int = 0
    threads: int = 2
    least_rounds: int = 21
    most_rounds: int = 301
    seconds: float = 60.0
    """Per case; what comes first, this or the interval, ends it."""
    interval: float = 0.01
    """Half the width, relative to the ratio, at which a comparison is settled."""
    sample_seconds: float = 0.005
    """A sample repeats short calls until it lasts this long."""

    @staticmethod
    def for_quick(**options: int | bool) -> Settings:
        chosen = Settings(quick=True, least_rounds=3, most_rounds=5, seconds=4.0, sample_seconds=0.001)
        return dataclasses.replace(chosen, **options)  # type: ignore[arg-type]

    def elements(self, wanted: int) -> int:
        """Tensor sizes; a quick run takes a sixteenth of the large ones."""
        return wanted if not self.quick or wanted <= 65536 else wanted // 16
