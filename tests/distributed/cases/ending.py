"""A process that ends while another waits for it: an error with a sentence, at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch.distributed as dist

import fallline
from tests.distributed.cases.models import cut, give_gradients, whole_params


def a_process_that_ends_ends_the_wait() -> None:
    params = [p for p in cut(whole_params()) if p.ndim > 1]
    opt = fallline.create("muon", params, foreach=True, fused=False)
    give_gradients(params, 0)
    opt.step()
    if dist.get_rank() == 1:
        os._exit(0)
    with pytest.raises(RuntimeError, match=r"process 0 waited in vain for 1 other.*one has ended"):
        for _ in range(3):
            opt.step()
    Path("noticed").touch()
    os._exit(0)  # there is no group any more that could be left in order


CASES: dict[str, Callable[[], None]] = {"a_process_that_ends_ends_the_wait": a_process_that_ends_ends_the_wait}
