"""``fallline doctor`` names what is missing, its cost and its remedy."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from fallline.cli.doctor_checks import SWITCHES
from fallline.measure import load
from tests.cli import Command

REASON = load.reason
"""Before a fixture replaces it."""
pytestmark = pytest.mark.usefixtures("known_bandwidth")


def finding(fallline: Command, name: str) -> dict[str, Any]:
    ended = fallline("doctor", "--json", "--quiet")
    assert ended.code == 0, ended.err
    return next(found for found in json.loads(ended.out)["findings"] if found["name"] == name)


def test_json_is_alone_on_stdout(fallline: Command) -> None:
    ended = fallline("doctor", "--json")
    found = json.loads(ended.out)
    assert {"processor", "native kernels", "threads", "thread pool", "memory bandwidth", "C++ compiler"} < {
        f["name"] for f in found["findings"]
    }
    assert "Measuring" in ended.err
    assert fallline("doctor", "--json", "--quiet").err == ""


def test_limit_of_adamw_follows_from_the_bandwidth(fallline: Command) -> None:
    assert finding(fallline, "memory bandwidth")["data"]["adamw_ms_per_100m"] == pytest.approx(140.0)
    last = fallline("doctor").out.strip().splitlines()[-1]
    assert "takes at least 140 ms" in last


def test_switched_off_kernels_have_a_cost_and_a_remedy(fallline: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALLLINE_NATIVE", "0")
    found = finding(fallline, "native kernels")
    assert "several passes" in found["cost"]
    assert found["remedy"] == "unset FALLLINE_NATIVE"
    text = fallline("doctor", "--quiet").out
    assert "costs: " in text and "to do: unset FALLLINE_NATIVE" in text
    assert "nothing is fused" in text.strip().splitlines()[-1]


def test_unknown_instruction_set_is_explained(fallline: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FALLLINE_ISA", "sse9")
    found = finding(fallline, "native kernels")
    assert "sse9" in found["value"] and found["cost"] and found["remedy"]


def test_missing_compiler_costs_own_rules_only(fallline: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    found = finding(fallline, "C++ compiler")
    assert "no-such-compiler" in found["value"]
    assert "built-in optimizers do not need it" in found["cost"]
    assert "CXX" in found["remedy"]


@pytest.mark.parametrize(("program", "says"), [("true", "wrote no library"), ("false", "failed (exit code 1)")])
def test_program_that_is_no_compiler_is_found_out(
    fallline: Command, monkeypatch: pytest.MonkeyPatch, program: str, says: str
) -> None:
    monkeypatch.setenv("CXX", program)
    found = finding(fallline, "C++ compiler")
    assert says in found["value"] and f"/{program} " in found["value"]
    assert found["cost"] and found["remedy"] == "set CXX to another one"


@pytest.mark.parametrize(
    ("value", "remedy"), [("off", "unset FALLLINE_NATIVE"), ("perhaps", "use 0 or 1, or unset FALLLINE_NATIVE")]
)
def test_value_of_the_native_switch_is_shown(
    fallline: Command, monkeypatch: pytest.MonkeyPatch, value: str, remedy: str
) -> None:
    monkeypatch.setenv("FALLLINE_NATIVE", value)
    found = finding(fallline, "native kernels")
    assert f"FALLLINE_NATIVE={value}" in found["value"] and found["remedy"] == remedy


def test_two_openmp_runtimes_are_a_problem(fallline: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fallline.measure.machine.openmp_runtimes", lambda: ["/a/libgomp.so.1", "/b/libiomp5.so"])
    from fallline.lower.native.library import NativeUnavailable, library

    try:
        library()
    except NativeUnavailable:
        pytest.skip("no native library")
    assert "fight" in finding(fallline, "thread pool")["cost"]


def test_cache_that_others_may_write_to(fallline: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("FALLLINE_CACHE_DIR", str(shared))
    found = finding(fallline, "cache directory")
    assert "others may write" in found["value"] and "FALLLINE_CACHE_DIR" in found["remedy"]
    assert stat.S_IMODE(shared.stat().st_mode) == 0o777


def test_looking_does_not_make_the_cache(fallline: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FALLLINE_CACHE_DIR", str(tmp_path / "not there"))
    assert "not there yet" in finding(fallline, "cache directory")["value"]
    assert not (tmp_path / "not there").exists()


def test_damaged_cache_file_is_reported(fallline: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "rule.so").write_bytes(b"cut off")
    monkeypatch.setenv("FALLLINE_CACHE_DIR", str(tmp_path))
    found = finding(fallline, "cache directory")
    assert found["data"]["broken"] == ["rule.so"]
    assert "1 damaged" in found["value"]


def test_switches_that_are_set_are_shown(fallline: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)
    assert "none of" in finding(fallline, "environment")["value"]
    monkeypatch.setenv("FALLLINE_ISA", "baseline")
    assert finding(fallline, "environment")["data"] == {"FALLLINE_ISA": "baseline"}


def test_width_40_loses_nothing(fallline: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = "".join(fallline("doctor").out.split())
    monkeypatch.setenv("COLUMNS", "40")
    narrow = fallline("doctor").out
    assert max(map(len, narrow.splitlines())) <= 40
    assert "".join(narrow.split()) == wide


def test_a_busy_machine_is_not_taken_for_the_hardware(fallline: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    busy = "other work took 1.9 of 2 processors meanwhile"
    monkeypatch.setattr("fallline.measure.load.reason", lambda *_: busy)
    found = finding(fallline, "memory bandwidth")
    assert found["data"]["busy"] == busy and "adamw_ms_per_100m" not in found["data"]
    assert "what was left" in found["cost"] and found["remedy"] == "stop other work and look again"
    last = fallline("doctor").out.strip().splitlines()[-1]
    assert (
        "cannot be said while other work runs" in last and "at least" not in last and "nothing is missing" not in last
    )


def test_memory_slower_than_ever_before_is_told(
    fallline: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from fallline.measure import known_speeds

    tmp_path.chmod(0o700)
    monkeypatch.setenv("FALLLINE_CACHE_DIR", str(tmp_path))
    quiet = load.Share(2.0, 2.0, 0.0, 0.0, 2, 2)
    monkeypatch.setattr(load.Meter, "share", lambda *_: quiet)
    monkeypatch.setattr(load, "reason", REASON)
    assert finding(fallline, "memory bandwidth")["cost"] == "", "the first look knows nothing else"
    (key,) = json.loads((tmp_path / "memory-speeds.json").read_text())
    known_speeds.remember(key, 45.0)
    assert "20 GB/s for the probe, and 45 before" in finding(fallline, "memory bandwidth")["cost"]
