"""Schedule-Free optimizers hold the weights to train or their average, know which, and cannot be stepped wrongly."""

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import fallline

pytestmark = pytest.mark.usefixtures("one_thread")

CLASSES: dict[str, dict[str, Any]] = {
    "ScheduleFreeSGD": dict(lr=0.1, momentum=0.8, warmup_steps=3),
    "ScheduleFreeAdamW": dict(lr=0.1, weight_decay=0.1, r=0.5),
    "ScheduleFreeProdigy": dict(d0=0.01, betas=(0.8, 0.99)),
}
BETA = {"ScheduleFreeSGD": 0.8, "ScheduleFreeAdamW": 0.9, "ScheduleFreeProdigy": 0.8}
LOWERINGS = [dict(foreach=False, fused=False), dict(foreach=True, fused=False), {}]


def make(name: str, params: list[torch.Tensor], **flags: Any) -> Any:
    return getattr(fallline, name)(params, **CLASSES[name], **flags)


def parameters(dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in ((7, 5), (3,), ())]


def steps(optimizer: Any, params: list[torch.Tensor], count: int) -> None:
    for _ in range(count):
        for p in params:
            p.grad = p.detach() - 3.0
        optimizer.step()


def values(params: list[torch.Tensor]) -> list[torch.Tensor]:
    return [p.detach().clone() for p in params]


@pytest.mark.parametrize("flags", LOWERINGS, ids=["eager", "foreach", "auto"])
@pytest.mark.parametrize("name", CLASSES)
def test_eval_gives_the_average_and_train_goes_back(name: str, flags: dict[str, Any]) -> None:
    params = parameters(torch.float32)
    optimizer = make(name, params, **flags)
    assert [group["train_mode"] for group in optimizer.param_groups] == [True]
    steps(optimizer, params, 5)
    trained = values(params)
    optimizer.eval()
    for p, y in zip(params, trained, strict=True):
        z = optimizer.state[p]["z"]
        # y = (1 − β) z + β x
        torch.testing.assert_close((1 - BETA[name]) * z + BETA[name] * p.detach(), y)
        assert not torch.equal(p, y)
    optimizer.train()
    for p, y in zip(params, trained, strict=True):
        torch.testing.assert_close(p.detach(), y)


@pytest.mark.parametrize("name", CLASSES)
def test_a_second_call_changes_nothing(name: str) -> None:
    params = parameters()
    optimizer = make(name, params)
    steps(optimizer, params, 3)
    for switch in (optimizer.train, optimizer.eval, optimizer.train):
        switch()
        before, versions = values(params), [p._version for p in params]
        switch()
        assert [p._version for p in params] == versions
        assert all(map(torch.equal, params, before))


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.filterwarnings("ignore:this checkpoint of")
@pytest.mark.parametrize("stepped", [0, 2])
def test_a_step_in_eval_mode_raises_and_changes_nothing(name: str, stepped: int) -> None:
    params = parameters()
    optimizer = make(name, params)
    steps(optimizer, params, stepped)
    optimizer.eval()
    before = values(params)
    saved = copy.deepcopy(optimizer.state_dict()["state"])

    def closure() -> None:
        raise AssertionError("evaluated at the wrong weights")

    with pytest.raises(RuntimeError, match=rf"{name} is in eval mode.*call optimizer\.train\(\) before step\(\)"):
        optimizer.step(closure)
    assert all(map(torch.equal, params, before))
    assert str(optimizer.state_dict()["state"]) == str(saved)
    optimizer.train()
    steps(optimizer, params, 1)


def test_saving_in_eval_mode_warns_once() -> None:
    params = parameters()
    optimizer = make("ScheduleFreeAdamW", params)
    steps(optimizer, params, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.state_dict()
    optimizer.eval()
    with pytest.warns(UserWarning, match=r"is in eval mode.*call optimizer\.train\(\) before saving"):
        optimizer.state_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.state_dict()


@pytest.mark.filterwarnings("ignore:this checkpoint of")
@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", CLASSES)
def test_a_checkpoint_knows_its_mode(name: str, mode: str) -> None:
    params, straight = parameters(), parameters()
    optimizer, whole = make(name, params), make(name, straight)
    steps(optimizer, params, 4)
    steps(whole, straight, 8)
    getattr(optimizer, mode)()
    weights, saved = values(params), copy.deepcopy(optimizer.state_dict())

    loaded = [w.clone().requires_grad_() for w in weights]
    fresh = make(name, loaded)
    fresh.load_state_dict(saved)
    assert fresh.param_groups[0]["train_mode"] is (mode == "train")
    if mode == "eval":
        with pytest.raises(RuntimeError, match="eval mode"):
            fresh.step()
    fresh.train()
    steps(fresh, loaded, 4)
    for p, q in zip(loaded, straight, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-12)


def test_copies_keep_the_mode() -> None:
    params = parameters()
    optimizer = make("ScheduleFreeSGD", params)
    steps(optimizer, params, 2)
    optimizer.eval()
    copied = copy.deepcopy(optimizer)
    with pytest.raises(RuntimeError, match="eval mode"):
        copied.step()


def test_a_group_that_is_added_in_eval_mode_is_in_it_too() -> None:
    params = parameters()
    optimizer = make("ScheduleFreeSGD", params[:1])
    steps(optimizer, params[:1], 3)
    optimizer.eval()
    optimizer.add_param_group({"params": params[1:]})
    assert [group["train_mode"] for group in optimizer.param_groups] == [False, False]
    before = values(params[1:])
    optimizer.train()
    assert all(map(torch.equal, params[1:], before))  # no step has moved them: all three sequences are one
    steps(optimizer, params, 1)


@pytest.mark.parametrize("flags", LOWERINGS, ids=["eager", "foreach", "auto"])
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("stepped", [0, 2])
def test_switching_gives_no_states_to_what_has_made_no_step(name: str, flags: dict[str, Any], stepped: int) -> None:
    """Weights that are loaded between the two modes are those that the first step begins from."""
    params, twins = parameters(torch.float32), parameters(torch.float32)
    optimizer, twin = make(name, params, **flags), make(name, twins, **flags)
    old, twin_old = (params[:2], twins[:2]) if stepped else ([], [])
    steps(optimizer, old, stepped)
    steps(twin, twin_old, stepped)
    new, twin_new = params[len(old) :], twins[len(old) :]
    for p in params:
        p.grad = torch.ones_like(p)  # of an evaluation that makes no step
    optimizer.eval()
    assert set(optimizer.state) == set(old)
    with torch.no_grad():
        for p in (*new, *twin_new):
            p.copy_(torch.full_like(p, 5.0))
    optimizer.train()
    assert all(bool((p == 5.0).all()) for p in new)
    for p, q in zip(old, twin_old, strict=True):
        torch.testing.assert_close(p, q)
    steps(optimizer, params, 3)
    steps(twin, twins, 3)
    for p, q in zip(params, twins, strict=True):
        torch.testing.assert_close(p, q)


def test_restarting_before_the_first_step_gives_no_states_either() -> None:
    params = parameters()
    optimizer = fallline.Adan(params)
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer.restart_opt()  # type: ignore[attr-defined]
    assert not optimizer.state
    steps(optimizer, params, 1)


@pytest.mark.parametrize("master", [False, True])
def test_sixteen_bit_parameters_switch_too(master: bool) -> None:
    params = parameters(torch.bfloat16)
    optimizer = make("ScheduleFreeAdamW", params, master_weights=master, stochastic_rounding=not master)
    steps(optimizer, params, 4)
    trained = values(params)
    optimizer.eval()
    assert any(not torch.equal(p, y) for p, y in zip(params, trained, strict=True))
    optimizer.train()
    for p, y in zip(params, trained, strict=True):
        # With master weights to the bit; without, two roundings of 16 bits.
        torch.testing.assert_close(p.detach(), y, rtol=0.0 if master else 2.0**-6, atol=0.0 if master else 1e-2)


def test_the_three_sequences_of_schedule_free_sgd() -> None:
    """y and z alone are stored; kept apart, x, y and z are the same."""
    params = parameters()
    optimizer = make("ScheduleFreeSGD", params)
    x = [p.detach().numpy().copy() for p in params]
    z = [v.copy() for v in x]
    total = 0.0
    for t in range(1, 51):
        lr = 0.1 * min(1.0, t / 3)
        weight = lr**2
        total += weight
        c = weight / total
        for i, p in enumerate(params):
            y = (1 - 0.8) * z[i] + 0.8 * x[i]
            np.testing.assert_allclose(p.detach().numpy(), y, rtol=1e-12, atol=1e-13)
            g = np.cos(np.arange(p.numel()).reshape(p.shape) + t) + y
            p.grad = torch.tensor(g, dtype=torch.float64)
            z[i] = z[i] - lr * g
            x[i] = (1 - c) * x[i] + c * z[i]
        optimizer.step()
    optimizer.eval()
    for p, average in zip(params, x, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), average, rtol=1e-12, atol=1e-13)


def test_the_three_sequences_of_schedule_free_adamw() -> None:
    params = parameters()
    optimizer = make("ScheduleFreeAdamW", params)
    x = [p.detach().numpy().copy() for p in params]
    z, v = [a.copy() for a in x], [np.zeros_like(a) for a in x]
    total = 0.0
    for t in range(1, 51):
        weight = t**0.5 * 0.1**2
        total += weight
        c = weight / total
        for i, p in enumerate(params):
            y = 0.1 * z[i] + 0.9 * x[i]
            np.testing.assert_allclose(p.detach().numpy(), y, rtol=1e-12, atol=1e-13)
            g = np.cos(np.arange(p.numel()).reshape(p.shape) + t) + y
            p.grad = torch.tensor(g, dtype=torch.float64)
            v[i] = 0.999 * v[i] + 0.001 * g * g
            z[i] = z[i] - 0.1 * (g / (np.sqrt(v[i] / (1 - 0.999**t)) + 1e-8) + 0.1 * y)
            x[i] = (1 - c) * x[i] + c * z[i]
        optimizer.step()
    optimizer.eval()
    for p, average in zip(params, x, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), average, rtol=1e-12, atol=1e-13)
