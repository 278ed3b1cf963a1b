"""A step of Muon under DDP in two processes: one exchange at the end against one during each round of the work.

    unshare -n sh -c 'ip link set lo up && tc qdisc add dev lo root tbf rate 500mbit burst 4mb limit 64mb &&
        torchrun --nproc-per-node 2 benchmarks/ddp_overlap.py'

The first two commands make a slow link of a loopback device of their own; without them the link is memory.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import fallline
from fallline.distributed import owners

PAIRS, MATRICES, SIDE = 8, 16, 512


def made(rounds: int) -> tuple[list[nn.Parameter], Any]:
    owners.ROUNDS = rounds
    assert dist.group.WORLD is not None
    torch.manual_seed(0)
    params = [nn.Parameter(torch.randn(SIDE, SIDE) * 0.02) for _ in range(MATRICES)]
    for p in params:
        p.grad = torch.randn_like(p)
    optimizer = fallline.Muon(params).split_over(dist.group.WORLD)
    optimizer.step()
    return params, optimizer


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    arms = {rounds: made(rounds) for rounds in (1, owners.ROUNDS)}
    seconds: dict[int, list[float]] = {rounds: [] for rounds in arms}
    for k in range(PAIRS):
        for rounds in list(arms) if k % 2 else list(arms)[::-1]:
            dist.barrier()
            begin = time.perf_counter()
            arms[rounds][1].step()
            dist.barrier()
            seconds[rounds].append(time.perf_counter() - begin)
    if dist.get_rank() == 0:
        alone, overlapped = seconds.values()
        low, middle, high = statistics.quantiles([b / a for a, b in zip(alone, overlapped, strict=True)])
        medians = " and ".join(f"{1e3 * statistics.median(some):.0f}" for some in seconds.values())
        print(f"{medians} ms; ratio {middle:.3f} (quartiles {low:.3f} and {high:.3f} of {PAIRS} pairs)")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
