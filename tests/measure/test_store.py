"""What is written is there after any end, and a file that cannot be used is explained in one line."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fallline.measure.store import Schema, Store, StoreError

SCHEMA = Schema(
    "test results", 4711, 1, "create table sample (cell text, seconds real);\ncreate index i on sample (cell);"
)
NEXT = Schema("test results", 4711, 2, "unused", upgrades=("alter table sample add column round integer",))

WRITER = """
import os, pathlib, signal, sys
from fallline.measure.store import Schema, Store
schema = Schema("test results", 4711, 1, "create table sample (cell text, seconds real)")
store = Store(pathlib.Path(sys.argv[1]), schema)
with store.transaction() as database:
    database.execute("insert into sample values ('done', 1.0)")
with store.transaction() as database:
    database.execute("insert into sample values ('half', 2.0)")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def add(store: Store, cell: str) -> None:
    with store.transaction() as database:
        database.execute("insert into sample (cell, seconds) values (?, 1.0)", (cell,))


def cells(path: Path) -> list[str]:
    with Store(path, SCHEMA, writable=False) as store:
        return [row["cell"] for row in store.rows("select cell from sample order by rowid")]


def test_killed_writer_keeps_what_was_finished_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    ended = subprocess.run([sys.executable, "-c", WRITER, str(path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert cells(path) == ["done"]
    with Store(path, SCHEMA) as store:  # the dead writer's lock is gone with it
        add(store, "next")
    assert cells(path) == ["done", "next"]


def test_failed_transaction_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path, SCHEMA) as store:
        with pytest.raises(KeyError), store.transaction() as database:
            database.execute("insert into sample values ('a', 1.0)")
            raise KeyError("in the middle")
        add(store, "b")
    assert cells(path) == ["b"]


def test_readers_see_a_file_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path, SCHEMA) as store:
        add(store, "a")
        assert cells(path) == ["a"]


def test_second_writer_is_told(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path, SCHEMA), pytest.raises(StoreError, match="another process is writing it"):
        Store(path, SCHEMA)
    Store(path, SCHEMA).close()
    assert [p.name for p in tmp_path.iterdir()] == ["results.sqlite"]


def test_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    Store(path, SCHEMA).close()
    Store(path, NEXT).close()
    for writable in (True, False):
        with pytest.raises(StoreError, match=r"newer fallline \(format 2, this one knows up to 1\); upgrade"):
            Store(path, SCHEMA, writable=writable)


def test_older_format_is_upgraded_with_its_data(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path, SCHEMA) as store:
        add(store, "a")
    with Store(path, NEXT) as store:
        assert tuple(store.rows("select cell, round from sample")[0]) == ("a", None)


def test_older_format_is_read_as_the_new_one_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path, SCHEMA) as writer:
        add(writer, "a")
        with Store(path, NEXT, writable=False) as store:
            assert tuple(store.rows("select cell, round from sample")[0]) == ("a", None)
            with pytest.raises(StoreError), store.transaction() as database:
                database.execute("delete from sample")
        add(writer, "b")
    assert cells(path) == ["a", "b"]


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    database = sqlite3.connect(other)
    database.execute("create table t (x)")
    database.close()
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but long enough to have a header\n" * 40)
    for path, said in (
        (other, "not one of test results"),
        (text, "not a results file"),
        (tmp_path, "this is a directory"),
        (tmp_path / "missing" / "x.sqlite", "there is no directory"),
    ):
        with pytest.raises(StoreError, match=said) as caught:
            Store(path, SCHEMA)
        assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_reading_does_not_make_a_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such results file"):
        Store(tmp_path / "none.sqlite", SCHEMA, writable=False)
    assert not list(tmp_path.iterdir())


def test_full_disk_keeps_what_was_finished(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path, SCHEMA) as store:
        add(store, "first")
        pages = store.rows("pragma page_count")[0][0]
        store.rows(f"pragma max_page_count = {pages}")  # SQLite then answers as it does on a full disk
        with pytest.raises(StoreError, match="the disk is full; what was finished is kept"):
            add(store, "x" * 100_000)
    assert cells(path) == ["first"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_without_write_permission_is_explained(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="cannot be written"):
            Store(tmp_path / "results.sqlite", SCHEMA)
    finally:
        tmp_path.chmod(0o700)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 KiB of its own, where the system lets us make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_disk_that_is_really_full(small_disk: Path) -> None:
    path, count = small_disk / "r.sqlite", 0
    with Store(path, SCHEMA) as store, pytest.raises(StoreError, match="the disk is full"):
        while count < 1000:
            add(store, "x" * 2000)
            count += 1
    assert 0 < count < 1000
    assert len(cells(path)) == count


def test_reading_where_nothing_can_be_written(small_disk: Path) -> None:
    path = small_disk / "r.sqlite"
    with Store(path, SCHEMA) as store:
        add(store, "there")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert cells(path) == ["there"]
    with pytest.raises(StoreError, match="cannot be written"):
        Store(path, SCHEMA)


def test_rows_of_a_running_writer_are_seen_from_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path, SCHEMA) as writer:
        for number in range(5):
            add(writer, str(number))  # in the log beside the file, not yet in the file itself
        monkeypatch.setattr(os, "access", lambda *_: False)
        assert cells(path) == ["0", "1", "2", "3", "4"]


def test_a_file_whose_log_cannot_be_read_is_refused_rather_than_shown_without_its_last_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "results.sqlite", sqlite3.connect

    class Unreadable:
        """As SQLite answers where the files beside a database can be neither read nor made."""

        def execute(self, *_: object) -> None:
            raise sqlite3.OperationalError("unable to open database file")

        def close(self) -> None: ...

    def connect(address: object, **options: object) -> object:
        return Unreadable() if "mode=ro" in str(address) else real(address, **options)  # type: ignore[call-overload]

    with Store(path, SCHEMA) as writer:
        add(writer, "in the log")
        monkeypatch.setattr(os, "access", lambda *_: False)
        monkeypatch.setattr(sqlite3, "connect", connect)
        with pytest.raises(StoreError, match=r"last rows are in results\.sqlite-wal, which cannot be read"):
            cells(path)
    assert not Path(f"{path}-wal").exists()
    assert cells(path) == ["in the log"], "without a log the file alone has everything"


@pytest.mark.parametrize("damage", ["cut", "zeros", "header"])
def test_a_damaged_file_is_told_in_one_line(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path, SCHEMA) as store:
        for number in range(300):
            add(store, f"{number} {'x' * 100}")
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(
        {
            "cut": content[: 4096 + 100],
            "zeros": content[:4096] + bytes(half) + content[4096 + half :],
            "header": b"damaged" + content[7:],
        }[damage]
    )
    with pytest.raises(StoreError) as caught, Store(path, SCHEMA, writable=False) as store:
        store.rows("select * from sample where cell > ''")
    said = str(caught.value)
    assert said.startswith(f"{path}: ") and "\n" not in said
    assert "damaged" in said and said.endswith("name another file")
