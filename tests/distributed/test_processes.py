"""Several processes, each with pieces of the parameters or with copies: the optimizers step as in one process.

Every launch runs many cases (``tests/distributed/cases``); ``make test-distributed`` runs every optimizer and format.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch.distributed

from tests.distributed.launch import launch

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="torch is without gloo"
)


def test_two_processes_and_three_that_go_on_from_their_checkpoints(tmp_path: Path) -> None:
    launch(2, tmp_path, "sharded", "saving", "replicas", "disagreement")
    launch(3, tmp_path, "surroundings", "loading")


def test_a_process_that_hangs_does_not_hang_the_others(tmp_path: Path) -> None:
    launch(2, tmp_path, "hanging")


def test_a_process_that_ends_does_not_hang_the_others(tmp_path: Path) -> None:
    launch(2, tmp_path, "ending", reported=False)
    assert (tmp_path / "noticed").exists()
