"""Data files written by the tests: whole ones, damaged ones, and fetching them."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import stat
import struct
from pathlib import Path

import numpy
import pytest
import torch
from torch import nn

from fallline.cache import private_cache
from fallline.workloads import images
from fallline.workloads.data import fashion_mnist, idx
from fallline.workloads.data.fashion_mnist import DataFile


def packed(array: numpy.ndarray, kind: int = 0x08) -> bytes:
    header = struct.pack(">HBB", 0, kind, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.tobytes()


@pytest.fixture
def small_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Fashion-MNIST of thirty and ten images, in a folder, with the sums that belong to it."""
    random = numpy.random.default_rng(0)
    folder = tmp_path / "authors"
    folder.mkdir()
    files = {}
    for part, count in (("train", 30), ("test", 10)):
        for kind, shape in (("images", (count, 28, 28)), ("labels", (count,))):
            content = packed(random.integers(0, 10, shape, dtype=numpy.uint8))
            name = f"{part}-{kind}.gz"
            (folder / name).write_bytes(gzip.compress(content))
            files[part, kind] = DataFile(name, shape, hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(fashion_mnist, "FILES", files)
    monkeypatch.setattr(fashion_mnist, "DEBIAN", tmp_path / "nowhere")
    monkeypatch.setenv("FALLLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("FALLLINE_REAL_DATA", raising=False)
    return folder


class TestIdx:
    @pytest.mark.parametrize(
        ("kind", "dtype"), [(0x08, "u1"), (0x09, "i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")]
    )
    def test_every_type_plain_and_gzipped(self, tmp_path: Path, kind: int, dtype: str) -> None:
        array = numpy.arange(24, dtype=dtype).reshape(2, 3, 4)
        for name, content in (("plain", packed(array, kind)), ("file.gz", gzip.compress(packed(array, kind)))):
            (tmp_path / name).write_bytes(content)
            read = idx.read(tmp_path / name)
            assert read.dtype == dtype and numpy.array_equal(read, array)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "0 bytes are too few"),
            (b"\x00\x00\x07\x01\x00\x00\x00\x01x", "not an idx file, it starts with 00000701"),
            (b"\x89PNG....", "not an idx file"),
            (b"\x00\x00\x08\x00", "not an idx file"),
            (b"\x00\x00\x08\x03\x00\x00\x00\x01", "ends within its header"),
            (packed(numpy.zeros(10, dtype=numpy.uint8))[:-1], "9 bytes of data, its header says 10"),
            (packed(numpy.zeros(10, dtype=numpy.uint8)) + b"x", "11 bytes of data, its header says 10"),
            (gzip.compress(packed(numpy.zeros(10, dtype=numpy.uint8)))[:-6], "cannot be read"),
            (struct.pack(">HBB200I", 0, 8, 200, *[1] * 200) + b"x", "not an array"),
        ],
        # Not the bytes: a gzip file has the time in it, and workers must agree on names.
        ids=[
            "empty",
            "unknown type",
            "picture",
            "no axes",
            "cut header",
            "cut data",
            "too much data",
            "cut gzip",
            "many axes",
        ],
    )
    def test_damage_is_one_line_with_the_file(self, tmp_path: Path, content: bytes, said: str) -> None:
        path = tmp_path / "damaged"
        path.write_bytes(content)
        with pytest.raises(idx.BadFile) as raised:
            idx.read(path)
        assert said in str(raised.value) and str(path) in str(raised.value)
        assert "\n" not in str(raised.value)


class TestFashionMnist:
    def test_the_real_checksums_are_those_of_the_package(self) -> None:
        if not fashion_mnist.DEBIAN.is_dir():
            pytest.skip("dataset-fashion-mnist is not installed")
        fashion_mnist.check(fashion_mnist.DEBIAN)

    def test_a_whole_set_is_found_checked_and_loaded(self, small_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert fashion_mnist.find() is None
        monkeypatch.setattr(fashion_mnist, "DEBIAN", small_set)
        assert fashion_mnist.find() == small_set
        fashion_mnist.check(small_set)
        x, y = fashion_mnist.load(small_set, "train")
        assert x.shape == (30, 28, 28) and y.shape == (30,)

    @pytest.mark.parametrize("switch", ["0", "no", "off", "False"])
    def test_generated_data_can_be_asked_for(
        self, small_set: Path, switch: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fashion_mnist, "DEBIAN", small_set)
        monkeypatch.setenv("FALLLINE_REAL_DATA", switch)
        assert fashion_mnist.find() is None
        monkeypatch.setenv("FALLLINE_REAL_DATA", "1")
        assert fashion_mnist.find() == small_set

    @pytest.mark.parametrize("variable", ["FALLLINE_CACHE_DIR", "XDG_CACHE_HOME"])
    def test_the_cache_may_be_named_from_home(
        self, tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("FALLLINE_CACHE_DIR", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv(variable, "~/kept")
        assert (tmp_path / "kept") in fashion_mnist.cache_folder().parents

    def test_download_fetches_checks_and_keeps(self, small_set: Path, tmp_path: Path) -> None:
        said: list[str] = []
        target = fashion_mnist.cache_folder()
        fashion_mnist.download(target, small_set.as_uri() + "/", said.append)
        assert target == tmp_path / "cache" / "data" / "fashion-mnist"
        assert fashion_mnist.find() == target and len(said) == 4
        assert sorted(p.name for p in target.iterdir()) == sorted(p.name for p in small_set.iterdir())
        fashion_mnist.download(target, "file:///nowhere/", said.append)
        assert len(said) == 4, "fetched again what was there"

    def test_the_cache_that_a_download_makes_is_one_that_compiled_rules_take(
        self, small_set: Path, tmp_path: Path
    ) -> None:
        before = os.umask(0o002)  # as on systems where every user has a group of one's own
        try:
            fashion_mnist.download(fashion_mnist.cache_folder(), small_set.as_uri() + "/")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
        assert private_cache() == tmp_path / "cache"

    def test_a_damaged_file_is_fetched_again(self, small_set: Path) -> None:
        target = fashion_mnist.cache_folder()
        fashion_mnist.download(target, small_set.as_uri() + "/")
        whole = (target / "test-images.gz").read_bytes()
        (target / "test-images.gz").write_bytes(whole[:50])
        said: list[str] = []
        fashion_mnist.download(target, small_set.as_uri() + "/", said.append)
        assert len(said) == 1
        fashion_mnist.check(target)

    def test_a_wrong_file_from_the_net_is_not_kept(self, small_set: Path) -> None:
        other = packed(numpy.ones((30, 28, 28), dtype=numpy.uint8))
        (small_set / "train-images.gz").write_bytes(gzip.compress(other))
        target = fashion_mnist.cache_folder()
        with pytest.raises(idx.BadFile, match="checksum"):
            fashion_mnist.download(target, small_set.as_uri() + "/")
        assert list(target.iterdir()) == []

    def test_an_address_that_does_not_answer_has_a_remedy(self, small_set: Path) -> None:
        with pytest.raises(idx.BadFile, match=r"cannot be fetched .* apt install dataset-fashion-mnist"):
            fashion_mnist.download(fashion_mnist.cache_folder(), "file:///no/such/place/")

    @pytest.mark.parametrize("error", [http.client.IncompleteRead(b""), ValueError("unknown url type")])
    def test_whatever_fetching_raises_has_a_remedy(
        self, small_set: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def urlopen(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(fashion_mnist.urllib.request, "urlopen", urlopen)
        with pytest.raises(idx.BadFile, match=r"cannot be fetched .* apt install dataset-fashion-mnist"):
            fashion_mnist.download(fashion_mnist.cache_folder())

    def test_the_wrong_shape_is_named(self, small_set: Path) -> None:
        content = packed(numpy.zeros((3, 28, 28), dtype=numpy.uint8))
        (small_set / "test-images.gz").write_bytes(gzip.compress(content))
        with pytest.raises(idx.BadFile, match=r"holds uint8 of \(3, 28, 28\), should be uint8 of \(10, 28, 28\)"):
            fashion_mnist.load(small_set, "test")


class TestImages:
    def test_real_images_are_used_and_named(self, small_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fashion_mnist, "DEBIAN", small_set)
        task = images.classification("mine", nn.Flatten, about="none", batch_size=30, max_steps=1, eval_every=1)
        assert task.data_name == "Fashion-MNIST"
        x, y = task.batch(0, 0)
        assert x.shape == (30, 1, 28, 28) and y.shape == (30,)
        assert abs(x.mean()) < 1e-4 and abs(x.std() - 1) < 1e-3

    def test_the_stand_in_has_ten_classes_and_says_so(self) -> None:
        known = images.images()
        assert known.name == "10,000 generated shapes"
        assert known.train_labels.bincount().min() > 800
        assert len(known.test) == images.VALIDATION

    def test_a_larger_stand_in_is_named_by_its_size_and_drawn_in_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(images, "AT_ONCE", 1000)
        known = images.generated.__wrapped__(images.StandIn(training=1500, shapes=5))
        assert known.name == "1,500 generated shapes"
        assert known.train.shape == (1500, 1, 28, 28) and known.test.shape == (images.VALIDATION, 1, 28, 28)
        assert known.train_labels.bincount().min() > 100
        assert not torch.equal(known.train[:500], known.train[1000:])
