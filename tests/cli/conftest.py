"""Fixtures of the command-line tests."""

import pytest

from fallline.measure.bandwidth import Bandwidth
from tests.cli import Command, command


@pytest.fixture(name="fallline")
def fallline_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.delenv("COLUMNS", raising=False)
    return command(monkeypatch, capsys)


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else runs beside the tests, measurements are taken for those of a machine that is left alone."""
    monkeypatch.setattr("fallline.measure.load.reason", lambda *_, **__: None)


@pytest.fixture
def known_bandwidth(monkeypatch: pytest.MonkeyPatch) -> Bandwidth:
    """20 GB/s without measuring: 140 ms for AdamW's 28 bytes of 100 million parameters."""
    known = Bandwidth(4, 3, 1 << 24, 2, "native avx2", 128, (19.0, 20.0, 21.0))
    monkeypatch.setattr("fallline.measure.bandwidth.probe", lambda *_, **__: known)
    return known
