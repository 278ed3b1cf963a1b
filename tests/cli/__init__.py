"""The command ``fallline``, called in this process as the shell would call it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from fallline.cli import main


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Ended]


def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["fallline", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Ended(code, captured.out, captured.err)

    return call
