"""Optimizers of other packages by name, without what else the packages bring."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.arms import NotInstalled


def class_of(module: str, name: str) -> Any:
    """``class_of("schedulefree", "AdamWScheduleFree")``; of timm by file, ``class_of("timm.optim.lamb", "Lamb")``."""
    try:
        if module.startswith("timm.optim."):
            _enter_timm()
        with contextlib.redirect_stdout(io.StringIO()):
            return getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise NotInstalled(f"{module}: not installed ({error})") from error


def _enter_timm() -> None:
    """timm's package imports models, which need torchvision; the files of its optimizers do not, so the two
    packages around them are entered without running what is in them."""
    found = importlib.util.find_spec("timm")
    if found is None or found.origin is None:
        raise ImportError("No module named 'timm'")
    root = Path(found.origin).parent
    for package, path in (("timm", root), ("timm.optim", root / "optim")):
        if package not in sys.modules:
            shell = ModuleType(package)
            shell.__path__ = [str(path)]
            shell.__spec__ = importlib.machinery.ModuleSpec(package, None, origin=str(path / "__init__.py"))
            sys.modules[package] = shell
