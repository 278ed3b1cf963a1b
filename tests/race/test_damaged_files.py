"""Results files that were damaged, or changed by hand: one line that says so, whatever is asked of them."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from fallline.document.terminal import plain
from fallline.measure.store import StoreError
from fallline.race.document import document
from fallline.race.plan import ROUNDS, Entry, Rules
from fallline.race.results import Results
from fallline.race.run import Race
from fallline.race.verdict.asking import ask
from fallline.race.verdict.summary import summarize
from fallline.workloads import load
from tests.race import write_workload
from tests.race.scripted import ScriptedEngine, contestants, log_normal

FIELD = {"a": 0.0, "b": 0.1, "slow": 0.7}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A race in rounds that has ended."""
    folder = tmp_path_factory.mktemp("race")
    path = write_workload(folder)
    rules = Rules(ruleset="self", self_factor=8.0, trials=1, studies=3, clock="steps", design=ROUNDS)
    with Results(folder / "r.sqlite") as results:
        entry = Entry(str(path), load(str(path)))
        Race([entry], contestants(FIELD), rules, results, ScriptedEngine(log_normal(FIELD))).run()
    return (folder / "r.sqlite").read_bytes()


def everything(path: Path) -> None:
    with Results(path, writable=False) as results:
        plain(document(summarize(results), path), 100)
        ask(results, [], None, 0.02)


def test_the_whole_file_says_everything(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    path.write_bytes(whole)
    everything(path)


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(1, len(data))]


def _overwritten(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(100, len(data) - 2048)
    return data[:start] + chance.randbytes(2048) + data[start + 2048 :]


def _scattered(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(60):
        changed[chance.randrange(100, len(changed))] = chance.randrange(256)
    return bytes(changed)


@pytest.mark.parametrize("damage", [_cut, _overwritten, _scattered])
def test_damaged_bytes_are_one_line_or_change_nothing_that_is_read(
    whole: bytes, tmp_path: Path, damage: Callable[[bytes, random.Random], bytes]
) -> None:
    told = 0
    for seed in range(12):
        path = tmp_path / f"{seed}.sqlite"
        path.write_bytes(damage(whole, random.Random(seed)))
        try:
            everything(path)
        except StoreError as error:
            assert str(path) in str(error) and "\n" not in str(error)
            told += 1
    assert told


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("update setting set value = 'null'", "its rules are incomplete"),
        ("update setting set value = '\"nope\"' where name = 'ruleset'", "its rules are incomplete"),
        ("delete from setting where name = 'trials'", "its rules are incomplete"),
        ("update look set data = '{}'", "a look of it is incomplete"),
        ("update look set data = 'nothing'", "a part of it is no JSON"),
        ("update contestant set definition = '[]'", "a contestant of it has no definition"),
        ("update workload set facts = '{}'", "the facts of tiny are incomplete"),
    ],
)
def test_rows_that_were_changed_by_hand_are_one_line(whole: bytes, tmp_path: Path, change: str, said: str) -> None:
    path = tmp_path / "r.sqlite"
    path.write_bytes(whole)
    with sqlite3.connect(path) as database:
        database.execute(change)
    database.close()
    with pytest.raises(StoreError) as refused:
        everything(path)
    assert said in str(refused.value) and "restore a copy, or name another file" in str(refused.value)
