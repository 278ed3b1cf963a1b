"""Trains a model for a while and puts everything back: weights, states, settings and random number generators."""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn


@contextlib.contextmanager
def put_back(model: nn.Module, optimizer: torch.optim.Optimizer, data: Any) -> Iterator[None]:
    """Afterwards everything is as before, also if something raised."""
    with _same_generators(data), _same_model(model, optimizer), _same_optimizer(optimizer):
        yield


@contextlib.contextmanager
def _same_generators(data: Any) -> Iterator[None]:
    owners = (data, getattr(data, "sampler", None))
    own = [g for o in owners if isinstance(g := getattr(o, "generator", None), torch.Generator)]
    states = [g.get_state() for g in own]
    python, numbers = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numbers)
        for generator, state in zip(own, states, strict=True):
            generator.set_state(state)


@contextlib.contextmanager
def _same_model(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    params = {*model.parameters(), *(p for group in optimizer.param_groups for p in group["params"])}
    weights = [(p, p.detach().clone(), p.grad) for p in params]
    modules = [(m, m.training, dict(m._buffers)) for m in model.modules()]
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    try:
        # The gradients there are now are put aside, not overwritten.
        for p in params:
            p.grad = None
        yield
    finally:
        with torch.no_grad():
            for p, value, grad in weights:
                p.copy_(value)
                p.grad = grad
            for module, training, held in modules:
                module.training = training
                module._buffers.clear()
                module._buffers.update(held)
            for b, value in buffers:
                b.copy_(value)


@contextlib.contextmanager
def _same_optimizer(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """The sweep works on copies of states and settings; the originals are put back as they are.  A
    checkpoint would not do: loading one, torch casts states to the parameters' dtype."""
    attributes = dict(vars(optimizer))
    groups = [dict(group) for group in optimizer.param_groups]
    states = dict(optimizer.state)
    try:
        for group in optimizer.param_groups:
            group.update({k: copy.deepcopy(v) for k, v in group.items() if k != "params"})
        for key, entry in states.items():
            # Keys in states may be parameters: those are not copied.
            optimizer.state[key] = copy.deepcopy(entry, {id(p): p for p in states})
        yield
    finally:
        for name in [name for name in vars(optimizer) if name not in attributes]:
            delattr(optimizer, name)
        vars(optimizer).update(attributes)
        for group, saved in zip(optimizer.param_groups, groups, strict=True):
            group.clear()
            group.update(saved)
        optimizer.state.clear()
        optimizer.state.update(states)
