"""Which lowering runs, and how the optimizer says so; without native kernels everything still works."""

import errno
import json
import os
import shutil
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import fallline
from fallline.lower.catalogue import find_lowering
from fallline.lower.native import compiler
from fallline.lower.native.library import INSTRUCTION_SETS, library
from fallline.rules import norm, rule, tanh

from . import trajectories
from .trajectories import LOWERINGS, assert_near, parameters, python, run, set_gradients, values

FLAGS = [
    ({}, "native (fastest)"),
    ({"foreach": None, "fused": None}, "native (fastest)"),
    ({"foreach": True, "fused": True}, "native (asked for)"),
    ({"fused": True}, "native (asked for)"),
    ({"foreach": False, "fused": True}, "native each (asked for)"),
    ({"foreach": True, "fused": False}, "foreach (asked for)"),
    ({"foreach": True}, "foreach (asked for)"),
    ({"fused": False}, "foreach (asked for)"),
    ({"foreach": False, "fused": False}, "eager (asked for)"),
    ({"foreach": False}, "eager (asked for)"),
    ({"compiled": True}, "compiled (asked for)"),
    ({"compiled": True, "foreach": False, "fused": False}, "compiled (asked for)"),
]


@pytest.mark.parametrize(("flags", "says"), FLAGS, ids=str)
def test_flags_choose_the_lowering(flags, says):
    opt = fallline.AdamW(parameters((5, 3), (4,)), **flags)
    assert opt.explain().splitlines()[0] == f"group 0: 2 tensors, 19 elements: {says}"


def test_explain_before_the_first_gradient_makes_no_states():
    opt = fallline.AdamW(params := parameters((5, 3), (4,)))
    assert opt.explain().splitlines()[1:] == ["2 parameters have had no gradient yet, and no state"]
    set_gradients(params[:1], 0)
    assert opt.explain().splitlines()[1:] == ["1 parameter has had no gradient yet, and no state"]
    assert not opt.state_dict()["state"]
    run(opt, 1)
    assert len(opt.explain().splitlines()) == 1


def test_explain_says_why_not_a_faster_one():
    kinds = [torch.float32, torch.float64, torch.complex64, torch.complex128, torch.bfloat16]
    opt = fallline.AdamW([parameters((4,), dtype=dtype)[0] for dtype in kinds])
    opt.add_param_group({"params": parameters((3, 3)), "lr": 0.5})
    opt.add_param_group({"params": parameters((2,)), "foreach": False, "fused": False})
    assert opt.explain().splitlines()[:3] == [
        "groups 0, 1: 4 tensors, 21 elements: native (fastest)",
        "group 0: 2 tensors, 8 elements: foreach (float64 has no native kernel)",
        "group 2: 1 tensor, 2 elements: eager (asked for)",
    ]


def test_explanation_is_what_runs(monkeypatch):
    from fallline.lower.native.executor import NativeExecutor

    stepped = []
    original = NativeExecutor.run
    monkeypatch.setattr(
        NativeExecutor, "run", lambda self, numbers: (stepped.append(self.each), original(self, numbers))[1]
    )
    for lowering, expected in (("native", [False]), ("native each", [True]), ("foreach", []), ("eager", [])):
        stepped.clear()
        run(fallline.AdamW(parameters((5,)), **LOWERINGS[lowering]), 1)
        assert stepped == expected, lowering


def test_lowering_may_change_between_steps():
    ours, theirs = parameters((5, 3), (4,)), parameters((5, 3), (4,))
    opt, reference = fallline.AdamW(ours, lr=0.1), torch.optim.AdamW(theirs, lr=0.1)
    for step, flags in enumerate(LOWERINGS.values()):
        opt.param_groups[0].update({"foreach": None, "fused": None, "compiled": False, **flags})
        run(opt, range(step, step + 1))
        run(reference, range(step, step + 1))
    assert_near(values(ours), values(theirs))


# ---------------------------------------------------------------------- without native kernels

EVERYTHING = """
import torch, fallline
results = {}
for name in NAMES:
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(70, 70)), torch.nn.Parameter(torch.randn(5))]
    opt = fallline.create(name, params, clip_norm=1.0)
    for _ in range(3):
        for p in params:
            p.grad = torch.randn_like(p)
        opt.step()
    results[name] = sum(float(p.detach().double().sum()) for p in params)
explained = opt.explain()
for flags in ({"fused": True}, {"foreach": False, "fused": True}, {"foreach": False, "fused": False}):
    fallline.AdamW(params, **flags).step()
"""
NAMES = ["adagrad", "adam", "adam8bit", "adamw", "adamw8bit", "amsgrad", "lion", "lion8bit", "rmsprop", "sgd"]


def test_everything_works_without_native_with_one_notice():
    code = f"""
import json, warnings
NAMES = {NAMES}
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    {EVERYTHING.replace(chr(10), chr(10) + "    ")}
notices = [str(w.message) for w in seen if w.category is RuntimeWarning]
print(json.dumps({{"results": results, "explain": explained, "notices": notices}}))
"""
    done = python(code, FALLLINE_NATIVE="0")
    assert done.returncode == 0, done.stderr
    without = json.loads(done.stdout)
    assert len(without["notices"]) == 1 and "FALLLINE_NATIVE=0" in without["notices"][0]
    assert "foreach (no native kernel: switched off by FALLLINE_NATIVE=0; unset FALLLINE_NATIVE)" in without["explain"]
    here: dict[str, Any] = {"NAMES": NAMES}
    exec(EVERYTHING, here)
    assert "native (fastest)" in here["explained"]
    for name, value in here["results"].items():
        assert without["results"][name] == pytest.approx(value, abs=0.3 if "8bit" in name else 1e-3), name


def explained_with(monkeypatch, **environment):
    """A step in these surroundings: what the optimizer says of it, and the notices."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(find_lowering("native"), "_told", set())
    p = torch.nn.Parameter(torch.zeros(3))
    p.grad = torch.ones(3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        opt = fallline.SGD([p], lr=1.0)
        opt.step()
        opt.step()
    assert p.tolist() == [-2.0] * 3
    assert all(Path(w.filename) == Path(__file__) for w in seen), "a notice points to the user's line"
    return opt.explain(), [str(w.message) for w in seen]


def missing_instruction_set():
    return next((isa for isa in INSTRUCTION_SETS if not library().has(isa)), None)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("FALLLINE_ISA", "mmx", "FALLLINE_ISA=mmx: no such instruction set; use baseline"),
        ("FALLLINE_ISA", "missing", "FALLLINE_ISA=missing: this processor or build lacks it; use baseline"),
        ("FALLLINE_NATIVE", "no", "switched off by FALLLINE_NATIVE=no; unset FALLLINE_NATIVE"),
        ("FALLLINE_NATIVE", "False", "switched off by FALLLINE_NATIVE=False; unset FALLLINE_NATIVE"),
        ("FALLLINE_NATIVE", "perhaps", "FALLLINE_NATIVE=perhaps is neither on nor off; use 0 or 1"),
    ],
)
def test_switch_without_kernels_gives_one_line_with_its_value_and_the_remedy(monkeypatch, name, value, says):
    if value == "missing":
        value = missing_instruction_set() or pytest.skip("this processor has every instruction set")
        says = says.replace("missing", value)
    explained, notices = explained_with(monkeypatch, **{name: value})
    assert f"foreach (no native kernel: {says}" in explained and "\n" not in explained
    assert len(notices) == 1 and says in notices[0] and "\n" not in notices[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("FALLLINE_ISA", ""), ("FALLLINE_ISA", "Baseline"), *(("FALLLINE_NATIVE", on) for on in ("", "1", "yes", "ON"))],
)
def test_switch_that_asks_for_kernels_gives_them(monkeypatch, name, value):
    explained, notices = explained_with(monkeypatch, **{name: value})
    assert "native (fastest)" in explained and notices == []


# ---------------------------------------------------------------------- kernels of users' rules

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="needs a C++ compiler"
)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of kernels, and no notice given yet."""
    monkeypatch.setenv("FALLLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(find_lowering("native"), "_told", set())
    return tmp_path / "cache"


def step_with_new_rule():
    """A rule that this process has not seen, stepped twice; what its optimizer says, and the notices."""

    @rule
    def squashed(p, g, m, *, lr, beta):
        m = beta * m + (1 - beta) * g
        return p - lr * tanh(m), m

    cls = fallline.optimizer(squashed, lr=0.5, beta=0.0)
    p = torch.nn.Parameter(torch.zeros(4))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            p.grad = torch.full((4,), 100.0)
            opt = cls([p])
            opt.step()
    assert p.tolist() == [-1.0] * 4
    return opt.explain(), [str(w.message) for w in seen]


def broken_compiler(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_without_compiler_a_users_rule_runs_through_foreach_with_one_notice(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    explained, notices = step_with_new_rule()
    assert "foreach (no native kernel: no C++ compiler" in explained
    assert len(notices) == 1 and "install one or set CXX" in notices[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("#!/bin/sh\necho 'rule.cpp:1: error: I am broken' >&2\nexit 1\n", "I am broken"),
        ("#!/bin/sh\nprintf 'usage: of something else\\nsecond line\\n' >&2\nexit 1\n", "usage: of something else"),
        ("#!/bin/sh\nexit 3\n", "failed (exit code 3)"),
        ("#!/bin/sh\nexit 0\n", "wrote no library"),
        ('#!/bin/sh\nfor last; do :; done\n[ $# -eq 1 ] || echo nothing > "$last"\n', "cannot be loaded"),
        ("no program\n", "did not run"),
    ],
)
def test_with_a_broken_compiler_a_users_rule_runs_through_foreach_with_one_notice(
    cache, tmp_path, monkeypatch, text, says
):
    monkeypatch.setenv("CXX", broken_compiler(tmp_path / "broken-c++", text))
    explained, notices = step_with_new_rule()
    assert "foreach (no native kernel" in explained
    assert len(notices) == 1 and says in notices[0] and "broken-c++" in notices[0]
    assert "set CXX to another one" in notices[0] and "\n" not in notices[0]


@needs_compiler
def test_on_a_full_disk_a_users_rule_runs_through_foreach_with_one_notice(cache, monkeypatch):
    def no_room(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(compiler, "_build", no_room)
    explained, notices = step_with_new_rule()
    assert "foreach (no native kernel" in explained
    assert len(notices) == 1 and "No space left on device" in notices[0] and "FALLLINE_CACHE_DIR" in notices[0]


def test_rule_with_more_passes_than_the_engine_runs_says_so(cache):
    @rule
    def many_passes(p, g, *, lr):
        u = g
        for _ in range(6):
            u = u / (1 + norm(u))
        return p - lr * u

    params = parameters((5,))
    params[0].grad = torch.ones(5)
    opt = fallline.optimizer(many_passes, lr=0.1)(params)
    with pytest.warns(RuntimeWarning, match="needs more than 6 passes over memory"):
        opt.step()
    assert "foreach" in opt.explain()


@pytest.mark.parametrize("value", ["no-such-compiler", "/etc/passwd", "/tmp", 'g++ "', "no-such-cache g++"])
def test_compiler_that_is_no_program_is_named(cache, monkeypatch, value):
    monkeypatch.setenv("CXX", value)
    explained, notices = step_with_new_rule()
    assert "foreach (no native kernel" in explained
    assert len(notices) == 1 and f"CXX={value} is no program that can be run; set CXX" in notices[0]


@needs_compiler
def test_compiler_may_have_arguments(cache, monkeypatch):
    monkeypatch.setenv("CXX", "env -u NOTHING c++")
    explained, notices = step_with_new_rule()
    assert "native (fastest)" in explained and notices == []


def test_cache_that_others_may_write_to_is_refused(cache):
    cache.mkdir()
    cache.chmod(0o777)
    explained, notices = step_with_new_rule()
    assert "foreach (no native kernel" in explained
    assert len(notices) == 1 and f"chmod go-w {cache}" in notices[0]
    assert not list(cache.iterdir())


def test_cache_of_another_user_is_refused(cache, monkeypatch):
    cache.mkdir(mode=0o700)
    # Only root can give a directory away, and not in every container; anybody can be somebody else.
    monkeypatch.setattr(os, "getuid", lambda: cache.stat().st_uid + 1)
    explained, notices = step_with_new_rule()
    assert "foreach (no native kernel" in explained
    assert len(notices) == 1 and "another user" in notices[0]


@needs_compiler
def test_cached_kernel_is_private_used_again_and_rebuilt_when_truncated(cache):
    assert "native (fastest)" in step_with_new_rule()[0]
    assert cache.stat().st_mode & 0o077 == 0
    (built,) = cache.glob("*.so")
    first = built.stat()
    assert "native (fastest)" in step_with_new_rule()[0]
    assert built.stat().st_ino == first.st_ino, "compiled again"
    # In a file of its own: this process still runs the old one.
    truncated = cache / "truncated"
    truncated.write_bytes(built.read_bytes()[:1000])
    truncated.replace(built)
    explained, notices = step_with_new_rule()
    assert "native (fastest)" in explained and notices == []
    assert built.stat().st_size == first.st_size
    assert sorted(p.suffix for p in cache.iterdir()) == [".sha256", ".so"]


@needs_compiler
def test_users_rule_in_native_equals_its_eager_reference(cache):
    from .test_copies import Signum

    ours, eager = parameters((70, 33), (5,)), parameters((70, 33), (5,))
    opt = Signum(ours)
    run(opt, 3)
    run(Signum(eager, **LOWERINGS["eager"]), 3)
    assert "native (fastest)" in opt.explain()
    assert_near(values(ours), values(eager))


@needs_compiler
def test_constant_that_float32_cannot_hold_is_infinite_in_native_too(cache):
    @rule
    def exploding(p, g, *, lr):
        return p - lr * (1e39 * g)

    cls = fallline.optimizer(exploding, lr=1.0)
    results = []
    for lowering in ("native", "eager"):
        p = torch.nn.Parameter(torch.zeros(3))
        opt = cls([p], **LOWERINGS[lowering])
        p.grad = torch.tensor([1.0, -1.0, 0.0])
        opt.step()
        assert f"{lowering} (asked for)" in opt.explain()
        results.append(p.detach())
    torch.testing.assert_close(*results, equal_nan=True)


IN_A_PROCESS = """
import sys, warnings
sys.path.insert(0, ROOT)
from tests.contract.test_lowerings import step_with_new_rule
explained, notices = step_with_new_rule()
assert "native (fastest)" in explained, explained
print(notices)
"""


def in_a_process(**environment):
    root = str(Path(__file__).parents[2])
    done = python(IN_A_PROCESS.replace("ROOT", repr(root)), **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_compiler
def test_home_that_cannot_be_written_to_gives_a_temporary_cache_that_is_removed(tmp_path):
    blocked, temporary = tmp_path / "file", tmp_path / "tmp"
    blocked.write_text("")
    temporary.mkdir()
    said = in_a_process(HOME=str(blocked), XDG_CACHE_HOME="", FALLLINE_CACHE_DIR="", TMPDIR=str(temporary))
    assert said.count("FALLLINE_CACHE_DIR") == 1
    assert not list(temporary.glob("fallline-*"))


@needs_compiler
def test_processes_that_compile_the_same_rule_at_once_all_succeed(tmp_path):
    said = []
    threads = [
        threading.Thread(target=lambda: said.append(in_a_process(FALLLINE_CACHE_DIR=str(tmp_path / "cache"))))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == ["[]\n", "[]\n"]
    assert sorted(p.suffix for p in (tmp_path / "cache").iterdir()) == [".sha256", ".so"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_fused_where_there_is_no_kernel_runs_the_fastest_that_is_correct_and_says_so_once(dtype, monkeypatch):
    """torch's fused kernels take float64; a script that asks for them must not stop here."""
    monkeypatch.setattr(find_lowering("native"), "_told", set())
    wide, twins = parameters((5, 3), dtype=dtype), parameters((5, 3), dtype=dtype)
    (narrow,) = parameters((4,))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        opt = fallline.AdamW([*wide, narrow], lr=0.01, fused=True)
        run(opt, 3)
    assert [str(w.message) for w in seen] == [
        "fused=True: float64 has no native kernel, so that foreach runs instead; use lowering='native' to refuse it"
    ]
    assert seen[0].filename == trajectories.__file__, "where step() was called"
    run(torch.optim.AdamW(twins, lr=0.01), 3)
    assert_near(values(wide), values(twins), rtol=1e-12, atol=1e-12)
    assert [(part.lowering, part.reason) for part in opt.explain().parts] == [
        ("foreach", "float64 has no native kernel"),
        ("native", "asked for"),
    ]
