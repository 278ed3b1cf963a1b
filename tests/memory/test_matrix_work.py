"""The memory that a step of a matrix optimizer takes is what the model says: never more, and hardly less."""

import pytest
import torch

import fallline
from fallline.matrix import products
from fallline.memory.live import LiveBytes
from fallline.memory.model import memory_of
from fallline.memory.temporaries import WorkingMemory, working_memory

SMALL = [(96, 64), (64, 64), (96, 64), (64, 200), (40, 3, 5, 5)]
LARGE = [(400, 500), (130, 390), (400, 400)]
STACK = [(3, 60, 200), (3, 60, 200)]
VECTOR = [(30,)]
EARLY = {"precondition_frequency": 3, "start_preconditioning_step": 3}

CASES = {
    "muon": ("Muon", {}, SMALL),
    "large": ("Muon", {}, LARGE),
    "large stacked": ("Muon", {"stacked": True}, [(3, 400, 120)]),
    "jordan": ("Muon", {"variant": "jordan", "nesterov": False}, SMALL),
    "moonlight": ("Muon", {"variant": "moonlight"}, LARGE),
    "polar express": ("Muon", {"variant": "polar_express"}, SMALL),
    "zolotarev": ("Muon", {"variant": "zolotarev"}, SMALL),
    "large zolotarev": ("Muon", {"variant": "zolotarev"}, LARGE),
    "bfloat16": ("Muon", {"ns_dtype": "bfloat16"}, SMALL),
    "experts": ("Muon", {"stacked": True}, STACK),
    "heads": ("Muon", {"split_sizes": (150, 150, 150), "num_heads": 3}, [(450, 200)]),
    "int8": ("Muon8bit", {}, LARGE),
    "normuon": ("NorMuon", {}, SMALL),
    "shampoo": ("Shampoo", {"grafting": "adam"}, SMALL + VECTOR),
    "large shampoo": ("Shampoo", {"merge_dims": "none"}, LARGE),
    "shampoo in blocks": ("Shampoo", {"max_preconditioner_dim": 40}, SMALL + VECTOR),
    "rare refreshes": ("Shampoo", {"precondition_frequency": 4}, SMALL),
    "staggered shampoo": ("Shampoo", {"precondition_frequency": 3, "stagger": True}, SMALL + VECTOR),
    "soap": ("SOAP", {"precondition_frequency": 2}, SMALL + VECTOR),
    "large soap": ("SOAP", {"precondition_frequency": 2}, LARGE),
    "staggered soap": ("SOAP", {"precondition_frequency": 3, "stagger": True}, SMALL),
    "caspr": ("CASPR", EARLY, SMALL),
    "caspr by eigenvalues": ("CASPR", {**EARLY, "root": "eigh"}, LARGE),
    "staggered caspr": ("CASPR", {**EARLY, "block_size": 40, "stagger": True}, SMALL),
}
FLAGS = {"native": {}, "eager": {"foreach": False, "fused": False}, "foreach": {"foreach": True, "fused": False}}


def made(name, options, shapes, lowering="native", dtype=torch.float32):
    params = [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in shapes]
    for param in params:
        param.grad = torch.zeros_like(param)
    return params, getattr(fallline, name)(params, lr=1e-3, **options, **FLAGS[lowering])


def assert_model_holds(params, optimizer, memory, steps=8):
    """The first step counts too."""
    with LiveBytes([*params, *(param.grad for param in params)]) as live:
        for _ in range(steps):
            for param in params:
                param.grad.normal_()
            optimizer.step()
    assert live.now == memory.held
    taken = live.peak - memory.held
    assert 0 < taken <= memory.temporaries <= 1.03 * taken


@pytest.fixture(params=[False, True], ids=["blas", "onednn"])
def onednn(request, monkeypatch):
    if request.param and not products._works():
        pytest.skip("this torch has no oneDNN product")
    monkeypatch.setattr(products, "uses_onednn", lambda: request.param)


@pytest.mark.parametrize("case", CASES)
def test_matrix_functions_take_the_memory_that_the_model_says(case, onednn):
    params, optimizer = made(*CASES[case])
    assert_model_holds(params, optimizer, memory_of(optimizer))


@pytest.mark.parametrize("lowering", ["eager", "foreach"])
@pytest.mark.parametrize("case", ["muon", "int8", "normuon", "rare refreshes", "soap", "staggered caspr"])
def test_lowerings_that_allocate_beside_them_take_the_memory_that_the_model_says(case, lowering):
    params, optimizer = made(*CASES[case], lowering)
    assert_model_holds(params, optimizer, memory_of(optimizer, lowering))


def test_the_memory_of_float64_is_counted_as_such():
    params, optimizer = made("Muon", {}, SMALL, "eager", torch.float64)
    assert_model_holds(params, optimizer, memory_of(optimizer, "eager"))


def test_refreshes_that_are_far_apart_count():
    """The model does not count some step, but the one that takes most."""
    often, rarely = (
        working_memory(made("Shampoo", {"precondition_frequency": every}, SMALL)[1], "native") for every in (1, 1000)
    )
    assert often == rarely


def test_matrices_that_take_turns_take_less_memory_at_once():
    shapes = [(64, 64)] * 6
    at_once, staggered = (
        working_memory(made("Shampoo", {"precondition_frequency": 10, "stagger": stagger}, shapes)[1], "native")
        for stagger in (False, True)
    )
    assert staggered.temporaries < at_once.temporaries


def test_an_elementwise_rule_takes_none():
    optimizer = fallline.AdamW([torch.nn.Parameter(torch.ones(5, 5))])
    assert working_memory(optimizer, "native") == WorkingMemory(0, 0)
