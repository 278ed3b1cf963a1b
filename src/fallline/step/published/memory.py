"""Peak memory of training GPT-2 with an optimizer, in two figures.

*Seed-like* is one forward and backward pass and then one step, as in the published table, so that activations and
states never exist together. *True* is the peak over a whole iteration from the second on, when states are resident.

``python -m fallline.step.published.memory '{…}'`` measures in a process of its own. On ``meta`` tensors the same code
counts allocations without memory or time; figures marked "modelled" come from this.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any

import torch

from fallline.measure.memory import peak_resident, reset_peak_resident
from fallline.memory.live import LiveBytes, held_by_states
from fallline.memory.model import program_for
from fallline.memory.states import stored
from fallline.memory.temporaries import MadeUpValues
from fallline.step.gpt2 import Gpt2
from fallline.step.implementations import build


class Failed(Exception):
    """Raised if the measuring process ended early, most likely for want of memory; it says how."""


@dataclasses.dataclass(frozen=True)
class Peaks:
    """The memory of one configuration, in bytes."""

    seed_like: int
    true: int
    states: int
    step_extra: int
    """The temporaries of a step at its peak, beyond parameters, gradients and states."""
    resident: int | None = None
    """The peak of the process over the second iteration, if it was measured."""


def peaks(config: Gpt2, optimizer: str, implementation: str, *, device: str = "meta", seed: int = 0) -> Peaks:
    """Measures on ``cpu``, counts on ``meta``."""
    torch.manual_seed(seed)
    with torch.device(device):
        model = config.model()
        tokens = torch.randint(config.vocabulary, (1, config.context))
    params = list(model.parameters())
    made: Any = None
    with LiveBytes([*params, tokens]) as live:
        model(tokens).backward()
        made = (
            _Modelled(optimizer, implementation, params)
            if device == "meta"
            else build(implementation, optimizer, params, {})
        )
        made.step()
        seed_like = live.peak
        reset_peak_resident()
        # One iteration is enough, because the same operations allocate the same bytes in every later one.
        for param in params:
            param.grad = None
        live.reset_peak()
        model(tokens).backward()
        activations, held = live.peak, live.now
        live.reset_peak()
        made.step()
        true = max(activations, live.peak)
        extra = live.peak - held
    return Peaks(seed_like, true, held_by_states(made), extra, peak_resident() if device == "cpu" else None)


class _Modelled:
    """Stands for an optimizer on ``meta`` tensors, where fused kernels cannot run; they allocate only states."""

    def __init__(self, optimizer: str, implementation: str, params: list[Any]):
        self._fused = "fused" in implementation
        self._optimizer = build("eager" if self._fused else implementation, optimizer, params, {})
        self.state = self._optimizer.state

    def step(self) -> None:
        if self._fused:
            if not self.state:
                self._make_states()
            return
        with MadeUpValues():
            self._optimizer.step()

    def _make_states(self) -> None:
        for group in self._optimizer.param_groups:
            for param in group["params"]:
                tensors = stored(program_for(self._optimizer, group, param), param, group["state_dtype"])
                self.state[param] = {one.key: one.on_meta() for one in tensors}


def measured(config: Gpt2, optimizer: str, implementation: str, threads: int, seed: int = 0) -> Peaks:
    """Measures in another process, so that memory of this one does not count and none of the other stays."""
    asked = {
        "config": config._asdict(),
        "optimizer": optimizer,
        "implementation": implementation,
        "threads": threads,
        "seed": seed,
    }
    command = [sys.executable, "-m", "fallline.step.published.memory", json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"the process ended with {done.returncode}"]
        raise Failed(last[0])
    return Peaks(**json.loads(done.stdout.splitlines()[-1]))


def _main() -> None:
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(asked["threads"])
    found = peaks(
        Gpt2(**asked["config"]), asked["optimizer"], asked["implementation"], device="cpu", seed=asked["seed"]
    )
    print(json.dumps(dataclasses.asdict(found)))


if __name__ == "__main__":
    _main()
