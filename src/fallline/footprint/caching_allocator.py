"""A caching allocator as torch has it for GPUs, small enough to read: it replays allocations and shows fragmentation.

The policy is that of torch's ``CUDACachingAllocator`` with its default settings. Sizes are rounded to 512 bytes.
Requests of up to 1 MiB share segments of 2 MiB, those below 10 MiB segments of 20 MiB, and larger ones get a segment of
their own, rounded to 2 MiB. The smallest free block that is large enough is taken, and split where enough is left.
Blocks that are given back join their free neighbours and stay reserved. Before it gives up, the allocator returns
segments that are wholly free to the device. Streams, graphs and expandable segments are left out.

Reference: c10/cuda/CUDACachingAllocator.cpp in torch 2.13.
"""

from __future__ import annotations

import bisect
import dataclasses

from fallline.footprint.allocations import Allocations

ROUND = 512
SMALL = 1 << 20
SMALL_SEGMENT = 2 << 20
MEDIUM = 10 << 20
MEDIUM_SEGMENT = 20 << 20
LARGE_ROUND = 2 << 20


class DoesNotFit(Exception):
    """Raised by an allocation that fails, with the state of the device at that moment."""

    def __init__(self, asked: int, allocated: int, reserved: int, capacity: int, largest_free: int):
        super().__init__(f"an allocation of {asked:,} bytes fails with {capacity - allocated:,} bytes free")
        self.asked, self.allocated, self.reserved = asked, allocated, reserved
        self.capacity, self.largest_free = capacity, largest_free

    @property
    def free(self) -> int:
        """Bytes of the device that hold nothing."""
        return self.capacity - self.allocated

    @property
    def is_fragmented(self) -> bool:
        """Whether the free memory would have been enough in one piece."""
        return self.free >= self.asked


@dataclasses.dataclass
class _Block:
    """A stretch of a segment; its neighbours in the segment are linked."""

    size: int
    segment: int
    small: bool
    address: int
    free: bool = True
    before: _Block | None = None
    after: _Block | None = None

    @property
    def order(self) -> tuple[int, int]:
        return self.size, self.address


class CachingAllocator:
    """Without a capacity, the device is as large as needed.

    >>> allocator = CachingAllocator(capacity=100 << 20)
    >>> for name in range(10):
    ...     allocator.take(name, 10 << 20)
    >>> for name in range(0, 10, 2):
    ...     allocator.give_back(name)
    >>> allocator.take("whole", 20 << 20)  # segments that are free go back to the device
    >>> allocator.reserved >> 20
    70
    """

    def __init__(self, capacity: int | None = None):
        self.capacity = capacity
        self.allocated = self.reserved = 0
        self.peak_allocated = self.peak_reserved = 0
        self._held: dict[object, _Block] = {}
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._at: dict[int, _Block] = {}
        self._segments = 0
        self._next_address = 0

    def take(self, name: object, size: int) -> None:
        """Allocates; raises :class:`DoesNotFit`."""
        if size <= 0:
            return
        rounded = -(-size // ROUND) * ROUND
        small = rounded <= SMALL
        block = self._found(rounded, small) or self._new_segment(rounded, small)
        self._split(block, rounded)
        block.free = False
        self._held[name] = block
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def give_back(self, name: object) -> None:
        block = self._held.pop(name, None)
        if block is None:
            return
        self.allocated -= block.size
        block.free = True
        for neighbour in (block.before, block.after):
            if neighbour is not None and neighbour.free:
                block = self._joined(block, neighbour)
        self._put(block)

    # ------------------------------------------------------------------ free blocks

    def _found(self, size: int, small: bool) -> _Block | None:
        """The smallest free block that is large enough."""
        pool = self._free[small]
        at = bisect.bisect_left(pool, (size, -1))
        return self._at[pool.pop(at)[1]] if at < len(pool) else None

    def _put(self, block: _Block) -> None:
        bisect.insort(self._free[block.small], block.order)

    def _forget(self, block: _Block) -> None:
        pool = self._free[block.small]
        pool.pop(bisect.bisect_left(pool, block.order))

    def _split(self, block: _Block, size: int) -> None:
        rest = block.size - size
        if rest < ROUND or (not block.small and rest <= SMALL):
            return
        new = _Block(rest, block.segment, block.small, block.address + size, before=block, after=block.after)
        if block.after is not None:
            block.after.before = new
        block.after, block.size = new, size
        self._at[new.address] = new
        self._put(new)

    def _joined(self, block: _Block, neighbour: _Block) -> _Block:
        self._forget(neighbour)
        first, second = (neighbour, block) if neighbour is block.before else (block, neighbour)
        first.size += second.size
        first.after = second.after
        if second.after is not None:
            second.after.before = first
        del self._at[second.address]
        first.free = True
        return first

    # ------------------------------------------------------------------ segments

    def _new_segment(self, size: int, small: bool) -> _Block:
        if small:
            whole = SMALL_SEGMENT
        else:
            whole = MEDIUM_SEGMENT if size < MEDIUM else -(-size // LARGE_ROUND) * LARGE_ROUND
        if self._exceeds(whole):
            self._release_free_segments()
        if self._exceeds(whole):
            assert self.capacity is not None
            largest = max((pool[-1][0] for pool in self._free.values() if pool), default=0)
            largest = max(largest, self.capacity - self.reserved)
            raise DoesNotFit(size, self.allocated, self.reserved, self.capacity, largest)
        self.reserved += whole
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        block = _Block(whole, self._segments, small, self._next_address)
        self._at[block.address] = block
        self._segments += 1
        self._next_address += whole
        return block

    def _exceeds(self, more: int) -> bool:
        return self.capacity is not None and self.reserved + more > self.capacity

    def _release_free_segments(self) -> None:
        for pool in self._free.values():
            for order in list(pool):
                block = self._at[order[1]]
                if block.before is None and block.after is None:
                    pool.remove(order)
                    del self._at[block.address]
                    self.reserved -= block.size


@dataclasses.dataclass(frozen=True)
class Replayed:
    """The result of a replay, in bytes."""

    allocated: int
    """The peak of what was in use, rounded as the allocator rounds."""
    reserved: int
    """The peak of what the allocator had taken from the device."""

    @property
    def fragmentation(self) -> int:
        return self.reserved - self.allocated


def replay(
    iterations: list[Allocations], states: list[int], step_temporaries: int = 0, capacity: int | None = None
) -> Replayed:
    """Replays the allocations of iterations one after the other; the states come at the first step and stay.

    At its end an iteration still holds its model and inputs: the first of them stay, as they do in a training.
    """
    allocator = CachingAllocator(capacity)
    for number, one in enumerate(iterations):
        sizes = one.size.tolist()
        lasting = lasting_blocks(one)
        for at, (block, taken) in enumerate(zip(one.block.tolist(), one.taken.tolist(), strict=True)):
            if at == one.step_at:
                _step(allocator, states if number == 0 else [], step_temporaries)
            if block in lasting:
                if number == 0 and taken:
                    allocator.take(block, sizes[block])
            elif taken:
                allocator.take((number, block), sizes[block])
            else:
                allocator.give_back((number, block))
        if one.step_at >= len(one.block):
            _step(allocator, states if number == 0 else [], step_temporaries)
    return Replayed(allocator.peak_allocated, allocator.peak_reserved)


def lasting_blocks(one: Allocations) -> set[int]:
    """Blocks that are never given back."""
    return set(one.block[one.taken].tolist()) - set(one.block[~one.taken].tolist())


def _step(allocator: CachingAllocator, states: list[int], temporaries: int) -> None:
    for number, size in enumerate(states):
        allocator.take(("state", number), size)
    allocator.take("temporaries of the step", temporaries)
    allocator.give_back("temporaries of the step")
