"""The model of a workload: a built-in one, or one from a user's file.

Its data are read for real, once, because a batch may depend on their values; the model is built without memory. A
batch of another size has the shapes of the real one, with their first axis changed.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from fallline.footprint.trainees.trainee import Trainee, Unbuildable
from fallline.workloads import Workload, WorkloadError, load

MOST_TO_LOAD = 2 * 10**9
"""Bytes that a file may take to be loaded, data included."""
SEED = 0


def loaded(spec: str) -> Workload:
    """A workload that a user named; one that takes gigabytes before it is trained is refused."""
    with _at_most(MOST_TO_LOAD):
        try:
            return load(spec)
        except MemoryError:
            raise Unbuildable(_too_large(spec)) from None
        except WorkloadError as error:
            raise _refused(spec, error) from None


def from_workload(workload: Workload, spec: str = "") -> Trainee:
    """The model of a workload with its own batch and loss."""
    spec = spec or workload.name
    if workload.train is not None:
        raise Unbuildable(
            f"{spec}: takes its steps by a function of its own (train), which needs real numbers; "
            "give batch and loss instead"
        )
    with _at_most(MOST_TO_LOAD):
        try:
            real = workload.reader(SEED).batch(0)
        except MemoryError:
            raise Unbuildable(_too_large(spec)) from None
        except WorkloadError as error:
            raise _refused(spec, error) from None
    size = batch_size(real)
    return Trainee(
        name=workload.name,
        spec=spec,
        build=lambda: workload.new_model(SEED),
        inputs=_resized(real, size),
        loss=_loss(workload),
        batch=size or 1,
        resident_data=True,
        notes=() if size else ("the batch has no common first axis, so that its size cannot be changed",),
    )


def _loss(workload: Workload) -> Callable[[nn.Module, Any], Tensor]:
    return lambda model, batch: workload.loss_of(model, batch, 0, SEED)


def batch_size(batch: Any) -> int | None:
    """The length of the first axis that all tensors of a batch share.

    >>> batch_size({"x": torch.zeros(8, 3), "y": torch.zeros(8)}), batch_size(torch.zeros(()))
    (8, None)
    """
    sizes = {leaf.shape[0] if leaf.ndim else None for leaf in tree_leaves(batch) if isinstance(leaf, Tensor)}
    return sizes.pop() if len(sizes) == 1 else None


def _resized(real: Any, size: int | None) -> Callable[[int, int | None], Any]:
    def inputs(batch: int, sequence: int | None) -> Any:
        def one(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            shape = leaf.shape if size is None else (batch, *leaf.shape[1:])
            return torch.zeros(shape, dtype=leaf.dtype)

        return tree_map(one, real)

    return inputs


@contextlib.contextmanager
def _at_most(size: int) -> Iterator[None]:
    """Lets this process grow by that many bytes of addresses, where the system can limit them."""
    used = _addresses()
    if used is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = used + size
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _addresses() -> int | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return None


def _refused(spec: str, error: WorkloadError) -> Exception:
    """The error itself, unless memory was its cause."""
    return Unbuildable(_too_large(spec)) if "can't allocate memory" in str(error) else error


def _too_large(spec: str) -> str:
    return f"{spec}: takes more than {MOST_TO_LOAD / 1e9:.0f} GB before it is trained; make its tensors in model(seed)"
