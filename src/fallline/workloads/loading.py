"""Loads the workload that a user names: a built-in one, or one from a file."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fallline.workloads.data.idx import BadFile
from fallline.workloads.errors import WorkloadError, raised
from fallline.workloads.gpt import SIZES
from fallline.workloads.targets import with_target
from fallline.workloads.workload import Workload

# name → module and function.  Variants change one thing of their base, as AlgoPerf's held-out workloads do.
BUILT_IN = {
    "clicks": "clicks:workload",
    "mri": "mri:workload",
    "images_resnet": "images_resnet:workload",
    "images_vit": "images_vit:workload",
    "speech_conformer": "speech_conformer:workload",
    "speech_deepspeech": "speech_deepspeech:workload",
    "graphs": "graphs:workload",
    "translation": "translation:workload",
    "chars": "chars:workload",
    "fashion_mlp": "fashion_mlp:workload",
    "quadratic_deep": "quadratic_deep:workload",
    "rosenbrock": "rosenbrock:workload",
    "clicks_embed_init": "clicks:embed_init",
    "mri_tanh": "mri:tanh",
    "images_resnet_large_bn_init": "images_resnet:large_bn_init",
    "speech_conformer_layernorm": "speech_conformer:layernorm",
    "graphs_model_size": "graphs:model_size",
    "translation_glu_tanh": "translation:glu_tanh",
}

STEPS_AXIS = "steps"
"""The axis of a ladder that every workload has: its budget; any other is an argument of the workload's function."""

ALGOPERF = tuple(BUILT_IN)[:8]
"""The eight that mirror AlgoPerf's."""

HELD_OUT = {
    "clicks_embed_init": "clicks",
    "mri_tanh": "mri",
    "images_resnet_large_bn_init": "images_resnet",
    "speech_conformer_layernorm": "speech_conformer",
    "graphs_model_size": "graphs",
    "translation_glu_tanh": "translation",
}
"""Held-out variant → its base."""


GPT_SIZES = {(size if size.startswith("gpt") else f"gpt-{size}").replace("-", "_"): size for size in SIZES}
"""The names of GPTs on text, which have no target of their own: a profile trains them, a race needs ``--target``."""


def load(spec: str, sizes: Mapping[str, float | str] | None = None) -> Workload:
    """A built-in workload by name, a GPT on text, or ``FILE.py`` or ``FILE.py:function`` of one's own.

    ``sizes`` are arguments for its function, such as a width; they may also follow the name, ``gpt-tiny@batch=6``.

    >>> load("rosenbrock").metric
    'f'
    """
    spec, own = with_settings(spec)
    sizes = {**own, **(sizes or {})}
    if spec.endswith(".json") or Path(spec, "config.json").is_file():
        from fallline.workloads import hugging_face

        return hugging_face.workload(spec, **_sized(hugging_face.workload, sizes, spec))  # type: ignore[arg-type]
    if _is_file(spec):
        return _from_file(spec, sizes)
    name = spec.replace("-", "_").lower()
    if name in GPT_SIZES:
        from fallline.workloads import gpt_text

        return gpt_text.workload(GPT_SIZES[name], **_sized(gpt_text.workload, sizes, spec))  # type: ignore[arg-type]
    if name not in BUILT_IN:
        close = difflib.get_close_matches(name, [*BUILT_IN, *GPT_SIZES], n=3, cutoff=0.5)
        known = ", ".join([*BUILT_IN, *GPT_SIZES])
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {known}, and FILE.py"
        raise WorkloadError(f"there is no workload {spec!r}; {hint}")
    module, _, function = BUILT_IN[name].partition(":")
    make = getattr(importlib.import_module(f"fallline.workloads.{module}"), function)
    try:
        made: Workload = make(**_sized(make, sizes, name))
    except BadFile as error:
        remedy = "`fallline data` fetches what is damaged, FALLLINE_REAL_DATA=0 does without it"
        raise WorkloadError(f"{name}: {error}; {remedy}") from None
    return with_target(made)


def with_settings(spec: str) -> tuple[str, dict[str, float | str]]:
    """A workload and the arguments of its function that follow its name.

    >>> with_settings("gpt-tiny@batch=6,padding=longest"), with_settings("a@b.py:small")
    (('gpt-tiny', {'batch': 6.0, 'padding': 'longest'}), ('a@b.py:small', {}))
    """
    name, separator, text = spec.rpartition("@")
    pairs = [pair.partition("=") for pair in text.split(",")] if separator else []
    if not pairs or not all(key.strip().isidentifier() and equals for key, equals, _ in pairs):
        return spec, {}
    return name, {key.strip(): _value(value.strip()) for key, _, value in pairs}


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def load_changed(spec: str, changes: Mapping[str, Any], loaded: dict[str, Workload] | None = None) -> Workload:
    """A workload with other fields, as a race enters it; ``loaded`` keeps those that were made, with their data.

    The change ``rung`` is no field: it names the axis of a ladder and the size on it.
    """
    rung = changes.get("rung")
    sizes = {rung["axis"]: rung["size"]} if rung and rung["axis"] != STEPS_AXIS else {}
    key = json.dumps([spec, sizes])
    made = loaded.get(key) if loaded is not None else None
    if made is None:
        made = load(spec, sizes)
        if loaded is not None:
            loaded[key] = made
    return made.replace(**{field: value for field, value in changes.items() if field != "rung"})


def _sized(make: Callable[..., object], sizes: Mapping[str, float | str], where: str) -> dict[str, float | str]:
    """The sizes as the function takes them: whole numbers where its default is one, text where it is text."""
    given: dict[str, float | str] = {}
    for axis, size in sizes.items():
        parameter = inspect.signature(make).parameters.get(axis)
        default = None if parameter is None else parameter.default
        if isinstance(default, str) and isinstance(size, str):
            given[axis] = size
            continue
        if isinstance(default, bool) or not isinstance(default, int | float):
            raise WorkloadError(
                f"{where}: has no size called {axis!r}; it needs an argument with a number as its default, as in "
                f"`def workload({axis}: float = 1.0)`"
            )
        if isinstance(size, str):
            raise WorkloadError(f"{where}: {axis} is a number, {default:g} by default, got {size!r}")
        if isinstance(default, int) and size != int(size):
            raise WorkloadError(f"{where}: {axis} is a whole number, {default} by default, got {size:g}")
        given[axis] = int(size) if isinstance(default, int) else size
    return given


def _is_file(spec: str) -> bool:
    return spec.endswith(".py") or ".py:" in spec or "/" in spec


def file_of(spec: str) -> Path | None:
    """The file of a user's workload, whether it exists or not; None for a built-in workload.

    >>> file_of("folder/mine.py:small"), file_of("chars")
    (PosixPath('folder/mine.py'), None)
    """
    spec, _ = with_settings(spec)
    return Path(_parts(spec)[0]).expanduser() if _is_file(spec) else None


def comes_with_fallline(spec: str) -> bool:
    """Whether a workload runs no code and reads no file that its name brings along.

    >>> comes_with_fallline("gpt-tiny@batch=6"), comes_with_fallline("mine.py"), comes_with_fallline("gpt2@data=my.txt")
    (True, False, False)
    """
    name, settings = with_settings(spec)
    known = name.replace("-", "_").lower()
    return (known in BUILT_IN or known in GPT_SIZES) and "data" not in settings


def _parts(spec: str) -> tuple[str, str]:
    """File and function."""
    if spec.endswith(".py"):
        return spec, "workload"
    path, separator, function = spec.rpartition(":")
    if not separator:
        raise WorkloadError(f"{spec}: a workload file ends in .py")
    if not function.isidentifier():
        raise WorkloadError(f"{spec}: after the colon comes the name of a function, got {function!r}")
    return path, function


def _from_file(spec: str, sizes: Mapping[str, float | str]) -> Workload:
    path_text, function = _parts(spec)
    path = Path(path_text).expanduser()
    if not path.is_file():
        raise WorkloadError(f"{path_text}: there is no such file")
    # Whatever the user's code prints: stdout is for results alone.
    with contextlib.redirect_stdout(sys.stderr), _modules_beside(path):
        return _made(path, path_text, function, sizes)


def _made(path: Path, path_text: str, function: str, sizes: Mapping[str, float | str]) -> Workload:
    module = _imported(path)
    make = getattr(module, function, None)
    if not callable(make):
        defined = [name for name, value in vars(module).items() if callable(value) and name.startswith("workload")]
        hint = f"it has {', '.join(defined)}" if defined else f"define `def {function}() -> fallline.Workload`"
        raise WorkloadError(f"{path_text}: there is no function {function}(); {hint}")
    _check_that_it_needs_nothing(make, function, path_text)
    given = _sized(make, sizes, path_text)
    try:
        made = make(**given)
    except (Exception, SystemExit) as error:
        raise raised(f"{path_text}: {function}()", error) from error
    if not isinstance(made, Workload):
        raise WorkloadError(f"{path_text}: {function}() must return a fallline.Workload, got {type(made).__name__}")
    return made


def _check_that_it_needs_nothing(make: Callable[..., object], function: str, path: str) -> None:
    try:
        signature = inspect.signature(make)
    except ValueError:  # of something that is not written in Python
        return
    try:
        signature.bind()
    except TypeError:
        raise WorkloadError(
            f"{path}: {function}{signature} is called without arguments; give them defaults, or name another function "
            f"with {path}:NAME"
        ) from None


def imported(path: Path) -> object:
    """Any file of a user's as a module, such as one with an optimizer class; what it prints stays out of stdout."""
    with contextlib.redirect_stdout(sys.stderr), _modules_beside(path):
        return _imported(path)


def _imported(path: Path) -> object:
    """The file as a module, under a name of its own."""
    name = f"fallline_workload_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise raised(f"{path}", error) from error
    return module


@contextlib.contextmanager
def _modules_beside(path: Path) -> Iterator[None]:
    """While a file and its function run, modules are looked for in its folder first, as when it is run as a script.

    Modules once imported stay.  Afterwards the folder comes last: what the functions of the file import later is still
    found there, but what fallline, torch or Ray import later in the same process is not a file of the user's that
    happens to have its name.
    """
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        # The user's code may have changed the list, even this entry.
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)
