"""The use of a GPU is read where there is one, through the one function that these tests replace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from fallline.measure import gpu
from fallline.measure.gpu import Unreadable, Use, read, use_during


def test_without_a_gpu_nothing_is_read_and_no_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done: list[int] = []
    for device in ("cpu", "cuda", "cuda:1", "meta"):
        assert read(device) is None and use_during(lambda: done.append(1), device) is None
    assert done == []


def test_readings_are_taken_between_pieces_of_work_and_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: Iterator[Use] = iter([Use(0.0, 1), Use(80.0, 100), Use(90.0, 300), Use(100.0, 200), Use(70.0, 200)])
    done: list[int] = []
    monkeypatch.setattr(gpu, "read", lambda device: next(readings))
    monkeypatch.setattr(gpu, "PERIOD", 0.0)
    monkeypatch.setattr(gpu, "APART", 0.0)
    # The first reading, from before the work, only says that there is a GPU.
    assert use_during(lambda: done.append(1), "cuda") == Use(85.0, 300)
    assert len(done) == 4


def test_work_that_is_over_too_soon_has_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "read", lambda device: Use(50.0, 1))
    monkeypatch.setattr(gpu, "PERIOD", 1e9)
    with pytest.raises(Unreadable, match="500 steps took less than"):
        use_during(lambda: None, "cuda")


def test_a_driver_that_does_not_answer_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_nvml(place: object) -> int:
        raise ModuleNotFoundError("pynvml does not seem to be installed")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda place: (1, 3))
    monkeypatch.setattr(torch.cuda, "utilization", without_nvml)
    with pytest.raises(Unreadable, match="pip install nvidia-ml-py"):
        read("cuda")
    monkeypatch.setattr(torch.cuda, "utilization", lambda place: 42)
    assert read("cuda") == Use(42.0, 2)
