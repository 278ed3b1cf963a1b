"""The allocator keeps its books, and fails where the memory that is free lies in pieces."""

from __future__ import annotations

import random

import pytest

from fallline.footprint.caching_allocator import CachingAllocator, DoesNotFit, replay
from fallline.footprint.prediction import Predictor
from fallline.footprint.setting import Setting
from fallline.footprint.trainees import trainee

MB = 1 << 20


def test_sizes_are_rounded_and_small_ones_share_a_segment() -> None:
    allocator = CachingAllocator()
    for name, size in enumerate((1, 512, 513, MB)):
        allocator.take(name, size)
    assert allocator.allocated == 512 + 512 + 1024 + MB and allocator.reserved == 2 * MB
    allocator.take("medium", 3 * MB)
    assert allocator.reserved == 22 * MB
    allocator.take("in the rest of it", 11 * MB)
    assert allocator.reserved == 22 * MB
    allocator.take("large", 11 * MB)
    assert allocator.reserved == 34 * MB


def test_the_smallest_block_that_is_large_enough_is_taken_again() -> None:
    allocator = CachingAllocator()
    for name, size in (("a", 40 * MB), ("b", 20 * MB), ("c", 30 * MB)):
        allocator.take(name, size)
    for name in "abc":
        allocator.give_back(name)
    allocator.take("d", 19 * MB)
    assert allocator.reserved == 90 * MB
    allocator.take("e", 40 * MB)
    allocator.take("f", 30 * MB)
    assert allocator.reserved == 90 * MB


def test_neighbours_join() -> None:
    allocator = CachingAllocator(capacity=20 * MB)
    for name in range(10):
        allocator.take(name, 2 * MB)
    with pytest.raises(DoesNotFit):
        allocator.take("more", 2 * MB)
    for name in (3, 5, 4):
        allocator.give_back(name)
    allocator.take("joined", 6 * MB)
    assert allocator.allocated == allocator.reserved == 20 * MB


def test_books_balance_under_random_use() -> None:
    allocator, held, rng = CachingAllocator(), {}, random.Random(0)
    for name in range(3000):
        if held and rng.random() < 0.5:
            gone = rng.choice(list(held))
            allocator.give_back(gone)
            del held[gone]
        held[name] = rng.choice((1, 700, 5000, 2 * MB, 12 * MB)) * rng.randint(1, 3)
        allocator.take(name, held[name])
        rounded = sum(-(-size // 512) * 512 for size in held.values())
        # A block may be larger than what was asked where too little is left to split off.
        assert rounded <= allocator.allocated <= allocator.reserved
    for name in held:
        allocator.give_back(name)
    assert allocator.allocated == 0
    assert sum(size for pool in allocator._free.values() for size, _ in pool) == allocator.reserved


def test_sequences_of_many_lengths_make_an_allocation_fail_with_30_percent_free() -> None:
    """A trace of GPT-2 with checkpointing on batches whose length changes, as batches of text do."""
    predictor = Predictor(trainee("gpt:layers=4,heads=12,width=768,context=1024"))
    base = Setting(optimizer="sgd", batch=8, checkpointing=True)
    lengths = (594, 976, 630, 241, 465, 723)
    iterations = [predictor.at_sequence(base, length) for length in lengths]
    peak = max(one.peak for one in iterations)
    with pytest.raises(DoesNotFit) as caught:
        replay([one.allocations for one in iterations], [], capacity=int(1.1 * peak))
    failed = caught.value
    assert failed.is_fragmented and failed.free > failed.asked > failed.largest_free
    assert failed.free / failed.capacity > 0.3
    roomy = replay([one.allocations for one in iterations], [], capacity=4 * peak)
    assert roomy.reserved > roomy.allocated >= peak
    for one in iterations:  # each alone fits easily
        replay([one.allocations] * 2, [], capacity=int(1.35 * one.peak))
