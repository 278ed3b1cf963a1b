"""Turns the options of ``fallline step`` into a plan, or refuses them."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fallline.cli.exit_codes import BadInput
from fallline.cli.step.options import Request

if TYPE_CHECKING:
    from fallline.step.plan import Arm, Conditions, Plan

SHAPE_OPTIONS = ("--model", "--optimizer", "--tensors", "--sizes", "--amsgrad", "--no-amsgrad", "--option")
FIXED = {
    "adam-grid": (*SHAPE_OPTIONS, "--up-to"),
    "adan-gpt2": (*SHAPE_OPTIONS, "--impl", "--state-dtype"),
}
"""Options that a preset decides itself."""
DTYPES = ("float32", "bfloat16", "float16")
MOST_THREADS = 4096
"""The probe takes no more."""


def plan_of(request: Request, arguments: Sequence[str] = ()) -> Plan:
    """The plan, or :class:`BadInput` that names the option."""
    from fallline.measure import machine
    from fallline.optim.options import STATE_DTYPES
    from fallline.step.plan import Conditions
    from fallline.step.published.presets import ADAN_GPT2, GRID_IMPLEMENTATIONS, adam_grid, adan_gpt2

    if request.dtype not in DTYPES:
        raise BadInput(f"--dtype {request.dtype}: must be one of {', '.join(DTYPES)}")
    if request.state_dtype not in STATE_DTYPES:
        raise BadInput(f"--state-dtype {request.state_dtype}: must be one of {', '.join(STATE_DTYPES)}")
    threads = _numbers("--threads", request.threads) if request.threads else (machine.cores(),)
    if threads[-1] > MOST_THREADS:
        raise BadInput(f"--threads {threads[-1]}: must be at most {MOST_THREADS:,}")
    conditions = Conditions(request.dtype, threads, request.flush, request.steps, request.pin)
    if request.preset is None:
        if given("--up-to", arguments):
            raise BadInput("--up-to: belongs to --preset adan-gpt2; leave it out or name the preset")
        if request.model is not None and (given("--tensors", arguments) or given("--sizes", arguments)):
            raise BadInput("--tensors and --sizes: the shapes are those of --model; leave one of the two out")
        return _own(request, conditions)
    if request.preset not in FIXED:
        raise BadInput(f"--preset {request.preset}: must be one of {', '.join(FIXED)}")
    for name in FIXED[request.preset]:
        if given(name, arguments):
            raise BadInput(f"{name}: fixed by --preset {request.preset}; leave one of the two out")
    if request.preset == ADAN_GPT2:
        if not 0 < request.up_to < math.inf:
            raise BadInput(f"--up-to {request.up_to:g}: must be a number > 0")
        return adan_gpt2(conditions, round(request.up_to * 1e6))
    names = _implementations(request.impl) if given("--impl", arguments) else GRID_IMPLEMENTATIONS
    return adam_grid(conditions, names, request.state_dtype)


def given(option: str, arguments: Sequence[str]) -> bool:
    """Whether it stands on the command line: a default does not contradict a preset."""
    return any(argument == option or argument.startswith(option + "=") for argument in arguments)


def _own(request: Request, conditions: Conditions) -> Plan:
    from fallline.step.plan import Cell, Plan, expand, grid
    from fallline.step.shapes import MOST_TENSORS, BadModel, model_shapes

    arms = _arms(request)
    title = _title(request)
    if request.model is None:
        tensors, sizes = _numbers("--tensors", request.tensors), _numbers("--sizes", request.sizes)
        if tensors[-1] > MOST_TENSORS:
            raise BadInput(f"--tensors {tensors[-1]}: must be at most {MOST_TENSORS:,}")
        rows = grid(tensors, sizes, arms)
    else:
        try:
            rows = [Cell(request.model, model_shapes(request.model), arms, "")]
        except BadModel as error:
            raise BadInput(str(error)) from error
    notes = [*_degenerate(request), *_crowded(conditions)]
    return Plan("own", tuple(expand(rows, conditions, title)), tuple(notes))


def _arms(request: Request) -> tuple[Arm, ...]:
    from fallline.optim.registry import find
    from fallline.step.plan import arms_of

    try:
        name = find(request.optimizer).name
    except ValueError as error:
        raise BadInput(f"--optimizer: {error}") from error
    options = _options(request)
    _check_options(name, options, request.state_dtype)
    return arms_of(name, _implementations(request.impl), options, request.state_dtype)


def _check_options(optimizer: str, options: dict[str, Any], state_dtype: str) -> None:
    """Values that the optimizer itself would refuse, before anything is measured."""
    import torch

    from fallline.step.implementations import build, hyperparameters

    try:
        hyperparameters(optimizer, options)
        build("eager", optimizer, [torch.nn.Parameter(torch.zeros(1))], options, state_dtype)
    except (ValueError, TypeError) as error:
        raise BadInput(f"--option: {error}") from error


def _implementations(text: str) -> list[str]:
    from fallline.step.implementations import named

    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise BadInput("--impl: names no implementation; `fallline step --list` lists them")
    try:
        found = [named(name).name for name in names]
    except ValueError as error:
        raise BadInput(f"--impl: {error}") from error
    repeated = next((name for name in found if found.count(name) > 1), None)
    if repeated:
        raise BadInput(f"--impl: {repeated} is named twice")
    return found


def _options(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in request.option or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise BadInput(f"--option {text}: must be NAME=VALUE")
        try:
            found[name] = _hashable(ast.literal_eval(value))
        except (RecursionError, MemoryError):
            raise BadInput(f"--option {name}: the value is nested too deeply") from None
        except (ValueError, SyntaxError):
            found[name] = value
    if request.amsgrad:
        found["amsgrad"] = True
    return found


def _hashable(value: Any) -> Any:
    """Lists as the tuples they stand for: what an arm is made of is a key in several places."""
    if isinstance(value, (dict, set)):
        raise ValueError("no option takes one")
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise BadInput(f"{option} {text}: must be whole numbers with commas between them") from None
    if not found or min(found) < 1:
        raise BadInput(f"{option} {text}: must be whole numbers ≥ 1 with commas between them")
    if len(set(found)) < len(found):
        raise BadInput(f"{option} {text}: a number stands there twice, which would change nothing")
    return tuple(sorted(found))


def _title(request: Request) -> str:
    parts = [request.optimizer]
    parts += [f"{name}={value}" for name, value in sorted(_options(request).items())]
    if request.state_dtype != "float32":
        parts.append(f"{request.state_dtype} states")
    return ", ".join(parts)


def _crowded(conditions: Conditions) -> list[str]:
    from fallline.measure import machine

    most, cores = conditions.threads[-1], machine.cores()
    if most <= cores:
        return []
    return [f"{most} threads on {cores} processors wait for each other: their times say little about the work"]


def _degenerate(request: Request) -> list[str]:
    """Settings under which an optimizer is another one in disguise."""
    from fallline.optim.registry import find

    name, options = find(request.optimizer).name, _options(request)
    found = []
    if name == "qhm" and options.get("nu") in (1, 1.0):
        found.append("qhm with nu=1 is plain momentum with an averaged buffer: its step time says nothing about QHM")
    if name == "qhm" and options.get("nu") in (0, 0.0):
        found.append("qhm with nu=0 is plain SGD")
    if name == "sophiag":
        found.append("sophiag's steps are timed without update_hessian(): so used, it is momentum by sign")
    return found
