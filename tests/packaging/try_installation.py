"""Uses an installation as a user would; run by the Python that has it, with nothing else installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import warnings
from pathlib import Path

import torch

import fallline
from fallline.lower.native.library import library
from fallline.measure import machine
from fallline.rules import rule

assert "site-packages" in str(Path(fallline.__file__)), fallline.__file__
assert Path(fallline.__file__).with_name("py.typed").is_file()
assert shutil.which("c++") is None and shutil.which("g++") is None and shutil.which("clang++") is None


def trained(library_: object) -> list[torch.Tensor]:
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in ((300, 301), (70_001,), ())]
    opt = library_.AdamW(params, lr=0.01, fused=True)  # type: ignore[attr-defined]
    for _ in range(5):
        for param in params:
            param.grad = torch.randn_like(param)
        opt.step()
    return [param.detach() for param in params]


# Fused kernels, one pool of threads, torch's results.
torch.testing.assert_close(trained(fallline), trained(torch.optim), rtol=1e-5, atol=1e-6)
assert library().handle.fl_has_threads() == 1
assert len(machine.openmp_runtimes()) == 1, machine.openmp_runtimes()
opt = fallline.AdamW8bit([torch.nn.Parameter(torch.ones(10_000))])
assert "native" in opt.explain()


# A rule of one's own runs without a compiler, through foreach, with one notice.
@rule
def plain(p, g, *, lr):  # type: ignore[no-untyped-def]
    return p - lr * g


weight = torch.nn.Parameter(torch.ones(5))
weight.grad = torch.ones(5)
with warnings.catch_warnings(record=True) as notices:
    warnings.simplefilter("always")
    fallline.optimizer(plain, lr=0.5)([weight]).step()
assert weight.tolist() == [0.5] * 5
assert [("compiler" in str(notice.message)) for notice in notices] == [True], notices


def command(*arguments: str) -> str:
    return subprocess.run(["fallline", *arguments], check=True, capture_output=True, text=True).stdout


assert "race" in command("--help")
assert fallline.__version__ in command("--version")
findings = {found["name"]: found for found in json.loads(command("doctor", "--json", "--quiet"))["findings"]}
assert findings["native kernels"]["data"]["in_use"] is not None, findings
assert "no C++ compiler" in findings["C++ compiler"]["value"], findings
print(f"fallline {fallline.__version__} with torch {torch.__version__}: {findings['native kernels']['value']}")
