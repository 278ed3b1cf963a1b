"""Learning-rate schedules, each as a closed form (a function) and as torch's ``LRScheduler`` (a class).

``lr(s)`` is the rate of the update that follows s updates, as torch counts: the first update has s = 0.
"""

from fallline.schedules.equal_cycles import EqualCycles, equal_cycles
from fallline.schedules.nested_restarts import NestedRestarts, nested_restarts
from fallline.schedules.warmup_cosine import WarmupCosine, warmup_cosine
from fallline.schedules.warmup_stable_decay import WarmupStableDecay, warmup_stable_decay

__all__ = [
    "EqualCycles",
    "NestedRestarts",
    "WarmupCosine",
    "WarmupStableDecay",
    "equal_cycles",
    "nested_restarts",
    "warmup_cosine",
    "warmup_stable_decay",
]
