"""A bad measurement in the results file is flagged on every way out, and is no result."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from fallline.step import arms
from fallline.step.gpt2 import Gpt2
from fallline.step.published import adan_tables, claims, memory_table, presets
from tests.cli import Command

GRID = ("step", "--optimizer", "adam", "--impl", "eager,fused", "--threads", "1", "--no-flush", "--steps", "20")
GRID += ("--tensors", "1", "--sizes", "65536,1048576")
Samples = dict[tuple[int, str], np.ndarray]
"""By elements and arm, in seconds."""


def believable() -> Samples:
    """Half the speed of the probe for the fused kernel, a tenth for the loop, 3 % of noise."""
    draw, found = np.random.default_rng(5), {}
    for elements in (65536, 1048576):
        for arm, factor in (("fused", 2.0), ("eager", 10.0), ("probe", 1.0)):
            found[elements, arm] = factor * elements * 28 / 10e9 * np.exp(draw.normal(0, 0.03, 20))
    return found


def too_fast(samples: Samples) -> None:
    samples[1048576, "fused"] /= 10


def warm_up_left_in(samples: Samples) -> None:
    samples[1048576, "fused"][:3] *= 4


def falls_with_size(samples: Samples) -> None:
    samples[1048576, "eager"][:] = samples[65536, "eager"] / 2


def size_ignored(samples: Samples) -> None:
    samples[1048576, "eager"][:] = samples[65536, "eager"][::-1]


@pytest.fixture(scope="module", autouse=True)
def known_cache() -> Iterator[None]:
    """The probe goes through four caches at most: of this one, through all of a cell, as the samples here have it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fallline.measure.machine.last_level_cache", lambda: 32 << 20)
        yield


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A results file as a run leaves it."""
    from fallline.step.plan import Conditions, Plan, arms_of, expand, grid
    from fallline.step.results import Results
    from fallline.step.run import Limits, measure_all

    path = tmp_path_factory.mktemp("gates") / "r.sqlite"
    rows = grid([1], [65536, 1048576], arms_of("adam", ["eager", "fused"], {}, "float32"))
    plan = Plan("own", tuple(expand(rows, Conditions(threads=(1,), flush=False, steps=20), "adam")))
    with Results(path) as results:
        results.begin({})
        measure_all(plan, results, Limits(), lambda *_: None)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        # Whatever else ran meanwhile: the samples are replaced below.
        database.execute("update cell set facts = json_set(facts, '$.busy', null)")
    return path.read_bytes()


@pytest.mark.parametrize(
    ("spoil", "labels", "said"),
    [
        (too_fast, ["1 × 1048576"], "fused: moves "),
        (warm_up_left_in, ["1 × 1048576"], "fused: its first 3 samples take "),
        (falls_with_size, ["1 × 1048576"], "eager: takes 0."),
        (size_ignored, ["1 × 65536", "1 × 1048576"], "is it used?"),
    ],
)
def test_spoilt_samples_are_set_aside(
    fallline: Command,
    tmp_path: Path,
    measured: bytes,
    spoil: Callable[[Samples], None],
    labels: list[str],
    said: str,
) -> None:
    path = tmp_path / "r.sqlite"
    path.write_bytes(measured)
    for change, flagged in ((None, []), (spoil, labels)):
        samples = believable()
        if change is not None:
            change(samples)
        _write(path, samples)
        found = json.loads(fallline(*GRID, "--out", str(path), "--show", "--json").out)
        (table,) = found["tables"]
        assert [row["label"] for row in table["rows"] if row["wrong"]] == flagged
        wins = [one["text"] for one in found["winners"]]
        assert (
            wins
            == [
                ["eager wins nowhere; fused wins 2 of 2 cells; no ties."],
                ["eager wins nowhere; fused wins the only cell; no ties; 1 set aside by a gate."],
                [],
            ][len(flagged)]
        )
    text = fallline(*GRID, "--out", str(path), "--show").out
    assert said in text and " !" in text and "set aside" in text
    suspect = fallline(*GRID, "--out", str(path), "--show", "--csv").out
    assert said.partition(": ")[2] in suspect


def test_what_cannot_be_true_is_measured_once_more(fallline: Command, tmp_path: Path, measured: bytes) -> None:
    path = tmp_path / "r.sqlite"
    path.write_bytes(measured)
    samples = believable()
    falls_with_size(samples)
    _write(path, samples)
    command = (*GRID, "--out", str(path))
    ended = fallline(*command)
    assert ended.code == 0
    # The larger one is too fast, or the smaller one was too slow.
    assert "2 cells contradict themselves or each other; measuring them once more" in ended.err
    assert "[2/2] " in ended.err
    assert "note: 2 cells were measured a second time, because the first times could not all be true: " in ended.out
    found = json.loads(fallline(*command, "--show", "--json").out)
    assert not any(
        "takes 0.5× the time of 65,536" in text for row in found["tables"][0]["rows"] for text in row["wrong"]
    )
    again = fallline(*command, "--json")
    assert "once more" not in again.err and json.loads(again.out)["data"] == found["data"]


def _write(path: Path, samples: Samples) -> None:
    with sqlite3.connect(path) as database:
        cells = {
            size: number for number, size in database.execute("select id, cast(substr(label, 5) as int) from cell")
        }
        for (elements, arm), seconds in samples.items():
            for at, value in enumerate(seconds.tolist()):
                changed = database.execute(
                    "update sample set seconds = ? where cell = ? and arm = ? and round = ?",
                    (value, cells[elements], arm, at),
                )
                assert changed.rowcount == 1


def test_values_that_are_not_numbers_are_not_timed(
    fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = arms.tensors

    def poisoned(*arguments: object) -> list[torch.nn.Parameter]:
        params = made(*arguments)  # type: ignore[arg-type]
        assert params[0].grad is not None
        params[0].grad[3] = float("nan")
        return params

    monkeypatch.setattr("fallline.step.run.tensors", poisoned)
    ended = fallline(*GRID[:-1], "64", "--out", str(tmp_path / "r.sqlite"))
    assert ended.code == 0
    assert "not timed: parameter 0 contains NaN or infinity" in ended.err  # the first step carried it on
    assert "parameter 0 contains NaN or infinity" in ended.out and "Nothing could be timed" in ended.out


def test_percentage_that_does_not_follow_from_its_cells(
    fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (presets, adan_tables, claims, memory_table):
        monkeypatch.setattr(module, "CONFIGURATIONS", (Gpt2(2, 1, 16, 50, 8),))
    monkeypatch.setattr(adan_tables, "percent", lambda *_: "81.6")
    command = ("step", "--preset", "adan-gpt2", "--out", str(tmp_path / "r.sqlite"), "--threads", "1", "--steps", "3")
    ended = fallline(*command, "--memory-seconds", "0")
    assert ended.code == 0, ended.err
    assert "note: gpt2-2x1x16, Adam: " in ended.out and "%, printed 81.6" in ended.out
