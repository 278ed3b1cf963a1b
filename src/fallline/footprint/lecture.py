"""The published example of GPT-2 with 1.5 G parameters, computed: where 41 GB come from, and which numbers disagree.

The example is from a lecture on adaptive optimizers, after Rajbhandari et al. 2020, "ZeRO: Memory optimizations
toward training trillion parameter models", sections 3.1 and 3.2. Everything that follows from the number of parameters
and the shape of the model is computed here; only two of its eight sections, activations with checkpointing and
fragmentation, depend on a program and an allocator that nobody has any more, and are quoted.
"""

from __future__ import annotations

import dataclasses

import torch

from fallline.document.figures import Bar, Mark, Part, StackedBars
from fallline.memory import Memory, memory_of
from fallline.optim.registry import create

GB = 1e9
PARAMETERS = 1_500_000_000
"""Ψ of the example; the released model has 1,557,611,200."""
LAYERS, WIDTH, SEQUENCE, BATCH = 48, 1600, 1024, 32
SAVED_PER_LAYER = 12
"""Elements that one layer saves for each token, in widths, by the estimate of the source."""
QUOTED_CHECKPOINTED, QUOTED_FRAGMENTATION = 8 * GB, 3 * GB
QUOTED_SAVING = 0.5
"""The share of the activations that checkpointing saves, by the text of the lecture."""


@dataclasses.dataclass(frozen=True)
class Example:
    """The bytes of the example."""

    model: Memory
    """Parameters, gradients, masters and states, by the memory model of this project."""
    activations: float
    """Without checkpointing."""
    buffer: int
    """All gradients fused into one float32 buffer."""
    checkpointed: float = QUOTED_CHECKPOINTED
    fragmentation: float = QUOTED_FRAGMENTATION

    @property
    def held(self) -> int:
        """16 bytes per parameter; the counter of steps is left out."""
        return self.model.held - self.model.counters

    @property
    def total(self) -> float:
        return self.held + self.checkpointed + self.buffer + self.fragmentation

    @property
    def checkpointing_saves(self) -> float:
        """The share of the activations that checkpointing saves, by the example's own two numbers."""
        return 1 - self.checkpointed / self.activations


def example() -> Example:
    """The numbers of the example.

    >>> found = example()
    >>> found.model.parameters / GB, found.held / GB, found.held / PARAMETERS, found.buffer / GB, found.total / GB
    (3.0, 24.0, 16.0, 6.0, 41.0)
    >>> round(found.activations / GB, 1), round(found.checkpointing_saves, 2)
    (60.4, 0.87)
    """
    weights = torch.nn.Parameter(torch.empty(PARAMETERS, dtype=torch.float16, device="meta"))
    model = memory_of(create("adamw", [weights], master_weights=True))
    activations = SAVED_PER_LAYER * WIDTH * BATCH * SEQUENCE * LAYERS * torch.float16.itemsize
    return Example(model, activations, PARAMETERS * torch.float32.itemsize)


def lecture_bar(found: Example | None = None) -> StackedBars:
    """The stacked bar 3 + 3 + 6 + 6 + 6 + 8 + 6 + 3 = 41 GB, for a terminal, PNG, SVG or a page."""
    found = example() if found is None else found
    states = {name: sum(sizes.values()) for name, sizes in found.model.states.items()}
    sections = {
        "parameters (fp16)": found.model.parameters,
        "gradients (fp16)": found.model.gradients,
        "parameters (fp32)": found.model.masters,
        "momentum (fp32)": states["exp_avg"],
        "variance (fp32)": states["exp_avg_sq"],
        "activations, checkpointed": found.checkpointed,
        "buffers (fp32)": found.buffer,
        "fragmentation": found.fragmentation,
    }
    return StackedBars(
        name="gpt2-memory",
        title="Training GPT-2 with 1.5 G parameters",
        unit="GB",
        bars=[Bar("GPT-2", [Part(name, size / GB) for name, size in sections.items()])],
        limits=[Mark(24, "24 GB"), Mark(32, "32 GB"), Mark(40, "40 GB")],
        caption=caption(found),
        digits="three",
    )


def caption(found: Example) -> str:
    """One sentence with the numbers of the figure."""
    return (
        f"16 bytes per parameter are {found.held / GB:.0f} GB; with activations, buffers and fragmentation it is "
        f"{found.total / GB:.0f} GB, which no card of 32 GB holds."
    )
