"""The signature of an optimizer class carries types, and its dotted path finds it, as command lines expect."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pickle
import pydoc
import typing
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

import fallline
from fallline.optimizers import FILES
from fallline.rules import positive, rule, static

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("type_stubs", ROOT / "docs" / "type_stubs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_stubs_are_those_of_the_rules(generator: ModuleType) -> None:
    assert generator.STUBS.read_text() == generator.text(), "run `make stubs`"


def test_stubs_declare_every_public_name(generator: ModuleType) -> None:
    declared = set()
    for node in ast.parse(generator.STUBS.read_text()).body:
        if isinstance(node, ast.ClassDef):
            declared.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            declared |= {alias.asname for alias in node.names if alias.asname}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            declared.add(node.target.id)
    assert set(dir(fallline)) <= declared


def accepts(annotation: Any, value: Any) -> bool:
    """Whether a value is of an annotated type, of those that signatures here have."""
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is Literal:
        return value in parts
    if typing.get_origin(annotation) is tuple:
        return len(value) == len(parts) and all(map(accepts, parts, value))
    if parts:
        return any(accepts(part, value) for part in parts)
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, annotation)


@pytest.mark.parametrize("class_name", sorted(FILES))
def test_every_argument_has_a_type_and_a_default_of_it(class_name: str) -> None:
    made = getattr(fallline, class_name)
    for parameter in list(inspect.signature(made).parameters.values())[1:]:
        assert accepts(parameter.annotation, parameter.default), parameter
    hints = typing.get_type_hints(made.__init__)
    assert list(hints) == [*inspect.signature(made).parameters, "return"]


def test_types_are_those_that_the_equations_take() -> None:
    adafactor = inspect.signature(fallline.Adafactor).parameters
    assert adafactor["lr"].annotation == float | Tensor | None
    assert adafactor["eps"].annotation == tuple[float | None, float]
    assert adafactor["variant"].annotation == Literal["torch", "hf"]
    assert adafactor["relative_step"].annotation is bool
    assert adafactor["rounding_seed"].annotation is int
    assert inspect.signature(fallline.Adan).parameters["betas"].annotation == tuple[float, float, float]


def test_a_rule_of_ones_own_has_types_too() -> None:
    @rule
    def scaled(p, g, *, lr, scale: positive, form: static("plain", "signed")):  # type: ignore[no-untyped-def,valid-type]
        return p - lr * scale * g

    made = inspect.signature(fallline.optimizer(scaled, lr=0.1, scale=2.0, form="plain")).parameters
    assert made["scale"].annotation is float
    assert made["form"].annotation == Literal["plain", "signed"]


@pytest.mark.parametrize("class_name", ["AdamW", "Lion", "ScheduleFreeAdamW", "Adam8bit"])
def test_dotted_path_finds_the_class(class_name: str) -> None:
    """As Hydra's ``_target_``, Lightning's command line and ``pydoc`` look for it."""
    made = getattr(importlib.import_module("fallline"), class_name)
    assert pydoc.locate(f"fallline.{class_name}") is made
    assert f"{made.__module__}.{made.__qualname__}" == f"fallline.{class_name}"
    assert pickle.loads(pickle.dumps(made)) is made
    assert issubclass(made, torch.optim.Optimizer)


def test_scripts_can_pass_literals_by_name() -> None:
    """``fallline.Lion lr=1e-3 betas=(0.8,0.9)``, each value read as a literal of Python."""
    given = dict(pair.split("=") for pair in ("lr=1e-3", "betas=(0.8,0.9)", "state_dtype='bfloat16'", "fused=None"))
    made: Any = pydoc.locate("fallline.Lion")
    settings = {name: ast.literal_eval(value) for name, value in given.items()}
    inspect.signature(made).bind([], **settings)
    opt = made([torch.nn.Parameter(torch.ones(3))], **settings)
    assert {name: opt.param_groups[0][name] for name in settings} == settings
