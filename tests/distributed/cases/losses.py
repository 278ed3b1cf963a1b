"""Processes that hang or end while others wait for them: an error with a sentence, and no hang.  The last case of a
launch: afterwards there is no group any more.  Nothing is compiled here, because that takes one process longer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

import fallline
from tests.distributed.cases.models import cut, give_gradients, whole_params


def _wait_for(path: Path) -> None:
    for _ in range(4000):  # the other process says when it is done; ends a hang
        if path.exists():
            return
        time.sleep(0.01)
    raise TimeoutError(path)


def a_process_that_hangs_ends_the_wait() -> None:
    group = dist.new_group(timeout=timedelta(seconds=15))
    params = cut(whole_params(), DeviceMesh.from_group(group, "cpu"))
    opt = fallline.create("lamb", params, foreach=True, fused=False)
    give_gradients(params, 0)
    opt.step()
    if dist.get_rank() == 0:
        with pytest.raises(RuntimeError, match=r"process 0 waited in vain for 1 other.*restart all of them"):
            opt.step()
        Path("gave-up").touch()
    else:
        _wait_for(Path("gave-up"))


def a_process_that_ends_ends_the_wait() -> None:
    params = cut(whole_params())
    opt = fallline.create("muon", [p for p in params if p.ndim > 1], foreach=True, fused=False)
    give_gradients(params, 0)
    opt.step()
    if dist.get_rank() == 1:
        os._exit(0)
    with pytest.raises(RuntimeError, match=r"process 0 waited in vain for 1 other.*one has ended"):
        for _ in range(3):
            opt.step()
    Path("noticed").touch()
    os._exit(0)


CASES: dict[str, Callable[[], None]] = {
    case.__name__: case for case in (a_process_that_hangs_ends_the_wait, a_process_that_ends_ends_the_wait)
}
