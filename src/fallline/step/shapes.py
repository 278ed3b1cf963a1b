"""Where the shapes of a step come from: a grid, a model by name, or a user's file."""

from __future__ import annotations

import importlib
import math
import re
import runpy
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Shapes = tuple[tuple[int, ...], ...]


class BadModel(Exception):
    """A model that cannot be had; the message is one line, and a user's own traceback may follow below it."""


def model_shapes(name: str) -> Shapes:
    """``gpt2-small``, ``gpt2-12x12x768`` (heads, layers, width), ``timm:resnet50``, or ``FILE.py:function``."""
    path, colon, function = name.rpartition(":")
    if name.endswith(".py") or (colon and path.endswith(".py")):
        return _from_file(Path(path), function) if colon and path.endswith(".py") else _from_file(Path(name), "model")
    if name.startswith("timm:"):
        return _from_timm(name.removeprefix("timm:"))
    return _from_name(name)


def _from_name(name: str) -> Shapes:
    from fallline.step.gpt2 import PUBLISHED, Gpt2

    if name in PUBLISHED:
        return tuple(PUBLISHED[name].shapes())
    parts = re.fullmatch(r"gpt2-(\d+)x(\d+)x(\d+)", name)
    if parts:
        heads, layers, width = map(int, parts.groups())
        if min(heads, layers, width) < 1 or width % heads:
            raise BadModel(f"--model {name}: heads, layers and width must be ≥ 1, and width a multiple of heads")
        return tuple(Gpt2(heads, layers, width).shapes())
    known = ", ".join(PUBLISHED)
    raise BadModel(
        f"--model {name}: not known; there are {known}, gpt2-HEADSxLAYERSxWIDTH, timm:NAME and FILE.py:FUNCTION"
    )


def _from_timm(name: str) -> Shapes:
    try:
        timm: Any = importlib.import_module("timm")
    except ImportError as error:
        raise BadModel(f"--model timm:{name}: timm cannot be imported ({error}); install it") from error
    import torch

    try:
        with torch.device("meta"):
            return shapes_of(timm.create_model(name))
    except RuntimeError as error:
        raise BadModel(f"--model timm:{name}: {str(error).splitlines()[0]}") from error


def _from_file(path: Path, function: str) -> Shapes:
    where = f"--model {path}:{function}"
    if not path.is_file():
        raise BadModel(f"{where}: there is no such file")
    try:
        names = runpy.run_path(str(path))
        if not callable(names.get(function)):
            raise BadModel(f"{where}: the file has no function {function}; name one as FILE.py:FUNCTION")
        made = names[function]()
    except BadModel:
        raise
    except (Exception, SystemExit) as error:
        raise BadModel(f"{where}: raised {type(error).__name__}\n{_users_traceback(error, path)}") from error
    found = shapes_of(made)
    if not any(map(math.prod, found)):
        nothing = " without parameters that train" if hasattr(made, "parameters") else ""
        raise BadModel(f"{where}: must return a module, or parameters, or shapes; got {type(made).__name__}{nothing}")
    return found


def _users_traceback(error: BaseException, path: Path) -> str:
    """From the user's own file on: how it came to be run is no help."""
    frames = error.__traceback__
    while frames is not None and Path(frames.tb_frame.f_code.co_filename) != path:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def shapes_of(made: Any) -> Shapes:
    """Of a module's parameters that train, of tensors, or shapes as they are."""
    import torch

    if isinstance(made, torch.nn.Module):
        return tuple(tuple(p.shape) for p in made.parameters() if p.requires_grad)
    if not isinstance(made, Iterable):
        return ()
    found = []
    for one in made:
        if isinstance(one, torch.Tensor):
            found.append(tuple(one.shape))
        elif isinstance(one, (tuple, list, torch.Size)) and all(isinstance(n, int) and n >= 0 for n in one):
            found.append(tuple(one))
        else:
            return ()
    return tuple(found)
