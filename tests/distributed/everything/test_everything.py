"""Every case in two and in three processes, and checkpoints both ways: ``make test-distributed``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.launch import launch

ALL = ("sharded", "formats", "surroundings", "disagreement", "saving", "replicas")


@pytest.mark.parametrize("world", [2, 3])
def test_everything(world: int, tmp_path: Path) -> None:
    launch(world, tmp_path, *ALL, timeout=3000)


def test_four_processes_in_a_square(tmp_path: Path) -> None:
    launch(4, tmp_path, "surroundings")


@pytest.mark.parametrize(("saving", "loading"), [(2, 3), (3, 2), (2, 2), (1, 2), (2, 1)])
def test_checkpoints_move_between_numbers_of_processes(saving: int, loading: int, tmp_path: Path) -> None:
    launch(saving, tmp_path, "saving")
    launch(loading, tmp_path, "loading")
