"""The memory bandwidth of this machine for a number of streams: the limit that kernels are compared with.

The sweep itself is ``native/probe.cpp``, written by hand: plain sums with software prefetch.  Its best distance
depends on the machine and on the working set (one that fits a cache is legitimately faster than memory), so the
distance is chosen first, and the speed comes from fresh samples at that distance.
"""

from __future__ import annotations

import ctypes
import dataclasses
import random
import statistics
import time
from collections.abc import Callable

import torch

from fallline.lower.native.library import Library, NativeUnavailable, library

DISTANCES = (0, 64, 128, 256, 512, 1024, 2048)
"""Distances of the prefetch, in elements of each stream; 0 leaves prefetching to the hardware."""
MAX_READS = 8
MAX_WRITES = 6
_STAGGER = 65584  # elements between streams; a power of two would hit the same banks and cost up to half the bandwidth
_SAMPLE_NS = 1_000_000  # a sample lasts at least this long, so that the clock and the call do not matter


@dataclasses.dataclass(frozen=True)
class Bandwidth:
    """Samples in GB/s (1e9 bytes), every byte read and every byte written counted once."""

    reads: int
    writes: int
    elements: int
    threads: int
    method: str
    """The method, such as "native avx2" or "torch copy"; the latter always reads one stream and writes one."""
    ahead: int
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure to compare with: the usual speed, not the best."""
        return statistics.median(self.samples)

    @property
    def best(self) -> float:
        """The fastest sample; it is above the median by as much as other work disturbed the measurement."""
        return max(self.samples)


class Sweep:
    """Streams in memory and a pass over them: all are read, and the first ``writes`` of them are written back."""

    def __init__(self, reads: int, writes: int, elements: int, threads: int | None = None):
        self.threads = torch.get_num_threads() if threads is None else threads
        for name, value, least, most in (
            ("reads", reads, 1, MAX_READS),
            ("writes", writes, 0, min(reads, MAX_WRITES)),
            ("elements", elements, 1, 2**40),
            ("threads", self.threads, 1, 4096),
        ):
            if not least <= value <= most:
                raise ValueError(f"{name} must be from {least} to {most}, got {value}")
        self.reads, self.writes, self.elements = reads, writes, elements
        self._library: Library | None = None
        self.method = "torch copy"
        try:
            self._library = library()
            self.method = f"native {self._library.isa}"
        except NativeUnavailable:
            self.reads = self.writes = 1
        streams = self.reads if self._library else 2
        # The memory is filled, because untouched pages all share one page of zeros, which stays in the cache.
        self._memory = torch.empty((streams, elements + _STAGGER), dtype=torch.float32).fill_(0.0)
        self._pointers = (ctypes.c_void_p * streams)(*(row.data_ptr() for row in self._memory))

    @property
    def bytes(self) -> int:
        """The bytes that one sweep moves."""
        return 4 * self.elements * (self.reads + self.writes)

    def run(self, ahead: int = 0) -> None:
        if self._library is None:
            self._memory[1].copy_(self._memory[0])
            return
        self._library.handle.fl_probe(
            self._library.backend, self.reads, self.writes, self._pointers, self.elements, self.threads, ahead
        )

    def gb_per_s(self, ahead: int, sweeps: int) -> float:
        """Takes one sample: the given number of sweeps in a row."""
        return self.bytes * sweeps / _nanoseconds(self.run, ahead, sweeps)

    def sweeps_per_sample(self) -> int:
        self.run()  # the first sweep wakes threads and fills caches
        return max(1, -(-_SAMPLE_NS // max(1, _nanoseconds(self.run, 0, 1))))

    def best_distance(self, rounds: int = 3, seed: int = 0, before: Callable[[], object] | None = None) -> int:
        """The prefetch distance with the highest median over interleaved rounds.

        ``before`` runs ahead of every sample, outside the clock (a cache flush); a sample is then a single sweep.
        """
        if self._library is None:
            return 0
        sweeps, order = self.sweeps_per_sample(), random.Random(seed)
        if before is not None:
            sweeps = 1
        samples: dict[int, list[float]] = {distance: [] for distance in DISTANCES}
        for _ in range(rounds):
            for distance in order.sample(DISTANCES, len(DISTANCES)):
                if before is not None:
                    before()
                samples[distance].append(self.gb_per_s(distance, sweeps))
        return max(DISTANCES, key=lambda distance: statistics.median(samples[distance]))


def _nanoseconds(run: Callable[[int], None], ahead: int, times: int) -> int:
    start = time.perf_counter_ns()
    for _ in range(times):
        run(ahead)
    return max(1, time.perf_counter_ns() - start)


def probe(
    reads: int,
    writes: int,
    elements: int,
    threads: int | None = None,
    *,
    samples: int = 15,
    seconds: float = 2.0,
    seed: int = 0,
) -> Bandwidth:
    """Measures the bandwidth of ``reads`` streams of ``elements`` float32 each, of which ``writes`` are written back.

    Takes ``samples`` samples, or as many as fit into about ``seconds`` (at least 3), at the best distance.

    >>> bandwidth = probe(reads=4, writes=3, elements=1 << 16, samples=3)  # AdamW's streams
    >>> bandwidth.best >= bandwidth.median > 0
    True
    """
    sweep = Sweep(reads, writes, elements, threads)
    ahead = sweep.best_distance(seed=seed)
    sweeps = sweep.sweeps_per_sample()
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < 3 or (len(found) < samples and time.perf_counter() < end):
        found.append(sweep.gb_per_s(ahead, sweeps))
    return Bandwidth(sweep.reads, sweep.writes, elements, sweep.threads, sweep.method, ahead, tuple(found))
