"""The memory that a step of a matrix optimizer takes is at most what the model says."""

import pytest
import torch

import fallline
from fallline.lower.chain import scratch_elements
from fallline.memory.live import LiveBytes
from fallline.memory.temporaries import _chains, temporaries

SHAPES = [(96, 64), (64, 64), (96, 64), (64, 200), (30,)]
CASES = {
    "muon": ("Muon", {}),
    "zolotarev": ("Muon", {"variant": "zolotarev"}),
    "int8": ("Muon8bit", {}),
    "shampoo": ("Shampoo", {"precondition_frequency": 1, "grafting": "adam"}),
    "shampoo in blocks": ("Shampoo", {"precondition_frequency": 1, "max_preconditioner_dim": 40}),
    "staggered": ("Shampoo", {"precondition_frequency": 2, "stagger": True}),
    "soap": ("SOAP", {"precondition_frequency": 1}),
    "caspr": ("CASPR", {"precondition_frequency": 1, "start_preconditioning_step": 1, "root": "eigh"}),
}


@pytest.mark.parametrize("lowering", ["native", "eager"])
@pytest.mark.parametrize("case", CASES)
def test_no_step_takes_more_memory_than_the_model_says(case, lowering):
    name, options = CASES[case]
    shapes = SHAPES if name in ("Shampoo", "SOAP", "CASPR") else SHAPES[:-1]
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    flags = {"foreach": False, "fused": False} if lowering == "eager" else {}
    optimizer = getattr(fallline, name)(params, lr=1e-3, **options, **flags)
    most = 0
    for _ in range(4):
        for param in params:
            param.grad = torch.randn_like(param)
        states = [v for state in optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor)]
        with LiveBytes([*params, *(p.grad for p in params), *states]) as live:
            before = live.now
            optimizer.step()
        most = live.peak - before
    scratch = sum(4 * scratch_elements(chain, shapes) for chain, shapes in _chains(optimizer).items())
    assert 0 < most + scratch <= 1.05 * temporaries(optimizer, lowering)


def test_an_elementwise_rule_takes_none():
    assert temporaries(fallline.AdamW([torch.nn.Parameter(torch.ones(5, 5))]), "native") == 0
