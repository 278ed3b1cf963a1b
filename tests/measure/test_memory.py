"""Bytes that are alive in tensors, and those of the process."""

import ctypes
import weakref

import torch

import fallline
from fallline.lower import fingerprint
from fallline.measure.memory import trim_malloc
from fallline.memory.live import LiveBytes


def test_sparse_tensors_are_no_trouble():
    with LiveBytes() as live:
        sparse = torch.ones(4).to_sparse()
        dense = sparse.to_dense() + 1
    assert live.now >= 4 * 4
    del sparse, dense
    assert live.now == 0


def test_a_first_step_is_followed_though_it_tries_what_torch_can_tell_apart():
    params = [torch.nn.Parameter(torch.zeros(100))]
    params[0].grad = torch.ones(100)
    fingerprint._torch_guards.cache_clear()
    with LiveBytes() as live:
        fallline.Adan(params, lr=0.1).step()
    assert live.peak >= 4 * 400


def test_what_was_freed_goes_back_to_the_system(monkeypatch):
    """The C library is asked to, after cycles are collected: how much it then gives back is its own habit."""
    asked = []

    class CLibrary:
        def __init__(self, name):
            assert name is None  # the one that this process uses

        def malloc_trim(self, kept):
            asked.append((kept, cycle() is None))

    class Node:
        pass

    node = Node()
    node.itself, cycle = node, weakref.ref(node)
    del node
    monkeypatch.setattr(ctypes, "CDLL", CLibrary)
    trim_malloc()
    assert asked == [(0, True)]


def test_another_c_library_than_glibc_is_no_trouble(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    trim_malloc()
