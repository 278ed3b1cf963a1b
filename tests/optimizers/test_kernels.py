"""How many kernels the library has: each is compiled once per instruction set, and the build has to stay short."""

import collections
import dataclasses

import pytest
import torch

import fallline
from fallline.lower.native.emit import emit
from fallline.optimizers import builtin_programs, description_of
from fallline.rules import rule, where
from fallline.rules.annotations import switch

# Kernels of its entry points too.
KERNELS = {
    "adadelta": 1,
    "nadam": 2,
    "nadamw": 1,
    "nadamp": 2,
    "generalized_adam": 6,
    "radam": 2,
    "adamax": 1,
    "adan": 3,
    "qhm": 2,
    "qhadam": 2,
    "sophiag": 2,
    "nag_gs": 2,
    "nag4": 1,
    "adopt": 2,
    "ademamix": 2,
    "mars": 5,
    "muon": 4,
    "normuon": 3,
    "shampoo": 14,
    "soap": 4,
}


def test_elementwise_rules_have_few_kernels() -> None:
    found: dict[str, set[str]] = collections.defaultdict(set)
    for program in builtin_programs():
        found[program.name.partition(".")[0]] |= {emit(part)[0] for part in program.parts}
    assert {name: len(found[name]) for name in KERNELS} == KERNELS


def test_forms_that_differ_on_the_host_only_are_one_kernel() -> None:
    adan = description_of("Adan").rule
    names = {
        no_prox: emit(adan.program(adan.trace_for(dict(no_prox=no_prox, max_grad_norm=0.0), 2)))[0]
        for no_prox in (False, True)
    }
    assert names[False] == names[True]


def test_programs_with_one_kernel_still_have_their_own_scalars() -> None:
    """The same kernel runs with other numbers: both decays at once."""
    params = [torch.full((5,), 2.0, requires_grad=True) for _ in range(2)]
    groups = [{"params": [params[0]]}, {"params": [params[1]], "no_prox": True}]
    optimizer = fallline.Adan(groups, lr=0.5, weight_decay=0.5)
    for p in params:
        p.grad = torch.zeros(5)
    optimizer.step()
    assert params[0].tolist() == pytest.approx([1.6] * 5)
    assert params[1].tolist() == pytest.approx([1.5] * 5)


def test_choice_that_is_a_number_needs_no_kernel_of_its_own() -> None:
    @rule
    def either(p, g, *, lr, signed: switch):
        return p - where(signed == 1, lr, -lr) * g

    assert len(list(either.specialisations())) == 1


def test_entry_point_may_set_the_counter_of_each_parameter() -> None:
    @rule
    def counted(p, g, m, *, lr, step):
        return p - lr * step * g, m + g

    @counted.entry(writes=["m", "step"])
    def restart():
        return 0.0, 10

    Counted = fallline.optimizer(counted, lr=1.0)
    p, q = (torch.zeros(3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    optimizer = Counted([p, q])
    for grad in (torch.ones(3, dtype=torch.float64), None):
        p.grad, q.grad = torch.ones(3, dtype=torch.float64), grad
        optimizer.step()
    assert (optimizer.state[p]["step"], optimizer.state[q]["step"]) == (2, 1)
    optimizer.restart()
    assert (optimizer.state[p]["step"], optimizer.state[q]["step"]) == (10, 10)
    assert optimizer.state[p]["m"].tolist() == [0.0] * 3
    p.grad = torch.ones(3, dtype=torch.float64)
    optimizer.step()
    assert p.tolist() == [-1.0 - 2.0 - 11.0] * 3


def test_entry_point_cannot_set_the_counter_from_memory() -> None:
    @rule
    def plain(p, g, *, lr):
        return p - lr * g

    with pytest.raises(
        fallline.rules.RuleError, match="step is a number of steps; it cannot depend on tensors, only on"
    ):
        plain.entry("odd", writes=["step"])(lambda p: p)


def test_cautious_form_is_another_program() -> None:
    adamw = description_of("AdamW").rule
    trace = adamw.trace_for(dict(amsgrad=False), 2)
    masked = adamw.trace_for(dict(amsgrad=False), 2, cautious=True)
    assert masked == dataclasses.replace(trace, cautious=True)
    assert not adamw.program(trace).reductions
    assert len(adamw.program(masked).reductions) == 1
