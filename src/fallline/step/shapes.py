"""The shapes of a step, from the name of a model or from a user's file."""

from __future__ import annotations

import contextlib
import importlib
import math
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Shapes = tuple[tuple[int, ...], ...]
MOST_TENSORS = 100_000
"""A limit above the number of tensors of any model, because a list of shapes takes memory itself."""
MOST_DIGITS = 9
"""The largest number of digits in a model's name."""


class BadModel(Exception):
    """Raised if a model cannot be made; the message is one line, and the traceback of a user's file may follow it."""


def model_shapes(name: str) -> Shapes:
    """``gpt2-small``, ``gpt2-12x12x768`` (heads, layers, width), ``timm:resnet50``, or ``FILE.py:function``."""
    path, colon, function = name.rpartition(":")
    if name.endswith(".py") or (colon and path.endswith(".py")):
        return _from_file(Path(path), function) if colon and path.endswith(".py") else _from_file(Path(name), "model")
    package, colon, model = name.partition(":")
    if colon and package in PACKAGES:
        return _from_package(package, model)
    return _from_name(name)


def _from_name(name: str) -> Shapes:
    from fallline.step.gpt2 import PUBLISHED, Gpt2

    if name in PUBLISHED:
        return tuple(PUBLISHED[name].shapes())
    parts = re.fullmatch(r"gpt2-(\d+)x(\d+)x(\d+)", name)
    if parts:
        if max(map(len, parts.groups())) > MOST_DIGITS:
            raise BadModel(f"--model {name}: heads, layers and width must have at most {MOST_DIGITS} digits")
        heads, layers, width = map(int, parts.groups())
        if min(heads, layers, width) < 1 or width % heads:
            raise BadModel(f"--model {name}: heads, layers and width must be ≥ 1, and width a multiple of heads")
        most = MOST_TENSORS // len(Gpt2(1, 1, 1).shapes())
        if layers > most:
            raise BadModel(f"--model {name}: layers must be at most {most:,}")
        return tuple(Gpt2(heads, layers, width).shapes())
    known = ", ".join([*PUBLISHED, "gpt2-HEADSxLAYERSxWIDTH", *(f"{package}:NAME" for package in PACKAGES)])
    raise BadModel(f"--model {name}: not known; there are {known} and FILE.py:FUNCTION")


def _timm(name: str) -> Any:
    return importlib.import_module("timm").create_model(name)


def _torchvision(name: str) -> Any:
    return importlib.import_module("torchvision").models.get_model(name, weights=None)


def _transformers(name: str) -> Any:
    """A model of a kind (``bert``, ``llama``) in its default configuration, which needs no network."""
    transformers: Any = importlib.import_module("transformers")
    return transformers.AutoModel.from_config(transformers.AutoConfig.for_model(name))


PACKAGES: dict[str, Callable[[str], Any]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "transformers": _transformers,
}
"""Packages whose models can be named if they are installed."""


def _from_package(package: str, name: str) -> Shapes:
    import torch

    where = f"--model {package}:{name}"
    try:
        with torch.device("meta"), contextlib.redirect_stdout(sys.stderr):
            found = shapes_of(PACKAGES[package](name))
    except ImportError as error:
        # Name the package that was not found: timm, for example, imports torchvision.
        lacking = (error.name or package).partition(".")[0]
        needed = "" if lacking == package else f"{package} needs it; "
        raise BadModel(f"{where}: {lacking} is not installed; {needed}pip install {lacking}") from error
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadModel(f"{where}: {package} has no such model, or cannot build it ({first})") from error
    if not any(map(math.prod, found)):
        raise BadModel(f"{where}: has no parameters that train")
    return found


def _from_file(path: Path, function: str) -> Shapes:
    where = f"--model {path}:{function}"
    if not path.is_file():
        raise BadModel(f"{where}: there is no such file")
    try:
        with _as_if_run(path):
            made = _made(runpy.run_path(str(path)), function, where)
            found = _shapes_at(where, made)  # a generator runs only now
    except BadModel:
        raise
    except (Exception, SystemExit) as error:
        raise BadModel(f"{where}: raised {type(error).__name__}\n{_users_traceback(error, path)}") from error
    if not any(map(math.prod, found)):
        kind = made.__name__ if isinstance(made, type) else type(made).__name__
        nothing = " without parameters that train" if hasattr(made, "parameters") else ""
        raise BadModel(f"{where}: must return a module, or parameters, or shapes; got {kind}{nothing}")
    return found


def _shapes_at(where: str, made: Any) -> Shapes:
    try:
        return shapes_of(made)
    except BadModel as error:
        raise BadModel(f"{where}: {error}") from error


@contextlib.contextmanager
def _as_if_run(path: Path) -> Iterator[None]:
    """Lets a user's file import its neighbours, and redirects what it prints, because stdout is for results."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _made(names: Mapping[str, Any], function: str, where: str) -> Any:
    """The result of the function; a module that exists already is taken as it is."""
    import torch

    found = names.get(function)
    if isinstance(found, torch.nn.Module):
        return found
    if not callable(found):
        raise BadModel(f"{where}: the file has no function {function or 'of that name'}; name one as FILE.py:FUNCTION")
    return found()


def _users_traceback(error: BaseException, path: Path) -> str:
    """The traceback from the user's own file on; the calls that led there do not help."""
    frames = error.__traceback__
    while frames is not None and Path(frames.tb_frame.f_code.co_filename) != path:
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def shapes_of(made: Any) -> Shapes:
    """The shapes of a module's trainable parameters, of tensors (alone, named or in groups), or of given shapes."""
    import torch

    if isinstance(made, torch.nn.Module):
        return tuple(_shape(p) for p in made.parameters() if p.requires_grad)
    if isinstance(made, torch.Tensor):
        return (_shape(made),)
    if isinstance(made, Mapping):
        made = made.values()
    if not isinstance(made, Iterable) or isinstance(made, (str, bytes)):
        return ()
    found: list[tuple[int, ...]] = []
    for one in made:
        its = _shapes_of_item(one)
        if its is None:
            return ()
        found += its
        if len(found) > MOST_TENSORS:
            raise BadModel(f"has more than {MOST_TENSORS:,} tensors; name fewer")
    return tuple(found)


def _shapes_of_item(one: Any) -> list[tuple[int, ...]] | None:
    """The shapes of a tensor, a named tensor, a group of an optimizer, or a shape; None for anything else."""
    import torch

    if isinstance(one, Mapping):
        return list(shapes_of(one.get("params", ()))) or None
    if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str):
        one = one[1]
    if isinstance(one, torch.Tensor):
        return [_shape(one)]
    if isinstance(one, (tuple, list)) and all(isinstance(n, int) and n >= 0 for n in one):
        return [tuple(one)]
    return None


def _shape(tensor: Any) -> tuple[int, ...]:
    from torch.nn.parameter import is_lazy

    if is_lazy(tensor):
        raise BadModel("has lazy parameters, whose shapes are not known yet; run one batch through it first")
    return tuple(tensor.shape)
