"""Streams are those of the equations."""

from __future__ import annotations

from typing import Any

import pytest

import fallline
from fallline.measure.traffic import AS_PARAMETERS, Bytes, Pass, bytes_per_parameter, passes


@pytest.mark.parametrize(
    ("name", "options", "bytes_per_parameter"),
    [
        ("sgd", {}, 12),
        ("sgd", {"momentum": 0.9}, 20),
        ("lion", {}, 20),
        ("adagrad", {}, 20),
        ("rmsprop", {}, 20),
        ("rmsprop", {"centered": True, "momentum": 0.9}, 36),
        ("adamw", {}, 28),
        ("adamw", {"amsgrad": True}, 36),
        ("amsgrad", {}, 36),
    ],
)
def test_bytes_per_parameter_and_step(name: str, options: dict[str, Any], bytes_per_parameter: int) -> None:
    (only,) = passes(name, **options)
    assert only.bytes_per_parameter == bytes_per_parameter


def test_storage_format_does_not_change_the_streams() -> None:
    assert passes("adamw8bit") == passes("adamw") == (Pass(reads=4, writes=3),)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_states_in_the_dtype_of_the_parameters(dtype: str) -> None:
    assert bytes_per_parameter("adamw", dtype, AS_PARAMETERS) == Bytes(moved=14.0, once=14.0, states=4.0)
    assert bytes_per_parameter("adamw", dtype, "float32") == Bytes(moved=22.0, once=22.0, states=8.0)
    # Ours keep these two in 32 bits in any format; packages that know one dtype only do not.
    assert bytes_per_parameter("rmsprop", dtype, AS_PARAMETERS, centered=True).states == 4.0
    assert bytes_per_parameter("adamw", "float32", AS_PARAMETERS) == bytes_per_parameter("adamw")


@pytest.mark.parametrize("name", ["adamw", "lion", "sgd", "rmsprop"])
def test_agrees_with_the_registry(name: str) -> None:
    assert sum(p.bytes_per_parameter for p in passes(name)) == fallline.info(name).bytes_moved["float32"]


def test_passes_that_share_a_cache_move_each_operand_once() -> None:
    found = bytes_per_parameter("adamp")
    assert found.moved == 16 + 28
    assert found.once == 28
