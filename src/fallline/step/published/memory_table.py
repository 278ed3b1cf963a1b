"""The memory table of ``adan-gpt2``: modelled for every configuration, measured while there is time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import torch

from fallline.measure import machine
from fallline.step.gpt2 import Gpt2
from fallline.step.published.memory import Failed, measured, peaks
from fallline.step.published.presets import CONFIGURATIONS
from fallline.step.results import Results

OPTIMIZERS = {"Adam": ("adam", "torch-loop"), "FusedAdan": ("adan", "fused")}
"""The two columns of the published table."""
WAYS = {
    "Adan loop": ("adan", "eager"),
    "Adan multi": ("adan", "foreach"),
    "fused loop": ("adan", "fused-loop"),
    "fused multi": ("adan", "fused"),
}
"""The arms that compare the memory of single- and multi-tensor access, on the first configuration."""


def measure_memory(results: Results, seconds: float, seed: int, tell: Callable[[str], Any]) -> None:
    """Adds the figures that the file does not hold yet."""
    known = results.memory()
    for config in CONFIGURATIONS:
        for label, (optimizer, implementation) in OPTIMIZERS.items():
            _once(results, known, f"modelled {config.name} {label}", config, optimizer, implementation)
    for label, (optimizer, implementation) in WAYS.items():
        _once(results, known, f"step {CONFIGURATIONS[0].name} {label}", CONFIGURATIONS[0], optimizer, implementation)
    end, took = time.perf_counter() + seconds, 0.0
    threads = torch.get_num_threads()
    for config in sorted(CONFIGURATIONS, key=lambda one: (one.parameters, one.heads)):
        for label, (optimizer, implementation) in OPTIMIZERS.items():
            key = f"measured {config.name} {label}"
            # A measurement that failed is tried again, because memory of other processes may be free now.
            if (key in known and "failed" not in known[key]) or not _fits(results, config, label):
                continue
            # The next one takes at least as long as the last.
            if time.perf_counter() + took > end:
                return
            tell(f"memory of {config.name} with {label}: two whole iterations in a process of their own")
            start = time.perf_counter()
            try:
                facts = dataclasses.asdict(measured(config, optimizer, implementation, threads, seed))
            except Failed as error:
                facts = {"failed": str(error)}
            took = time.perf_counter() - start
            results.add_memory(key, {**facts, "seconds": took})


def _once(results: Results, known: dict[str, Any], key: str, config: Gpt2, optimizer: str, implementation: str) -> None:
    if key not in known:
        results.add_memory(key, dataclasses.asdict(peaks(config, optimizer, implementation)))


def _fits(results: Results, config: Gpt2, label: str) -> bool:
    free = machine.available_memory()
    # A tenth more than tensors: the process itself and scratch memory.
    return free is None or 1.1 * results.memory()[f"modelled {config.name} {label}"]["true"] + 1e9 < free
