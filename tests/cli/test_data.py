"""``fallline data``: found, damaged, fetched, not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fallline.workloads.data import fashion_mnist
from tests.cli import Command
from tests.workloads.test_data import small_set  # noqa: F401

pytestmark = pytest.mark.usefixtures("small_set")


def test_missing_data_is_fetched_once_and_then_found(fallline: Command, small_set: Path) -> None:  # noqa: F811
    first = fallline("data", "fashion-mnist", "--from", small_set.as_uri(), "--json")
    assert first.code == 0
    assert json.loads(first.out)["folder"] == str(fashion_mnist.cache_folder())
    assert first.err.count("→") == 4
    again = fallline("data", "fashion_mnist", "--no-download")
    assert again.code == 0 and again.err == ""
    assert again.out.splitlines()[-1].endswith("whole: sizes and checksums are right.")


def test_data_is_found_also_where_workloads_are_told_to_do_without(
    fallline: Command,
    small_set: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert fallline("data", "--from", small_set.as_uri(), "-q").code == 0
    monkeypatch.setenv("FALLLINE_REAL_DATA", "0")
    assert fallline("data", "--no-download").code == 0


def test_missing_data_without_download_says_what_to_do(fallline: Command) -> None:
    ended = fallline("data", "--no-download")
    assert ended.code == 1 and ended.out == ""
    assert "is not on this machine" in ended.err and "apt install dataset-fashion-mnist" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_folder_of_ones_own_is_checked(fallline: Command, small_set: Path) -> None:  # noqa: F811
    assert fallline("data", "--folder", str(small_set)).code == 0
    (small_set / "test-labels.gz").write_bytes(b"\x1f\x8bnonsense")
    ended = fallline("data", "--folder", str(small_set), "--no-download")
    assert ended.code == 1
    assert "test-labels.gz: cannot be read" in ended.err


@pytest.mark.parametrize("address", ["file:///no/such/place", "nonsense", "http://[::1"])
def test_an_unreachable_address_fails_in_one_line(fallline: Command, address: str) -> None:
    ended = fallline("data", "--from", address, "--quiet")
    assert ended.code == 1
    assert "cannot be fetched" in ended.err and len(ended.err.splitlines()) == 1


def test_an_unwritable_folder_fails_in_one_line(fallline: Command, small_set: Path, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "file").write_text("")
    ended = fallline("data", "--folder", str(tmp_path / "file" / "in"), "--from", small_set.as_uri(), "-q")
    assert ended.code == 1
    assert "cannot be written" in ended.err and len(ended.err.splitlines()) == 1


def test_other_data_sets_are_unknown(fallline: Command) -> None:
    ended = fallline("data", "imagenet")
    assert ended.code == 2
    assert "there is no data set 'imagenet'; there is fashion-mnist" in ended.err
