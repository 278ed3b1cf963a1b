"""The memory model equals the tensors of a real optimizer, to the byte, and allocates nothing to know them."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import fallline
from fallline.formats import MIN_ELEMENTS
from fallline.memory import Memory, memory_of
from fallline.memory.live import LiveBytes, held_by_states
from fallline.memory.temporaries import allocated_by_step, on_meta
from fallline.optim.hyperparameters import STEP
from fallline.optim.options import STATE_DTYPES
from fallline.optim.states import MASTER
from tests.native import needs_native

# On both sides of the floor of low-bit formats, odd numbers of elements, unfinished blocks, every number of axes.
SHAPES: list[tuple[int, ...]] = [
    (),
    (1,),
    (0, 3),
    (MIN_ELEMENTS - 1,),
    (MIN_ELEMENTS,),
    (MIN_ELEMENTS + 129,),
    (67, 71),
    (3, 5, 7),
    (5, 3, 17, 19),
]
EXTRA: dict[str, list[dict[str, Any]]] = {
    "sgd": [{"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}],
    "adam": [{"amsgrad": True}],
    "adafactor": [{"variant": "hf"}, {"variant": "hf", "beta1": 0.9}],
    "adan": [{"no_prox": True}],
    "rmsprop": [{"centered": True, "momentum": 0.9}],
    "ademamix": [{"betas": (0.0, 0.999, 0.9999)}],
    "amos": [{"momentum": 0.9}, {"reduce": "rows"}, {"reduce": "none"}],
    "amos_algoperf": [{"style": "reduced"}, {"style": "reduced", "reduce": "rows"}],
    "fromage": [{"p_bound": 1.0}],
    "mars": [{"amsgrad": True}, {"optimize_1d": True}, {"mars_type": "mars-lion"}],
    "nag_gs": [{"variant": "jax"}],
    "schedule_free_adamw": [{"inner_momentum": 0.9}],
}
CASES = [(name, options) for name in fallline.list_optimizers() for options in ({}, *EXTRA.get(name, []))]


def parameters(dtype: torch.dtype = torch.float32, device: str = "cpu") -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.ones(shape, dtype=dtype, device=device)) for shape in SHAPES]


def made(name: str, params: list[nn.Parameter], **options: Any) -> Any:
    try:
        return fallline.create(name, params, **options)
    except ValueError as error:
        if "has no state that can be stored in so few bits" in str(error):
            pytest.skip(str(error))
        raise


def stepped(optimizer: Any) -> Any:
    for group in optimizer.param_groups:
        for param in group["params"]:
            param.grad = torch.full_like(param, 0.01) if param.requires_grad else None
    optimizer.step()
    return optimizer


def by_state(optimizer: Any) -> dict[str, int]:
    """Bytes of the real tensors by the name of their state, counters apart."""
    found: dict[str, int] = {}
    scalars = {n for n, state in optimizer.description.rule.states.items() if state.is_scalar}
    for entry in optimizer.state.values():
        for key, value in entry.items():
            name = key.partition(":")[0]
            if isinstance(value, Tensor) and name not in (STEP, *scalars):
                found[name] = found.get(name, 0) + value.untyped_storage().nbytes()
    return found


def check(memory: Memory, optimizer: Any) -> None:
    assert memory.optimizer == held_by_states(optimizer)
    modelled = {name: sum(sizes.values()) for name, sizes in memory.states.items()}
    if memory.masters:
        modelled[MASTER] = memory.masters
    assert modelled == by_state(optimizer)


@pytest.mark.parametrize("state_dtype", STATE_DTYPES)
@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{n} {o}" if o else n for n, o in CASES])
def test_states_of_every_optimizer_to_the_byte(name: str, options: dict[str, Any], state_dtype: str) -> None:
    real = stepped(made(name, parameters(), state_dtype=state_dtype, foreach=True, fused=False, **options))
    on_meta = made(name, parameters(device="meta"), state_dtype=state_dtype, **options)
    memory = memory_of(on_meta)
    check(memory, real)
    assert memory == memory_of(real)
    assert memory.parameters == memory.gradients == sum(p.numel() * 4 for p in parameters())


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in ("adamw", "adafactor", "adan", "lion8bit", "schedule_free_adamw", "nadam")
        for dtype in (torch.float64, torch.bfloat16, torch.float16, torch.complex64)
        if not (name == "adafactor" and dtype.is_complex)
    ],
)
def test_parameters_of_other_dtypes(name: str, dtype: torch.dtype) -> None:
    for options in ({}, {"master_weights": True}):
        real = stepped(made(name, parameters(dtype), **options))
        check(memory_of(made(name, parameters(dtype, "meta"), **options)), real)


def test_frozen_parameters_have_neither_gradients_nor_states() -> None:
    def model(device: str) -> nn.Module:
        with torch.device(device):
            model = nn.Sequential(nn.Linear(100, 100), nn.Linear(100, 10))
        model[0].requires_grad_(False)
        return model

    memory = memory_of(fallline.create("nadam", model("meta"), weight_decay=0.1))
    check(memory, stepped(fallline.create("nadam", model("cpu"), weight_decay=0.1)))
    assert memory.parameters == 4 * (100 * 100 + 100 + 100 * 10 + 10)
    assert memory.gradients == 4 * (100 * 10 + 10)


def test_groups_have_formats_of_their_own() -> None:
    def groups(device: str) -> list[dict[str, Any]]:
        first, second = (nn.Parameter(torch.ones(70, 80, device=device)) for _ in range(2))
        return [{"params": [first], "state_dtype": "int4"}, {"params": [second], "amsgrad": True}]

    memory = memory_of(fallline.AdamW(groups("meta")))
    check(memory, stepped(fallline.AdamW(groups("cpu"))))
    assert memory.states["exp_avg"] == {"int4": 2800 + 4 * 44, "float32": 4 * 5600}
    assert memory.states["max_exp_avg_sq"] == {"float32": 4 * 5600}


def test_nothing_is_allocated_for_fake_tensors() -> None:
    with FakeTensorMode():
        model = nn.Linear(100_000, 100_000)
    optimizer = fallline.AdamW(map(on_meta, model.parameters()), state_dtype="int8")
    with LiveBytes() as live:
        memory = memory_of(optimizer)
    assert live.peak == 0
    assert memory.states["exp_avg"]["int8"] == sum(n + 4 * -(-n // 256) for n in (10**10, 10**5))


@pytest.mark.parametrize("lowering", ["eager", "foreach"])
@pytest.mark.parametrize("name", ["adamw", "adan", "lamb", "prodigy", "adafactor"])
def test_temporaries_are_those_of_a_step(name: str, lowering: str) -> None:
    flags = {"foreach": lowering == "foreach", "fused": False}
    optimizer = stepped(fallline.create(name, parameters(), **flags))
    counted = memory_of(fallline.create(name, parameters(device="meta")), lowering).temporaries
    # A norm is one operation on the CPU; without memory it is taken apart, into a temporary more.
    assert 0.98 <= counted / allocated_by_step(optimizer) < 1.5


def test_groups_have_the_temporaries_of_their_own_rule() -> None:
    """A bucket at a time: the larger one is that of the peak."""
    small, large = (nn.Parameter(torch.ones(size, 80, device="meta")) for size in (10, 70))
    mixed = fallline.Lion([{"params": [small]}, {"params": [large], "rule": "adamw"}])
    assert memory_of(mixed, "foreach").temporaries == memory_of(fallline.AdamW([large]), "foreach").temporaries
    assert memory_of(fallline.Lion([large]), "foreach") != memory_of(fallline.AdamW([large]), "foreach")


def test_lowering_that_cannot_be_counted_is_named() -> None:
    with pytest.raises(
        ValueError, match="temporaries of the lowering 'compiled' cannot be counted; those of eager, foreach"
    ):
        memory_of(fallline.AdamW(parameters()), "compiled")


REDUCING = ["adafactor", "adamp", "amos", "amos_algoperf", "fromage", "lamb", "prodigy", "schedule_free_prodigy"]
TILED: list[tuple[int, ...]] = [(40, 30, 3, 3), (9, 1030), (20_000, 4), (70_000,), (5,), ()]
"""Many small matrices, several tiles beside each other, several below each other, several of a flat tensor."""


@pytest.mark.parametrize("state_dtype", ["float32", "int8"])
@pytest.mark.parametrize("name", ["adamw", *REDUCING])
def test_kernels_keep_the_results_of_reductions_that_were_counted(name: str, state_dtype: str) -> None:
    needs_native()
    params = [nn.Parameter(torch.ones(shape)) for shape in TILED]
    optimizer = stepped(made(name, params, state_dtype=state_dtype))
    executors = [bucket.executor for bucket in optimizer._plan.buckets]
    kept = sum(ctypes.sizeof(executor.workspace) for executor in executors)
    counted = memory_of(optimizer).workspace
    assert counted <= kept <= counted + 64 * (len(TILED) + len(executors)), "cache lines between parameters"
    assert (counted > 0) == (name in REDUCING)


def test_adafactor_keeps_more_for_small_matrices_than_for_a_large_one() -> None:
    """Every row and column takes a few numbers; a matrix of 3 × 3 has six of them for nine weights."""
    small, large = (nn.Parameter(torch.empty(shape, device="meta")) for shape in ((512, 512, 3, 3), (1536, 1536)))
    assert memory_of(fallline.Adafactor([small])).workspace > 4 * small.numel()
    assert memory_of(fallline.Adafactor([large])).workspace < 0.2 * large.numel()


def test_sums() -> None:
    memory = Memory(100, 90, {"a": {"int8": 10, "float32": 5}, "b": {"float32": 7}}, 20, 3, 50)
    assert (memory.optimizer, memory.held, memory.peak) == (45, 235, 285)
    with_scratch = dataclasses.replace(memory, scratch=1000)
    assert (with_scratch.optimizer, with_scratch.held, with_scratch.peak) == (45, 1235, 1285)
