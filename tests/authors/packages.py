"""Loading packages that bring more than their optimizers."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def timm_class(module: str, name: str) -> Any:
    """An optimizer of timm.  Its package imports models, which need torchvision; the files of its optimizers do not,
    so the two packages around them are entered without running what is in them."""
    found = importlib.util.find_spec("timm")
    if found is None or found.origin is None:
        pytest.skip("timm is not installed; `make test-authors` installs it")
    root = Path(found.origin).parent
    for package, path in (("timm", root), ("timm.optim", root / "optim")):
        if package not in sys.modules:
            shell = ModuleType(package)
            shell.__path__ = [str(path)]
            shell.__spec__ = importlib.machinery.ModuleSpec(package, None, origin=str(path / "__init__.py"))
            sys.modules[package] = shell
    return getattr(importlib.import_module(f"timm.optim.{module}"), name)


def class_of(module: str, name: str) -> Any:
    """``class_of("schedulefree", "AdamWScheduleFree")``; timm's by file, ``class_of("timm.optim.lamb", "Lamb")``."""
    if module.startswith("timm.optim."):
        return timm_class(module.removeprefix("timm.optim."), name)
    return getattr(pytest.importorskip(module, reason="`make test-authors` installs it"), name)
