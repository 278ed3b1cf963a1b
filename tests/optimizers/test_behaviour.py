"""Elementwise optimizers beside their equations: entry points, warnings, refusals, 8-bit states."""

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

import fallline
from fallline.optimizers import FILES, description_of

pytestmark = pytest.mark.usefixtures("one_thread")

ELEMENTWISE = (
    *("Adadelta", "NAdam", "NAdamW", "NadamP", "GeneralizedAdam", "RAdam", "Adamax", "Adan", "QHM", "QHAdam"),
    *("SophiaG", "NAGGS", "NAG4", "ADOPT", "AdEMAMix", "MARS"),
)


def one(shape: tuple[int, ...] = (4,)) -> Tensor:
    return torch.linspace(-1.0, 2.0, torch.Size(shape).numel()).view(shape).requires_grad_()


def steps(optimizer: Any, count: int) -> None:
    for _ in range(count):
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad = p.detach() + 0.5
        optimizer.step()


# ---------------------------------------------------------------- SophiaG's curvature


def test_sophia_warns_once_that_nobody_updates_its_curvature() -> None:
    optimizer = fallline.SophiaG([one()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps(optimizer, 99)
    with pytest.warns(UserWarning, match=r"SophiaG has made 100 steps without a call of update_hessian\(\)") as caught:
        steps(optimizer, 150)
    assert len([w for w in caught if "update_hessian" in str(w.message)]) == 1


def test_sophia_does_not_warn_those_who_update_it() -> None:
    optimizer = fallline.SophiaG([one()])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        steps(optimizer, 90)
        optimizer.update_hessian()
        steps(optimizer, 150)


def test_curvature_without_any_gradient_is_refused() -> None:
    optimizer = fallline.SophiaG([one()])
    with pytest.raises(RuntimeError, match=r"update_hessian\(\) found no gradient; .* before zero_grad\(\)"):
        optimizer.update_hessian()
    steps(optimizer, 1)
    optimizer.zero_grad()
    with pytest.raises(RuntimeError, match="found no gradient"):
        optimizer.update_hessian()


def test_a_copy_of_sophia_still_warns() -> None:
    optimizer = copy.deepcopy(fallline.SophiaG([one()]))
    with pytest.warns(UserWarning, match="update_hessian"):
        steps(optimizer, 100)


def test_curvature_can_be_measured_before_the_first_step() -> None:
    p = one()
    optimizer = fallline.SophiaG([p], betas=(0.9, 0.5))
    p.grad = torch.full_like(p, 3.0)
    optimizer.update_hessian()
    assert optimizer.state[p]["hessian"].tolist() == [4.5] * 4
    assert optimizer.state[p]["step"] == 0


def test_curvature_of_parameters_without_sampled_gradient_stays() -> None:
    p, q = one(), one()
    optimizer = fallline.SophiaG([p, q])
    steps(optimizer, 1)
    p.grad, q.grad = torch.ones_like(p), None
    optimizer.update_hessian()
    assert optimizer.state[p]["hessian"].min() > 0
    assert optimizer.state[q]["hessian"].max() == 0


# ---------------------------------------------------------------- Adan


def test_restarted_adan_is_a_new_one() -> None:
    p, q = one(), one()
    optimizer = fallline.Adan([p], lr=0.1)
    steps(optimizer, 5)
    optimizer.restart_opt()
    assert optimizer.param_groups[0]["step"] == 0
    q.data.copy_(p.data)
    new = fallline.Adan([q], lr=0.1)
    steps(optimizer, 5)
    steps(new, 5)
    assert torch.equal(p, q)
    assert optimizer.param_groups[0]["step"] == 5


def test_adan_that_never_stepped_can_be_restarted() -> None:
    optimizer = fallline.Adan([one()])
    optimizer.restart_opt()
    assert optimizer.param_groups[0]["step"] == 0


def test_restart_clears_8_bit_states() -> None:
    p = one((64, 64))
    optimizer = fallline.Adan([p], state_dtype="int8")
    steps(optimizer, 3)
    optimizer.restart_opt()
    for name in ("exp_avg", "exp_avg_sq", "exp_avg_diff"):
        assert optimizer.state[p][f"{name}:int8"].count_nonzero() == 0


def test_adan_clips_all_groups_together() -> None:
    """And so they share the bound."""
    with pytest.raises(ValueError, match=r"max_grad_norm must be the same in all groups of Adan, got 1\.0 and 0\.0"):
        fallline.Adan([{"params": [one()]}, {"params": [one()], "max_grad_norm": 0.0}], max_grad_norm=1.0)
    optimizer = fallline.Adan([{"params": [one()]}, {"params": [one()]}], max_grad_norm=1.0)
    optimizer.param_groups[1]["max_grad_norm"] = 2.0
    with pytest.raises(ValueError, match="max_grad_norm must be the same"):
        steps(optimizer, 1)


def test_clipping_leaves_gradients_alone() -> None:
    p = one()
    optimizer = fallline.Adan([p], max_grad_norm=0.1)
    p.grad = torch.full_like(p, 5.0)
    optimizer.step()
    assert p.grad.tolist() == [5.0] * 4
    assert optimizer.state[p]["neg_pre_grad"].norm().item() == pytest.approx(0.1, rel=1e-6)


# ---------------------------------------------------------------- MARS


@pytest.mark.parametrize("rate", [0.05, 30.0])
def test_mars_moves_other_tensors_at_lr_1d_whatever_the_rate_of_their_group(rate: float) -> None:
    """Only a schedule, which changes the rate that the group began with, moves both kinds of tensors alike."""
    a, b = one(), one()
    mars = fallline.MARS([{"params": [a], "lr": rate}], lr=1e-6, lr_1d=0.02)
    adamw = fallline.AdamW([b], lr=0.02, betas=(0.9, 0.95), weight_decay=0.1)
    schedules = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5) for optimizer in (mars, adamw)]
    for _ in range(3):
        steps(mars, 3)
        steps(adamw, 3)
        for schedule in schedules:
            schedule.step()
    torch.testing.assert_close(a, b)


def test_mars_warmed_up_from_nothing_begins_at_the_rate_it_was_made_with() -> None:
    a, b = one(), one()
    mars = fallline.MARS([{"params": [a], "lr": 0.5}], lr_1d=0.02)
    adamw = fallline.AdamW([b], lr=0.02, betas=(0.9, 0.95), weight_decay=0.1)
    for optimizer in (mars, adamw):
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 3))
        for _ in range(5):
            steps(optimizer, 1)
            schedule.step()
    torch.testing.assert_close(a, b)


def test_mars_in_layers_of_a_model_scales_both_rates() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    mars = fallline.create("mars", model, lr=0.4, lr_1d=0.2, layer_lr_decay=0.5)
    rates = {n: (g["lr"], g["lr_1d"], g["lr_init"]) for g in mars.param_groups for n in g["param_names"]}
    assert rates["0.bias"] == (0.2, 0.1, 0.2) and rates["1.bias"] == (0.4, 0.2, 0.4)


def test_mars_keeps_the_rate_it_was_made_with_in_checkpoints() -> None:
    first = fallline.MARS([one()], lr=0.1)
    second = fallline.MARS([one()], lr=0.7)
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["lr_init"] == 0.1


@pytest.mark.parametrize(
    ("shape", "options", "states"),
    [
        ((3, 4), {}, {"exp_avg", "exp_avg_sq", "last_grad"}),
        ((3, 4), {"mars_type": "mars-lion"}, {"exp_avg", "last_grad"}),
        ((3, 4), {"mars_type": "mars-lion", "amsgrad": True}, {"exp_avg", "last_grad"}),
        ((3, 4), {"amsgrad": True}, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "last_grad"}),
        ((4,), {"mars_type": "mars-lion"}, {"exp_avg", "exp_avg_sq"}),
        ((4,), {"amsgrad": True}, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}),
        ((4,), {"optimize_1d": True, "mars_type": "mars-lion"}, {"exp_avg", "last_grad"}),
        ((2, 3, 4), {}, {"exp_avg", "exp_avg_sq"}),
    ],
)
def test_mars_allocates_what_a_tensor_needs(shape: tuple[int, ...], options: dict[str, Any], states: set[str]) -> None:
    p = one(shape)
    optimizer = fallline.MARS([p], **options)
    steps(optimizer, 1)
    assert set(optimizer.state[p]) - {"step"} == states


def test_ademamix_without_fast_mean_does_not_store_it() -> None:
    p = one()
    optimizer = fallline.AdEMAMix([p], betas=(0.0, 0.9, 0.99))
    steps(optimizer, 1)
    assert set(optimizer.state[p]) - {"step"} == {"exp_avg_slow", "exp_avg_sq"}


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("Adam", {"variant": "jax"}, "variant must be 'torch' or 'optax' or 'paper', got 'jax'"),
        ("Adam", {"variant": "optax", "amsgrad": False}, "are forms of AMSGrad; they need amsgrad=True"),
        ("Adadelta", {"rho": 1.0}, r"rho must be in \[0, 1\), got 1"),
        ("NAdam", {"momentum_decay": -1.0}, "momentum_decay must be >= 0, got -1"),
        ("NAdam", {"decoupled_weight_decay": 2}, "decoupled_weight_decay must be False or True, got 2"),
        ("NadamP", {"power": 0.0}, "power must be > 0, got 0"),
        ("NadamP", {"eps_root": -1e-3}, "eps_root must be >= 0, got -0.001"),
        ("RAdam", {"betas": (0.9, 1.0)}, r"betas\[1\] must be in \[0, 1\), got 1"),
        ("Adan", {"betas": (0.9, 0.9)}, r"betas must be 3 numbers \(beta1, beta2, beta3\), got \(0.9, 0.9\)"),
        ("Adan", {"max_grad_norm": -1.0}, "max_grad_norm must be >= 0, got -1"),
        ("QHM", {"momentum": 1.0}, r"momentum must be in \[0, 1\), got 1"),
        ("QHM", {"weight_decay_type": "l2"}, "weight_decay_type must be 'grad' or 'direct', got 'l2'"),
        ("QHAdam", {"nus": (1.0, float("nan"))}, r"nus\[1\] must be finite, got nan"),
        ("SophiaG", {"bs": 0}, "bs must be > 0, got 0"),
        ("SophiaG", {"rho": -0.1}, "rho must be > 0, got -0.1"),
        ("NAGGS", {"mu": 0.0, "gamma": 0.0}, "mu and gamma cannot both be 0"),
        ("NAGGS", {"variant": "tf"}, "variant must be 'torch' or 'jax', got 'tf'"),
        ("NAG4", {"mu": -1.0}, "mu must be >= 0, got -1"),
        ("ADOPT", {"clip_exp": -0.25}, "clip_exp must be >= 0 or None, got -0.25"),
        ("AdEMAMix", {"alpha_warmup": 0}, "alpha_warmup must be > 0 or None, got 0"),
        ("MARS", {"mars_type": "mars-shampoo"}, "mars_type must be 'mars-adamw' or 'mars-lion', got 'mars-shampoo'"),
        ("MARS", {"betas_1d": (0.9, 1.5)}, r"betas_1d\[1\] must be in \[0, 1\), got 1.5"),
    ],
)
def test_bad_hyperparameters_are_refused(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        getattr(fallline, name)([one()], **options)


@pytest.mark.parametrize("name", ["NAGGS", "NAG4"])
def test_copies_of_weights_are_not_stored_in_8_bits(name: str) -> None:
    with pytest.raises(ValueError, match=f"with these options {name} has no state that can be stored in so few bits"):
        getattr(fallline, name)([one()], state_dtype="int8")


@pytest.mark.parametrize("state_dtype", ["bfloat16", "int8", "int4"])
def test_a_variance_is_not_the_difference_of_rounded_states(state_dtype: str) -> None:
    """Steady gradients leave v − mean² a thousandth of v: rounded apart, the two would differ by noise."""
    torch.manual_seed(0)
    p = one((64, 64))
    optimizer = fallline.RMSprop([p], lr=1e-3, centered=True, momentum=0.9, state_dtype=state_dtype)
    steady = torch.randn(64, 64)
    for _ in range(50):
        p.grad = steady + 0.01 * torch.randn(64, 64)
        optimizer.step()
    entry = optimizer.state[p]
    assert entry["square_avg"].dtype == entry["grad_avg"].dtype == torch.float32
    assert "momentum_buffer" not in entry or entry["momentum_buffer"].dtype == torch.bfloat16
    assert p.isfinite().all()


def test_both_means_stay_wide_when_a_running_optimizer_becomes_centered() -> None:
    p = one((64, 64))
    optimizer = fallline.RMSprop([p], momentum=0.9, state_dtype="int8")
    steps(optimizer, 1)
    assert "square_avg:int8" in optimizer.state[p]
    optimizer.param_groups[0]["centered"] = True
    steps(optimizer, 1)
    assert optimizer.state[p]["square_avg"].dtype == torch.float32
    assert "momentum_buffer:int8" in optimizer.state[p]


def test_a_centered_checkpoint_loads_without_rounding_its_means() -> None:
    saved, loaded = (
        fallline.RMSprop([one((64, 64))], momentum=0.9, centered=centered, state_dtype="int8")
        for centered in (True, False)
    )
    steps(saved, 2)
    loaded.load_state_dict(saved.state_dict())
    (mine,), (theirs,) = loaded.state.values(), saved.state.values()
    assert set(mine) == set(theirs)
    assert all(torch.equal(mine[key], theirs[key]) for key in ("square_avg", "grad_avg", "momentum_buffer:int8"))


def test_centered_without_momentum_has_nothing_to_store_in_few_bits() -> None:
    with pytest.raises(ValueError, match="with these options RMSprop has no state that can be stored in so few bits"):
        fallline.RMSprop([one()], centered=True, state_dtype="int8")


def test_the_slow_mean_of_ademamix_stays_wide() -> None:
    """With beta3 = 0.9999 it moves by less per step than the width of a code."""
    p = one((64, 64))
    optimizer = fallline.AdEMAMix([p], state_dtype="int8")
    steps(optimizer, 2)
    assert optimizer.state[p]["exp_avg_slow"].dtype == torch.float32
    assert {"exp_avg_fast:int8", "exp_avg_sq:int8"} <= set(optimizer.state[p])
    assert "exp_avg_slow" in fallline.info("ademamix").stays_float32
    assert fallline.info("rmsprop").float32_with == {"square_avg": "centered"}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_sparse_gradients_are_refused(name: str) -> None:
    p = one((6, 2))
    optimizer = getattr(fallline, name)([p])
    p.grad = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, 2), (6, 2), check_invariants=True)
    with pytest.raises(TypeError, match=f"{name} does not take sparse gradients"):
        optimizer.step()


# ---------------------------------------------------------------- 8-bit states

# A learning rate that makes progress in 30 steps, and calls on the way.
SETTINGS: dict[str, dict[str, Any]] = {
    "Adadelta": dict(lr=20.0),
    "NAdam": dict(lr=0.02),
    "NAdamW": dict(lr=0.02),
    "NadamP": dict(lr=0.02, power=1.5),
    "GeneralizedAdam": dict(lr=0.02),
    "RAdam": dict(lr=0.2),
    "Adamax": dict(lr=0.05),
    "Adan": dict(lr=0.03, betas=(0.9, 0.8, 0.95)),
    "QHM": dict(lr=5.0, momentum=0.9),
    "QHAdam": dict(lr=0.02, nus=(0.7, 1.0)),
    "SophiaG": dict(lr=0.05, bs=100),
    "ADOPT": dict(lr=0.02),
    "AdEMAMix": dict(lr=0.02),
    "MARS": dict(lr=0.02),
}


def trained(name: str, **options: Any) -> tuple[float, float]:
    """The loss of a linear model with 64 × 64 weights before and after 30 steps."""
    random = torch.Generator().manual_seed(0)
    x, w = torch.randn(256, 64, generator=random), torch.randn(64, 64, generator=random)
    y = x @ w * 0.2 + 0.1 * torch.randn(256, 64, generator=random)
    weight = torch.zeros(64, 64, requires_grad=True)
    optimizer = getattr(fallline, name)([weight], **SETTINGS[name], **options)
    losses = []
    for step in range(31):
        optimizer.zero_grad()
        loss = (x @ weight - y).square().mean()
        losses.append(loss.item())
        loss.backward()
        if hasattr(optimizer, "update_hessian") and step % 5 == 0:
            optimizer.update_hessian()
        if step < 30:
            optimizer.step()
    assert ("int8" in options.values()) == any(":int8" in key for key in optimizer.state[weight])
    return losses[0], losses[-1]


@pytest.mark.parametrize("name", SETTINGS)
def test_8_bit_states_train_as_well(name: str) -> None:
    start, full = trained(name)
    _, low = trained(name, state_dtype="int8")
    assert full < 0.5 * start, "the problem says nothing if nothing is learnt"
    assert low == pytest.approx(full, rel=0.04)


def test_every_rule_with_low_bit_states_is_tried_in_8_bits() -> None:
    low = {n for n in ELEMENTWISE if any(s.low_bit for s in description_of(n).rule.states.values())}
    assert low == set(SETTINGS)
    assert set(ELEMENTWISE) <= set(FILES)


# ---------------------------------------------------------------------------- flags of the seed


@pytest.mark.parametrize(
    ("flags", "lowering"),
    [
        (dict(foreach=True, fused=False), "foreach"),
        (dict(foreach=False, fused=False), "eager"),
        (dict(foreach=True, fused=True), "native"),
        (dict(foreach=False, fused=True), "native each"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"max_grad_norm": 0.5}, {"no_prox": True, "weight_decay": 0.1}])
def test_adan_takes_the_flags_of_its_authors(flags: dict[str, bool], lowering: str, options: dict[str, Any]) -> None:
    """foreach=True, fused=False is their default; the weights are the same whichever runs."""
    ends = []
    for chosen in (flags, {}):
        params = [one((7, 5)), one((6,))]
        optimizer = fallline.Adan(params, lr=0.05, **options, **chosen)
        steps(optimizer, 6)
        ends.append([p.detach().clone() for p in params])
        if chosen:
            assert lowering in optimizer.explain()
    for a, b in zip(*ends, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
