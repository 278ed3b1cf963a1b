"""Optimizers with reductions: refusals, the meaning of odd inputs, checkpoints of torch's Adafactor, 8-bit states."""

import math
from typing import Any

import pytest
import torch

import fallline
from tests.contract.trajectories import assert_near, assert_same, parameters, run, values

pytestmark = pytest.mark.usefixtures("one_thread")


def vector(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers).requires_grad_()


# ---------------------------------------------------------------------------- refused

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("Adafactor", dict(variant="hf", lr=0.1), r"lr must be None with relative_step=True.*set relative_step=False"),
    ("Adafactor", dict(variant="hf", relative_step=False), "lr must be a number unless relative_step=True"),
    (
        "Adafactor",
        dict(variant="hf", lr=0.1, relative_step=False, warmup_init=True),
        "warmup_init=True needs relative_step=True",
    ),
    ("Adafactor", dict(variant="hf", eps=(None, 1e-3)), r"eps\[0\] must be a number"),
    ("Adafactor", dict(beta1=0.9), 'need variant="hf"'),
    ("Adafactor", dict(scale_parameter=False), 'need variant="hf"'),
    ("Adafactor", dict(d=0.5), 'd must be >= 1 with variant="torch"'),
    ("Adafactor", dict(beta2_decay=0.5), "beta2_decay must be <= 0, got 0.5"),
    ("Adafactor", dict(variant="optax"), "variant must be 'torch' or 'hf', got 'optax'"),
    ("Adafactor", dict(relative_step=3), "relative_step must be True or False, got 3"),
    ("SGDP", dict(momentum=1.0), r"momentum must be in \[0, 1\), got 1"),
    ("AdamP", dict(delta=-0.1), "delta must be >= 0, got -0.1"),
    ("Amos", dict(reduce="columns"), "reduce must be 'tensor' or 'rows' or 'none', got 'columns'"),
    ("Amos", dict(eta=0.0), "eta must be > 0 or None, got 0"),
    ("AmosAlgoPerf", dict(style="sgd"), "style must be 'adam' or 'reduced', got 'sgd'"),
    ("Fromage", dict(p_bound=0.0), "p_bound must be > 0 or None, got 0"),
    ("LAMB", dict(decoupled_decay=True, adam_w_mode=False), "two places for the same decay"),
    ("LAMB", dict(max_grad_norm=0.0), "max_grad_norm must be > 0 or None, got 0"),
    ("Prodigy", dict(d0=0.0), "d0 must be > 0, got 0"),
    ("Prodigy", dict(growth_rate=0.0), "growth_rate must be > 0, got 0"),
    ("Prodigy", dict(growth_rate=-1.0), "growth_rate must be > 0, got -1"),
    ("Prodigy", dict(growth_rate=math.nan), "growth_rate must be > 0, got nan"),
    ("ScheduleFreeSGD", dict(momentum=0.0), r"momentum must be in \(0, 1\), got 0"),
    ("ScheduleFreeAdamW", dict(betas=(0.0, 0.9)), r"betas\[0\] must be in \(0, 1\), got 0"),
    ("ScheduleFreeAdamW", dict(variant="weighted"), "variant must be 'schedulefree' or 'algoperf'"),
]


@pytest.mark.parametrize(("name", "options", "says"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_bad_options_are_refused(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        getattr(fallline, name)([vector(1.0)], **options)


@pytest.mark.parametrize("name", ["Prodigy", "ScheduleFreeProdigy"])
def test_prodigy_needs_one_learning_rate(name: str) -> None:
    make = getattr(fallline, name)
    p, q, r = vector(1.0), vector(2.0), vector(3.0)
    says = rf"{name} needs the same lr in all groups, or 0 in groups that rest, got 0.5 and 1"
    with pytest.raises(ValueError, match=says):
        make([{"params": [p]}, {"params": [q], "lr": 0.5}])
    optimizer = make([{"params": [p]}, {"params": [q], "lr": 0.0}])
    with pytest.raises(ValueError, match=r"got 0 and 0\.5 and 1"):
        optimizer.add_param_group({"params": [r], "lr": 0.5})
    assert len(optimizer.param_groups) == 2
    for x in (p, q):
        x.grad = torch.ones(1)
    optimizer.step()
    optimizer.param_groups[0]["lr"], optimizer.param_groups[1]["lr"] = 0.5, 1.0
    before = [p.detach().clone(), q.detach().clone()]
    with pytest.raises(ValueError, match=says):
        optimizer.step()
    assert torch.equal(p, before[0])
    assert torch.equal(q, before[1])


def test_groups_must_agree_on_what_acts_on_all_of_them() -> None:
    with pytest.raises(ValueError, match=r"d0 must be the same in all groups of Prodigy, got 1e-06 and 0.1"):
        fallline.Prodigy([{"params": [vector(1.0)]}, {"params": [vector(2.0)], "d0": 0.1}])
    with pytest.raises(ValueError, match="max_grad_norm must be the same in all groups of LAMB"):
        fallline.LAMB([{"params": [vector(1.0)]}, {"params": [vector(2.0)], "max_grad_norm": None}])


def test_a_factored_adafactor_has_nothing_to_store_in_8_bits() -> None:
    with pytest.raises(ValueError, match='Adafactor has no state that can be stored in so few bits; use "float32"'):
        fallline.Adafactor([torch.ones(64, 64, requires_grad=True)], state_dtype="int8")
    fallline.Adafactor([torch.ones(64, 64, requires_grad=True)], variant="hf", beta1=0.9, state_dtype="int8")


def test_adafactors_second_moments_of_vectors_are_stored_in_8_bits() -> None:
    vector, matrix = torch.ones(8192, requires_grad=True), torch.ones(64, 64, requires_grad=True)
    optimizer = fallline.Adafactor([vector, matrix], state_dtype="int8")
    for _ in range(2):
        vector.grad, matrix.grad = torch.linspace(-1.0, 1.0, 8192), torch.ones(64, 64)
        optimizer.step()
    assert optimizer.state[vector]["variance:int8"].dtype == torch.uint8
    assert optimizer.state[matrix]["row_var"].dtype == torch.float32


# ---------------------------------------------------------------------------- odd inputs with a meaning


@pytest.mark.parametrize("variant", ["torch", "hf"])
def test_adafactor_does_not_factor_numbers_and_vectors(variant: str) -> None:
    """A number keeps its own second moment; its step is lr relative to itself, as every tensor's is."""
    number, row = torch.tensor(2.0, requires_grad=True), vector(1.0, -2.0, 3.0)
    number.grad, row.grad = torch.tensor(5.0), torch.tensor([1.0, 1.0, -1.0])
    optimizer = fallline.Adafactor([number, row], variant=variant)
    optimizer.step()
    assert set(optimizer.state[number]) == {"step", "variance"}
    assert optimizer.state[number]["variance"].shape == ()
    assert optimizer.state[row]["variance"].shape == (3,)
    # ρ = 0.01, the size of the weight is 2, and g/√v = 1.
    assert number.item() == pytest.approx(2.0 - 0.01 * 2.0)


def test_the_variant_changes_the_defaults_and_what_is_given_counts_more() -> None:
    assert fallline.Adafactor([vector(1.0)]).param_groups[0]["lr"] == 1e-2
    hf = fallline.Adafactor([vector(1.0)], variant="hf", eps=(1e-20, 1e-2)).param_groups[0]
    assert (hf["lr"], hf["relative_step"], hf["eps"]) == (None, True, (1e-20, 1e-2))
    free = fallline.ScheduleFreeAdamW([vector(1.0)], variant="algoperf", r=0.5).param_groups[0]
    assert (free["r"], free["betas"]) == (0.5, (0.9, 0.9955159689799007))


@pytest.mark.parametrize("lowering", [dict(foreach=False, fused=False), dict(foreach=True, fused=False), {}])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_a_group_of_prodigy_that_rests_only_decays(weight_decay: float, lowering: dict[str, Any]) -> None:
    """By the rate of the others, and without a part in their d, even in the middle of training."""
    torch.manual_seed(0)
    start = [torch.randn(7, 5), torch.randn(4), torch.randn(6)]
    with_it, without = ([p.clone().requires_grad_() for p in start] for _ in range(2))
    resting = fallline.Prodigy(
        [{"params": with_it[:2]}, {"params": with_it[2:], "lr": 0.0}], d0=1e-2, weight_decay=weight_decay, **lowering
    )
    alone = fallline.Prodigy(without[:2], d0=1e-2, weight_decay=weight_decay, **lowering)
    expected = start[2].double()
    for _ in range(10):
        for p in (*with_it, *without):
            p.grad = p.detach() - 3.0
        rate = alone.param_groups[0]["d"]
        expected = expected * (1 - weight_decay * rate)
        resting.step()
        alone.step()
    assert resting.param_groups[1]["d"] == resting.param_groups[0]["d"] == alone.param_groups[0]["d"] > 1e-2
    for p, q in zip(with_it[:2], without[:2], strict=True):
        assert torch.equal(p, q)
    torch.testing.assert_close(with_it[2].detach().double(), expected, rtol=1e-6, atol=1e-6)
    assert not resting.state[with_it[2]]["s"].any()

    resting.param_groups[1]["lr"] = 1.0
    before = with_it[2].detach().clone()
    resting.step()
    assert not torch.equal(with_it[2], before)
    resting.param_groups[1]["lr"] = 0.0
    kept = {k: v.clone() for k, v in resting.state[with_it[2]].items() if k != "step"}
    before = with_it[2].detach().clone()
    resting.step()
    assert all(torch.equal(resting.state[with_it[2]][k], v) for k, v in kept.items())
    if weight_decay == 0.0:
        assert torch.equal(with_it[2], before)


def test_prodigy_without_any_gradient_but_zero_stays() -> None:
    p = vector(1.0, 2.0)
    optimizer = fallline.Prodigy([p])
    p.grad = torch.zeros(2)
    optimizer.step()
    assert torch.equal(p, torch.tensor([1.0, 2.0]))
    assert optimizer.param_groups[0]["d"] == 1e-6
    assert optimizer.param_groups[0]["k"] == 0


def test_fromage_moves_by_the_gradient_where_a_norm_is_zero() -> None:
    p, q = vector(0.0, 0.0), vector(1.0, 2.0)
    optimizer = fallline.Fromage([p, q], lr=0.1)
    p.grad, q.grad = torch.ones(2), torch.zeros(2)
    optimizer.step()
    scale = 1 / math.sqrt(1.01)
    torch.testing.assert_close(p.detach(), torch.full((2,), -0.1 * scale))
    torch.testing.assert_close(q.detach(), torch.tensor([1.0, 2.0]) * scale)


def test_fromage_is_bounded_by_where_it_started() -> None:
    p = vector(3.0, 4.0)
    optimizer = fallline.Fromage([p], lr=0.5, p_bound=1.1)
    for _ in range(20):
        p.grad = -p.detach() + torch.tensor([0.3, 0.0])
        optimizer.step()
        assert p.norm().item() <= 5.5 * (1 + 1e-6)
    assert p.norm().item() == pytest.approx(5.5, rel=1e-6)


def test_the_learning_rate_of_amos_follows_from_the_length_of_training() -> None:
    params = [torch.ones(100, 100), torch.ones(5)]
    root = 100.0
    q = math.sqrt(1 - 1 / root)
    tau = q * math.log(root * (1 + q) ** 2)
    expected = math.sqrt(2 * (tau + math.sqrt(2) - 1) / (0.65 * (1000 - 2 / 3 * 30)))
    assert fallline.amos_lr(params, steps=1000, warmup=0.03, converge=0.65) == pytest.approx(expected, rel=1e-14)
    assert fallline.amos_lr([torch.ones(())], steps=100, warmup=0.0, converge=1.0) > 0


EMPTY = {"Adafactor": {}, "AdamP": {}, "SGDP": {}, "Amos": {}, "AmosAlgoPerf": {}, "Fromage": {"p_bound": 2.0}}
EMPTY |= {"LAMB": {}, "Prodigy": {}, "ScheduleFreeSGD": {}, "ScheduleFreeAdamW": {}, "ScheduleFreeProdigy": {}}


@pytest.mark.parametrize("flags", [dict(foreach=False, fused=False), dict(foreach=True, fused=False), {}])
@pytest.mark.parametrize("name", EMPTY)
def test_tensors_without_elements_are_stepped_over(name: str, flags: dict[str, Any]) -> None:
    params = [torch.ones(shape, requires_grad=True) for shape in ((0,), (0, 3), (3, 0), (4, 5))]
    lone = torch.ones(4, 5, requires_grad=True)
    optimizer = getattr(fallline, name)(params, **EMPTY[name], **flags)
    other = getattr(fallline, name)([lone], **EMPTY[name], **flags)
    for _ in range(3):
        for p in (*params, lone):
            p.grad = p.detach() - 3.0
        optimizer.step()
        other.step()
    torch.testing.assert_close(params[3], lone)
    fresh = getattr(fallline, name)(params, **EMPTY[name], **flags)
    fresh.load_state_dict(optimizer.state_dict())
    fresh.step()


# ---------------------------------------------------------------------------- torch's Adafactor

SHAPES = [(6, 5), (2, 3, 4), (9,), ()]
EXCHANGED = [{"lr": 0.1}, {"lr": 0.2, "beta2_decay": -0.5, "eps": (1e-3, 0.1), "d": 1.5, "weight_decay": 0.1}]


@pytest.mark.parametrize("direction", ["from torch", "to torch"])
@pytest.mark.parametrize("options", EXCHANGED, ids=["defaults", "all options"])
def test_a_run_of_adafactor_continues_in_the_other_library(options: dict[str, Any], direction: str) -> None:
    classes = [torch.optim.Adafactor, fallline.Adafactor]
    first, second = classes if direction == "from torch" else classes[::-1]
    here, there, reference = parameters(*SHAPES), parameters(*SHAPES), parameters(*SHAPES)
    run(whole := torch.optim.Adafactor(reference, **options), 12)
    start = first(here, **options)
    run(start, 6)
    for p, q in zip(there, here, strict=True):
        p.data.copy_(q.data)
    goes_on = second(there, **{**options, "lr": 123.0})
    goes_on.load_state_dict(start.state_dict())
    run(goes_on, range(6, 12))
    assert_near(values(there), values(reference))
    for p, q in zip(there, reference, strict=True):
        assert set(goes_on.state[p]) == set(whole.state[q])
        for key, value in whole.state[q].items():
            assert_near(goes_on.state[p][key], value, rtol=1e-4, atol=1e-5)


def test_adafactor_goes_there_and_back_without_changing_a_bit() -> None:
    optimizer = fallline.Adafactor(parameters(*SHAPES))
    run(optimizer, 3)
    for exported in (optimizer.state_dict(), fallline.export_for_torch(optimizer)):
        other = torch.optim.Adafactor(parameters(*SHAPES))
        other.load_state_dict(exported)
        again = fallline.Adafactor(parameters(*SHAPES))
        again.load_state_dict(other.state_dict())
        assert_same(again.state_dict()["state"], optimizer.state_dict()["state"])


def test_torch_has_no_other_variant() -> None:
    hf = fallline.Adafactor(parameters(*SHAPES), variant="hf")
    run(hf, 2)
    with pytest.raises(ValueError, match=r"torch.optim.Adafactor is not variant='hf'; use state_dict\(\)"):
        fallline.export_for_torch(hf)
    theirs = torch.optim.Adafactor(parameters(*SHAPES))
    run(theirs, 2)
    with pytest.raises(ValueError, match="is not variant='hf'; load its checkpoint with variant='torch'"):
        hf.load_state_dict(theirs.state_dict())


# ---------------------------------------------------------------------------- 8-bit states

LOW_BIT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "AdamP": (dict(lr=0.01), ["exp_avg", "exp_avg_sq"]),
    "SGDP": (dict(lr=0.01, momentum=0.9), ["momentum_buffer"]),
    "Amos": (dict(lr=0.1, momentum=0.9), ["ema"]),
    "AmosAlgoPerf": (dict(lr=0.1), ["exp_avg", "exp_avg_sq"]),
    "LAMB": (dict(lr=0.01), ["exp_avg", "exp_avg_sq"]),
    "Prodigy": (dict(d0=0.01), ["exp_avg", "exp_avg_sq", "s"]),
    "ScheduleFreeAdamW": (dict(lr=0.01), ["exp_avg_sq"]),
    "ScheduleFreeProdigy": (dict(d0=0.01), ["exp_avg_sq", "s"]),
    "Adafactor": (dict(variant="hf", beta1=0.9), ["exp_avg"]),
}


@pytest.mark.parametrize("lowering", [dict(foreach=False, fused=False), {}], ids=["eager", "auto"])
@pytest.mark.parametrize("name", LOW_BIT)
def test_states_in_8_bits_stay_near_those_in_32(name: str, lowering: dict[str, Any]) -> None:
    """One step from zero states is exact up to rounding; after eight the weights are within a few percent of how far
    they have moved."""
    options, coded = LOW_BIT[name]
    torch.manual_seed(0)
    start = torch.randn(80, 60)
    exact, rough = (start.clone().requires_grad_() for _ in range(2))
    make = getattr(fallline, name)
    full, low = make([exact], **options), make([rough], **options, state_dtype="int8", **lowering)
    noise = torch.Generator().manual_seed(1)
    for step in range(8):
        gradient = exact.detach() - 3.0 + torch.randn(start.shape, generator=noise)
        exact.grad, rough.grad = gradient, gradient.clone()
        full.step()
        low.step()
        if step == 0:
            torch.testing.assert_close(rough, exact, rtol=1e-5, atol=1e-6)
    entry = low.state[rough]
    assert {key.removesuffix(":int8") for key in entry if key.endswith(":int8")} == set(coded)
    moved = (exact - start).norm()
    assert moved > 0
    assert (rough - exact).norm() < 0.05 * moved
    again = make([rough], **options, state_dtype="int8", **lowering)
    again.load_state_dict(low.state_dict())
    assert_same(again.state_dict()["state"], low.state_dict()["state"])
