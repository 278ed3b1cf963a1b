"""A process that hangs while another waits for it: an error with a sentence after the time-out of the group."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

import fallline
from tests.distributed.cases.models import cut, give_gradients, whole_params


def a_process_that_hangs_ends_the_wait() -> None:
    group = dist.new_group(timeout=timedelta(seconds=15))
    params = cut(whole_params(), DeviceMesh.from_group(group, "cpu"))
    # Nothing is compiled here, because that would take one process longer.
    opt = fallline.create("lamb", params, foreach=True, fused=False)
    give_gradients(params, 0)
    opt.step()
    gave_up = Path("gave-up")
    if dist.get_rank() == 0:
        with pytest.raises(RuntimeError, match=r"process 0 waited in vain for 1 other.*restart all of them"):
            opt.step()
        gave_up.touch()
    else:
        _wait_for(gave_up)


def _wait_for(path: Path) -> None:
    end = time.monotonic() + 200  # ends a hang
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


CASES: dict[str, Callable[[], None]] = {"a_process_that_hangs_ends_the_wait": a_process_that_hangs_ends_the_wait}
