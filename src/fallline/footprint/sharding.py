"""The part of the model states that one of several ranks holds, and what offloading leaves on a device.

The stages are those of ZeRO (Rajbhandari et al. 2020, section 5): 1 shares the optimizer's states, 2 the gradients too,
3 the parameters too. Every rank has a batch of its own, so that activations are not shared. Nothing of this has been
measured here: sizes follow from the definitions, and from the largest block, which a rank needs whole while it works
on it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from torch import nn

from fallline.footprint.allocations import KINDS, Allocations, Kind
from fallline.footprint.setting import SHARDS, Setting
from fallline.memory import Memory
from fallline.memory.model import tensor_bytes

PREFETCHED = 2
"""Blocks of parameters that are whole at a time: the one at work, and the next."""


@dataclasses.dataclass(frozen=True)
class Share:
    """The bytes on one device and, with offloading, in the memory of its host."""

    divided: Mapping[Kind, int]
    """Kinds of memory that are shared, with the number of ranks."""
    states: Mapping[str, int]
    """On the device, by name and format."""
    step_temporaries: int
    scratch: int
    """That of matrix functions, which is kept from step to step."""
    communication: int
    """Buffers of collectives, and blocks that are gathered while they are needed."""
    host: int

    def applied(self, allocations: Allocations) -> Allocations:
        """The allocations of one rank."""
        size = allocations.size.copy()
        for kind, ranks in self.divided.items():
            of_kind = allocations.kind == KINDS.index(kind)
            size[of_kind] = -(-size[of_kind] // ranks)
        return dataclasses.replace(allocations, size=size)


def share_of(setting: Setting, memory: Memory, model: nn.Module) -> Share:
    """The share of one rank; all of it if there is one."""
    stage = 0 if setting.shard is None else 1 + SHARDS.index(setting.shard)
    kinds = [Kind.GRADIENTS] * (stage >= 2) + [Kind.PARAMETERS] * (stage >= 3)
    states_ranks = setting.ranks if stage else 1
    sizes = {name: _part(size, states_ranks) for name, size in states_by_name(memory).items()}
    # The host holds the states, the gradients that come to it, and, without masters, a copy of the parameters to step.
    copies = memory.gradients + (0 if memory.masters else memory.parameters)
    # Matrices are stepped whole, one batch after another, however many ranks own them.
    temporaries = memory.temporaries if memory.scratch else _part(memory.temporaries, states_ranks)
    return Share(
        divided={kind: setting.ranks for kind in kinds},
        states={} if setting.offload else sizes,
        step_temporaries=0 if setting.offload else temporaries,
        scratch=0 if setting.offload else memory.scratch,
        communication=_communication(setting, memory, model) if setting.ranks > 1 else 0,
        host=sum(sizes.values()) + _part(copies, states_ranks) + memory.scratch if setting.offload else 0,
    )


def states_by_name(memory: Memory) -> dict[str, int]:
    """Masters, each state by name and format, and counters."""
    found = {"master weights (float32)": memory.masters} if memory.masters else {}
    for name, sizes in memory.states.items():
        found |= {f"{name} ({format})": size for format, size in sizes.items()}
    return found | ({"counters": memory.counters} if memory.counters else {})


def _communication(setting: Setting, memory: Memory, model: nn.Module) -> int:
    """Without shards or with stage 1, buckets as large as all gradients (DistributedDataParallel's default); with the
    others, the blocks that are whole at a time."""
    if setting.shard in (None, "zero1"):
        return memory.gradients
    block = largest_block(model)
    return block + (PREFETCHED * block if setting.shard == "zero3" else 0)


def largest_block(model: nn.Module) -> int:
    """The bytes of the largest module inside a list, or of the largest parameter outside all of them."""
    listed = {
        id(param) for module in model.modules() if isinstance(module, nn.ModuleList) for param in module.parameters()
    }
    blocks = [
        sum(map(tensor_bytes, member.parameters()))
        for module in model.modules()
        if isinstance(module, nn.ModuleList)
        for member in module
    ]
    alone = [tensor_bytes(param) for param in model.parameters() if id(param) not in listed]
    return max([*blocks, *alone], default=0)


def _part(size: int, ranks: int) -> int:
    """The share of the rank that holds most."""
    return math.ceil(size / ranks)
