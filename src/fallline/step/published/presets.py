"""The two published comparisons, as plans."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fallline.step.gpt2 import Gpt2
from fallline.step.plan import Arm, Cell, Conditions, Plan, arms_of, expand, grid

ADAM_GRID, ADAN_GPT2 = "adam-grid", "adan-gpt2"

GRID_TENSORS = (1, 2, 4, 8, 16, 32)
GRID_SIZES = (16384, 65536, 262144, 1048576, 4194304)
GRID_IMPLEMENTATIONS = ("compiled", "eager", "fused")

ADAM, ADAM_FUSED, FUSED = "Adam", "Adam fused", "fused multi"
ADAN_ARMS = (
    Arm(ADAM, "adam", "torch-loop"),
    Arm(ADAM_FUSED, "adam", "fused"),
    Arm("Adan loop", "adan", "eager"),
    Arm("Adan multi", "adan", "foreach"),
    Arm("fused loop", "adan", "fused-loop"),
    Arm(FUSED, "adan", "fused"),
)
"""The arms: torch's default Adam, a fused Adam, and Adan in the four forms of its own package."""

CONFIGURATIONS = (
    *(Gpt2(heads, 6, 768) for heads in (6, 12, 16)),
    *(Gpt2(heads, 12, 768) for heads in (6, 12, 16)),
    Gpt2(16, 6, 1024),
    Gpt2(16, 12, 1024),
    *(Gpt2(heads, 24, 768) for heads in (6, 12, 16)),
    *(Gpt2(heads, 6, 1536) for heads in (6, 12, 16)),
    Gpt2(16, 24, 1024),
    Gpt2(16, 6, 2048),
    *(Gpt2(heads, 12, 1536) for heads in (6, 12, 16)),
    Gpt2(16, 6, 2560),
    Gpt2(16, 12, 2048),
    *(Gpt2(heads, 24, 1536) for heads in (6, 12, 16)),
    Gpt2(16, 24, 2048),
)
"""In the order of the published table."""
UP_TO = 250_000_000
"""Parameters that are measured by default."""


def adam_grid(
    conditions: Conditions, implementations: Sequence[str] = GRID_IMPLEMENTATIONS, state_dtype: str = "float32"
) -> Plan:
    """30 cells by count and size of tensors, AMSGrad on (as published) and off."""
    cells: list[Cell] = []
    for amsgrad in (True, False):
        arms = arms_of("adam", implementations, {"amsgrad": amsgrad}, state_dtype)
        title = f"Adam, amsgrad {'on' if amsgrad else 'off'}"
        cells += expand(grid(GRID_TENSORS, GRID_SIZES, arms), conditions, title)
    return Plan(ADAM_GRID, tuple(cells))


def adan_gpt2(conditions: Conditions, up_to: int = UP_TO) -> Plan:
    """Adan against Adam on GPT-2's shapes; head counts share a cell, because they share all shapes."""
    cells: dict[tuple[int, int], Cell] = {}
    for config in CONFIGURATIONS:
        if config.parameters <= up_to:
            label = f"{config.layers} layers × {config.width}"
            cells.setdefault((config.layers, config.width), Cell(label, tuple(config.shapes()), ADAN_ARMS, ""))
    # The smallest working set, 1.3 GB, is many times any cache, so that flushing changes nothing.
    chosen = dataclasses.replace(conditions, flush=bool(conditions.flush))
    expanded = expand(list(cells.values()), chosen, "GPT-2, Adam and Adan")
    return Plan(ADAN_GPT2, tuple(expanded), with_memory=True)
