"""Workloads by name and from a user's file."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fallline
from fallline.schedules import WarmupCosine
from fallline.workloads import WorkloadError, load
from fallline.workloads.data import fashion_mnist

SMALLEST = Path(__file__).parents[2] / "examples" / "sine.py"

GOOD = """
import torch
import fallline
import friend_of_{stem}

def workload():
    return fallline.Workload(
        name="{stem}", model=lambda seed: torch.nn.Linear(1, 1), batch=lambda step, seed: torch.ones(1, 1),
        loss=lambda model, x: model(x).sum(), evaluate=lambda model: 0.0, metric="m", max_steps=friend_of_{stem}.STEPS)

def workload_short():
    return workload().replace(max_steps=3)

def broken():
    return {{}}["missing"]

def nothing():
    return 3

def needs(width, depth=2):
    return workload()

def leaves():
    raise SystemExit(3)

def misuses():
    return workload().replace(max_steps=0)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "friend_of_mine.py").write_text("STEPS = 40\n")
    path = tmp_path / "mine.py"
    path.write_text(GOOD.format(stem="mine"))
    return path


def test_names_take_hyphens_and_capitals() -> None:
    assert load("quadratic-deep").name == load("Quadratic_Deep").name == "quadratic_deep"


def test_a_file_with_one_function(file: Path) -> None:
    assert load(str(file)).max_steps == 40


def test_a_function_by_name(file: Path) -> None:
    assert load(f"{file}:workload_short").max_steps == 3


@pytest.fixture
def namesakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Modules of the same names in two folders: where packages are installed, and beside the user's file."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "installed")])
    names = ("namesake_at_once", "namesake_in_the_function", "namesake_later", "only_later")
    for folder in ("installed", "users"):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / f"{name}.py").write_text(f"FOLDER = {folder!r}\n")
    (tmp_path / "installed" / "only_later.py").unlink()
    yield tmp_path / "users" / "mine.py"
    for name in names:
        sys.modules.pop(name, None)


def test_modules_beside_the_file_come_before_installed_ones_of_the_same_name(namesakes: Path) -> None:
    lines = ("import namesake_at_once", "def workload():", "    import namesake_in_the_function", "    import fallline")
    namesakes.write_text("\n".join((*lines, "    return fallline.workloads.load('rosenbrock')", "")))
    load(str(namesakes))
    for name in ("namesake_at_once", "namesake_in_the_function"):
        assert importlib.import_module(name).FOLDER == "users"


def test_what_is_imported_after_a_file_was_loaded_is_not_taken_from_beside_it_if_it_is_elsewhere(
    namesakes: Path,
) -> None:
    namesakes.write_text("def workload():\n    raise KeyError\n")
    for _ in range(2):
        with pytest.raises(WorkloadError):
            load(str(namesakes))
    assert importlib.import_module("namesake_later").FOLDER == "installed"
    assert importlib.import_module("only_later").FOLDER == "users"
    assert sys.path.count(str(namesakes.parent)) == 1


def test_what_a_file_does_to_the_path_stays(namesakes: Path) -> None:
    namesakes.write_text("import sys\nsys.path.insert(0, '/of/the/user')\n")
    with pytest.raises(WorkloadError, match="no function"):
        load(str(namesakes))
    assert sys.path[0] == "/of/the/user"


def test_the_smallest_example_trains_to_its_target() -> None:
    workload = load(str(SMALLEST))
    model = workload.new_model(0)
    optimizer = fallline.create("adamw", model, lr=1e-2)
    schedule = WarmupCosine(optimizer, total_steps=workload.max_steps, warmup_steps=50)
    for step in range(workload.max_steps):
        workload.training_loss(model, step, seed=0).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step + 1 in workload.evaluation_steps() and workload.reached(workload.validate(model)):
            return
    pytest.fail("the example does not reach its own target")


def test_the_smallest_example_is_small() -> None:
    lines = SMALLEST.read_text().splitlines()
    assert len(lines) <= 30


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("chras", "there is no workload 'chras'; did you mean chars"),
        ("zzzzzz", "there are clicks, mri"),
        ("no/such/file.py", "no/such/file.py: there is no such file"),
        ("folder/file", "folder/file: a workload file ends in .py"),
    ],
)
def test_what_cannot_be_found_is_one_line(spec: str, said: str) -> None:
    with pytest.raises(WorkloadError) as raised:
        load(spec)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_function_is_named_with_what_there_is(file: Path) -> None:
    with pytest.raises(WorkloadError, match=r"there is no function other\(\); it has workload, workload_short"):
        load(f"{file}:other")


def test_an_empty_file_is_told_what_to_define(tmp_path: Path) -> None:
    path = tmp_path / "empty.py"
    path.write_text("")
    with pytest.raises(WorkloadError, match=r"define `def workload\(\) -> fallline.Workload`"):
        load(str(path))


def test_something_else_than_a_workload(file: Path) -> None:
    with pytest.raises(WorkloadError, match=r"nothing\(\) must return a fallline.Workload, got int"):
        load(f"{file}:nothing")


def test_a_function_that_raises_shows_the_users_traceback_alone(file: Path) -> None:
    with pytest.raises(WorkloadError) as raised:
        load(f"{file}:broken")
    first, *rest = str(raised.value).splitlines()
    assert first == f"{file}: broken() raised KeyError: 'missing'"
    text = "\n".join(rest)
    assert 'return {}["missing"]' in text and "loading.py" not in text


def test_what_a_file_prints_stays_out_of_stdout(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "loud.py"
    text = "print('read')\nimport fallline\ndef workload():\n    print('called')\n"
    path.write_text(text + "    return fallline.workloads.load('rosenbrock')\n")
    assert load(str(path)).name == "rosenbrock"
    printed = capfd.readouterr()
    assert printed.out == "" and printed.err == "read\ncalled\n"


def test_a_file_that_does_not_parse(tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text("def workload(:\n")
    with pytest.raises(WorkloadError) as raised:
        load(str(path))
    assert "raised SyntaxError" in str(raised.value).splitlines()[0]
    assert "loading.py" not in str(raised.value)


def test_a_function_with_arguments_is_told_that_it_gets_none(file: Path) -> None:
    with pytest.raises(WorkloadError) as raised:
        load(f"{file}:needs")
    assert "needs(width, depth=2) is called without arguments; give them defaults" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_ends_the_process_is_an_error_not_an_end(file: Path, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"leaves\(\) raised SystemExit: 3"):
        load(f"{file}:leaves")
    script = tmp_path / "script.py"
    script.write_text("import sys\nsys.exit()\n")
    with pytest.raises(WorkloadError, match=r"script\.py raised SystemExit"):
        load(str(script))


def test_what_the_workload_refuses_is_shown_at_the_users_line(file: Path) -> None:
    with pytest.raises(WorkloadError) as raised:
        load(f"{file}:misuses")
    text = str(raised.value)
    assert "raised ValueError: max_steps must be a whole number >= 1, got 0" in text.splitlines()[0]
    assert "replace(max_steps=0)" in text and "workload.py" not in text


def test_damaged_real_data_is_one_line_with_two_ways_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALLLINE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("FALLLINE_REAL_DATA", raising=False)
    folder = tmp_path / "data" / "fashion-mnist"
    folder.mkdir(parents=True)
    for file in fashion_mnist.FILES.values():
        (folder / file.name).write_bytes(b"not images")
    with pytest.raises(WorkloadError) as raised:
        load("images_resnet")
    assert "not an idx file" in str(raised.value) and "`fallline data`" in str(raised.value)
    assert "\n" not in str(raised.value)
