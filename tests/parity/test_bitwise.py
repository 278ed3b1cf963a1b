"""Native results are the same bits for any threads, grouping and (but for 8-bit states) instruction set."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fallline.lower.native.library import library
from tests.contract.trajectories import assert_rounded_alike
from tests.native import needs_native_and_a_compiler
from tests.parity.digests import ROUNDED, digests, low_bit_steps

ISAS = ["baseline", "avx2", "avx512"]


@pytest.fixture(autouse=True)
def native_with_threads_put_back() -> Iterator[None]:
    needs_native_and_a_compiler()
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def with_threads(threads: int, **options: str | bool | None) -> dict[str, str]:
    torch.set_num_threads(threads)
    return digests(fused=True, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    return with_threads(1)


def test_digests_tell_results_apart(expected: dict[str, str]) -> None:
    assert len(set(expected.values())) == len(expected)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_change_a_bit(threads: int, expected: dict[str, str]) -> None:
    assert with_threads(threads) == expected


@pytest.mark.parametrize("threads", [1, 2])
def test_one_launch_per_parameter_does_not_change_a_bit(threads: int, expected: dict[str, str]) -> None:
    assert with_threads(threads, foreach=False) == expected


@pytest.mark.parametrize("grouping", ["two", "each"])
def test_grouping_does_not_change_a_bit(grouping: str, expected: dict[str, str]) -> None:
    assert with_threads(2, grouping=grouping) == expected


@pytest.mark.parametrize("isa", ISAS)
def test_instruction_sets_do_not_change_a_bit(isa: str, expected: dict[str, str], tmp_path: Path) -> None:
    if not library().has(isa):
        pytest.skip(f"this machine has no {isa}")
    environment = {**os.environ, "FALLLINE_ISA": isa, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.parity.digests", str(tmp_path / "low_bit.pt")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found.pop("isa") == isa
    low_bit, exact = {ROUNDED: found.pop(ROUNDED)}, {k: v for k, v in expected.items() if k != ROUNDED}
    assert found == exact
    if isa == library().isa:
        assert low_bit == {ROUNDED: expected[ROUNDED]}
    assert_rounded_alike(torch.load(tmp_path / "low_bit.pt", weights_only=True), low_bit_steps(), lr=0.01)
