"""The command as a whole: fast help, exit codes, odd terminals."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from tests.cli import Command

FALLLINE = [sys.executable, "-m", "fallline"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["--version"],
        *(
            [*verb.split(), "--help"]
            for verb in (
                "optimizers",
                "doctor",
                "data",
                "race",
                "contestants",
                "results",
                "results status",
                "score",
                "step",
                "profile",
            )
        ),
    ],
)
def test_help_does_not_import_torch(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from fallline.cli import main\n"
        f"sys.argv = ['fallline', *{arguments}]\n"
        "try:\n    main()\n"
        "except SystemExit as ended:\n    assert ended.code == 0, ended.code\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "fallline" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "nothing"),
        (["doctor", "--wrong"], "--wrong"),
        (["optimizers", "adam", "adamw"], "adamw"),
        (["optimizers", "no_such_optimizer"], "no_such_optimizer"),
        (["optimizers", "--out"], "--out"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(fallline: Command, arguments: list[str], said: str) -> None:
    ended = fallline(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert len(ended.err.strip().splitlines()) == 1
    assert said in ended.err


def test_misspelt_optimizer_is_answered_with_close_names(fallline: Command) -> None:
    assert "did you mean lion" in fallline("optimizers", "lyon").err


def test_unwritable_out_is_refused_before_any_work(fallline: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fallline.measure.bandwidth.probe", lambda *_, **__: pytest.fail("measured already"))
    ended = fallline("doctor", "--out", "/no/such/directory/file")
    assert ended.code == 2
    assert "/no/such/directory" in ended.err


def test_reader_that_closes_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run([*FALLLINE, "optimizers"], stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.parametrize("more", [[], ["--json"], ["--out", "/dev/full"]])
def test_full_disk_is_told_in_one_line(more: list[str]) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*FALLLINE, "optimizers", *more], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert "could not be written (No space left on device)" in line


def test_terminal_without_unicode_gets_question_marks_not_a_traceback() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run([*FALLLINE, "optimizers"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "adamw" in done.stdout
    assert done.stdout.isascii()


def in_terminal(arguments: list[str], **environment: str) -> str:
    """The command's output on a terminal."""
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [*FALLLINE, *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm-256color", **environment},
    )
    os.close(terminal)
    written = b""
    try:
        while chunk := os.read(main, 65536):
            written += chunk
    except OSError:  # how Linux says that the other side has closed
        pass
    os.close(main)
    assert process.wait() == 0
    return written.decode()


COLOUR = re.compile(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|38;)")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def test_colours_in_a_terminal_and_none_with_no_color() -> None:
    assert COLOUR.search(in_terminal(["optimizers", "lion"], COLUMNS="80"))
    assert not COLOUR.search(in_terminal(["optimizers", "lion"], COLUMNS="80", NO_COLOR="1"))


@pytest.mark.parametrize("columns", [40, 100, 120])
def test_lists_fit_the_terminal(columns: int) -> None:
    plain = ESCAPE.sub("", in_terminal(["optimizers"], COLUMNS=str(columns)))
    assert max(map(len, plain.splitlines())) <= columns
    assert "adamw8bit" in plain
