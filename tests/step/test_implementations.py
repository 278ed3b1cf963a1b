"""All implementations of an optimizer take the same inputs and agree; one that cannot be had says why."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from fallline.lower.native.library import NativeUnavailable
from fallline.measure import machine
from fallline.step.arms import build_arms, check_room, tensors
from fallline.step.implementations import Missing, build, hyperparameters, named
from fallline.step.launches import count_launches
from fallline.step.plan import arms_of, grid
from fallline.step.results import ArmRecord

pytestmark = pytest.mark.usefixtures("one_thread")
SHAPES = [(7,), (33, 5), (1000,)]


def trained(name: str, optimizer: str, options: dict[str, Any], steps: int = 5) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(3)
    params = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]
    made = build(name, optimizer, params, options)
    for _ in range(steps):
        for param in params:
            param.grad = torch.randn(param.shape, generator=generator)
        made.step()
    states = {
        (index, key): value
        for index, param in enumerate(params)
        for key, value in made.state[param].items()
        if isinstance(value, torch.Tensor) and value.shape == param.shape
    }
    return {"params": params, "states": states}


def assert_agree(names: Sequence[str], optimizer: str, options: dict[str, Any], keys: set[str]) -> None:
    first = trained(names[0], optimizer, options)
    assert {key for _, key in first["states"]} == keys
    for name in names[1:]:
        other = trained(name, optimizer, options)
        for mine, theirs in zip(first["params"], other["params"], strict=True):
            torch.testing.assert_close(theirs, mine, rtol=1e-5, atol=1e-6)
        for place, value in first["states"].items():
            torch.testing.assert_close(other["states"][place], value, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("amsgrad", [True, False])
def test_adam_in_three_implementations_and_torchs(amsgrad: bool) -> None:
    keys = {"exp_avg", "exp_avg_sq"} | ({"max_exp_avg_sq"} if amsgrad else set())
    options = {"amsgrad": amsgrad, "lr": 1e-3}
    assert_agree(["eager", "compiled", "fused", "torch-loop", "torch-fused"], "adam", options, keys)


def test_adan_in_its_four_variants() -> None:
    keys = {"exp_avg", "exp_avg_sq", "exp_avg_diff", "neg_pre_grad"}
    assert_agree(["eager", "foreach", "fused-loop", "fused"], "adan", {"lr": 1e-3}, keys)


def test_kernel_starts_per_variant() -> None:
    params = [torch.nn.Parameter(torch.randn(50)) for _ in range(6)]
    starts = {}
    for name in ("eager", "foreach", "fused-loop", "fused"):
        made = build(name, "adan", params, {})
        for param in params:
            param.grad = torch.randn(50)
        made.step()
        starts[name] = count_launches(made)
    assert starts["fused"] == 1
    assert starts["fused-loop"] == len(params)
    assert starts["eager"] > 10 * len(params) and starts["foreach"] > 10


def test_arms_share_parameters_gradients_and_states() -> None:
    (cell,) = grid([3], [100], arms_of("adam", ["eager", "fused", "torch-fused"], {}, "float32"))
    params = tensors(cell, 0)
    made = build_arms(cell.arms, params, {arm.label: ArmRecord(arm.label) for arm in cell.arms})
    for param in params:
        for key in ("exp_avg", "exp_avg_sq"):
            assert len({optimizer.state[param][key].data_ptr() for optimizer in made.values()}) == 1
        assert param.grad is not None
    before = params[0].detach().clone()
    made["fused"].step()  # the shared states must still be those that the kernels use
    assert not torch.equal(before, params[0])


def test_same_hyperparameters_for_all() -> None:
    mine = build("fused", "adamw", [torch.nn.Parameter(torch.ones(3))], {}).param_groups[0]
    theirs = build("torch-fused", "adamw", [torch.nn.Parameter(torch.ones(3))], {}).param_groups[0]
    assert all(mine[name] == theirs[name] for name in ("lr", "betas", "eps", "weight_decay", "amsgrad"))
    with pytest.raises(ValueError, match="adamw has no option 'momentum'"):
        hyperparameters("adamw", {"momentum": 0.9})


@pytest.mark.parametrize(
    ("name", "optimizer", "options", "said"),
    [
        ("torch-fused", "adan", {}, "torch.optim has no adan"),
        ("torchao", "lion", {}, "torchao has no lion|not installed"),
        ("torch-foreach", "sgd", {"nesterov": True, "momentum": 0.9}, None),
        ("deepspeed", "adam", {"amsgrad": True}, "no amsgrad|not installed"),
    ],
)
def test_what_cannot_be_had_says_why(name: str, optimizer: str, options: dict[str, Any], said: str | None) -> None:
    params = [torch.nn.Parameter(torch.ones(3))]
    if said is None:
        assert build(name, optimizer, params, options) is not None
        return
    with pytest.raises(Missing, match=said):
        build(name, optimizer, params, options)


@pytest.mark.parametrize("name", ["fused", "fused-loop"])
def test_fused_without_native_kernels_is_missing_and_not_something_else(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FALLLINE_NATIVE", "0")
    with pytest.raises(Missing, match="no native kernels: switched off by FALLLINE_NATIVE=0"):
        build(name, "adamw", [torch.nn.Parameter(torch.ones(3))], {})


def built(names: list[str], dtype: str = "float32", state_dtype: str = "float32") -> tuple[Any, Any, Any]:
    """A cell of two tensors, large enough for codes; its optimizers, and the records of its arms."""
    (row,) = grid([2], [8192], arms_of("adam", names, {}, state_dtype))
    cell = dataclasses.replace(row, dtype=dtype)
    params, records = tensors(cell, 0), {arm.label: ArmRecord(arm.label) for arm in cell.arms}
    return cell, build_arms(cell.arms, params, records, dtype), records


def test_fused_that_has_no_kernel_for_its_options_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(program: object) -> None:
        raise NativeUnavailable("there is no compiler for this one")

    monkeypatch.setattr("fallline.lower.native.lowering.kernel", none)
    _, made, records = built(["foreach", "fused"])
    assert set(made) == {"foreach"} and "there is no compiler for this one" in records["fused"].missing


def test_compiler_that_fails_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def step(self) -> None:
            raise RuntimeError("backend='inductor' raised:\nInvalidCxxCompiler: No working C++ compiler found\n\nMore")

    def broken(name: str, *rest: Any) -> Any:
        return Broken() if name == "compiled" else build(name, *rest)

    monkeypatch.setattr("fallline.step.arms.build", broken)
    _, made, records = built(["eager", "compiled"])
    assert set(made) == {"eager"} and records["compiled"].missing.endswith("No working C++ compiler found)")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_formats_of_states_are_those_that_the_implementations_use(dtype: str) -> None:
    cell, made, records = built(["fused", "torch-loop", "torch-foreach", "torch-fused"], dtype)
    for name, optimizer in made.items():
        (state, *_) = optimizer.state.values()
        assert str(state["exp_avg"].dtype) == f"torch.{records[name].facts['states']}"
    distinct = {o.state[p]["exp_avg"].data_ptr() for o in made.values() for p in list(o.state)[:1]}
    held = {"float32": 8 + 8, "bfloat16": 4 + 8 + 4}[dtype]
    assert (len(distinct), cell.held()) == (1 if dtype == "float32" else 2, held * cell.elements)


@pytest.mark.parametrize(("state_dtype", "sets"), [("float32", 1), ("bfloat16", 1), ("int8", 1), ("int4", 2)])
def test_memory_counts_states_as_often_as_they_are_there(state_dtype: str, sets: int) -> None:
    """Packed codes do not have the shape of a parameter, and are not shared."""
    cell, made, _ = built(["eager", "fused"], state_dtype=state_dtype)
    first = [next(v for k, v in next(iter(o.state.values())).items() if k.startswith("exp_avg")) for o in made.values()]
    assert len({value.data_ptr() for value in first}) == sets
    alone = cell.arms[0].bytes("float32").states
    assert cell.held() == pytest.approx(cell.elements * (8 + sets * alone))


def test_states_of_other_packages_are_theirs_alone() -> None:
    (cell,) = grid([1], [1000], arms_of("adam", ["fused", "torchao", "bitsandbytes"], {}, "int8"))
    assert cell.held() == pytest.approx(1000 * (8 + 3 * cell.arms[0].bytes("float32").states))


def test_arm_needs_memory_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that the process holds already is not there for the cell."""
    (cell,) = grid([1], [1000], arms_of("adam", ["fused"], {}, "float32"))
    needed = cell.needed_by(cell.arms[0])
    monkeypatch.setattr(machine, "available_memory", lambda: needed)
    check_room(cell, cell.arms[0])
    monkeypatch.setattr(machine, "available_memory", lambda: needed - 1)
    with pytest.raises(Missing, match="does not fit"):
        check_room(cell, cell.arms[0])


def test_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes.optim", None)
    with pytest.raises(Missing, match="not installed"):
        build("bitsandbytes", "adamw", [torch.nn.Parameter(torch.ones(3))], {})


def test_unknown_implementation_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no implementation 'magic'; there are eager, foreach"):
        named("magic")
    assert named("torch").name == "torch-fused"
