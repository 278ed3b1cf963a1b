"""Parameters that are DTensors: every optimizer steps them as it steps whole ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.launch import launch


@pytest.mark.parametrize("world", [2, 3])
def test_sharded_parameters_step_as_whole_ones(world: int, tmp_path: Path) -> None:
    launch(world, tmp_path, "surroundings", "disagreement")
