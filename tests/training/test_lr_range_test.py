"""The LR range test: what it sees, what it suggests, and that it leaves no trace."""

import copy
import importlib.util
import inspect
import pathlib
import random
import sys
import types

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import fallline
from fallline.averaging import WeightEma
from fallline.training.lr_range_test import LrRangeResult, _Curve, lr_range_test
from tests.contract.trajectories import assert_same


def quadratic(curvature=1.0):
    """One weight w at 1 with loss c·w²/2: SGD converges for lr < 2/c and jumps to the minimum at 1/c."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    return model, lambda model, batch: curvature * model.weight.square().sum() / 2


class Noisy(nn.Module):
    """All that a sweep may disturb: batch norm, dropout, a buffer that is replaced, a frozen weight."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(8, 1)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.calls = self.calls + 1
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


def batches(count=3):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, 16, 4, generator=generator)
    return [(one, one.sum(1, keepdim=True)) for one in x]


def everything(model, optimizer):
    """All that may change, by value."""
    return copy.deepcopy(
        {
            "model": {k: v.detach().clone() for k, v in (*model.named_parameters(), *model.named_buffers())},
            "grads": {k: p.grad.clone() for k, p in model.named_parameters() if p.grad is not None},
            "modes": [m.training for m in model.modules()],
            "states": [dict(optimizer.state.get(p, {})) for g in optimizer.param_groups for p in g["params"]],
            "groups": [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups],
            "torch": torch.get_rng_state(),
            "numpy": [part.tolist() if isinstance(part, np.ndarray) else part for part in np.random.get_state()],
            "python": random.getstate(),
        }
    )


def assert_equal(a, b):
    for part in ("groups", "python", "numpy", "modes"):
        assert a[part] == b[part]
    for part in ("model", "grads", "states", "torch"):
        assert_same(a[part], b[part])


MAKERS = {
    "torch": lambda params: torch.optim.AdamW(params, lr=0.01),
    "tensor lr": lambda params: torch.optim.AdamW(params, lr=torch.tensor(0.01)),
    "fallline": lambda params: fallline.AdamW(params, lr=0.01),
    "int8": lambda params: fallline.AdamW8bit(params, lr=0.01),
    "momentum": lambda params: fallline.SGD(params, lr=0.01, momentum=0.9, clip_norm=1.0),
}


def train(model, optimizer, count):
    for x, y in batches(count):
        optimizer.zero_grad()
        functional.mse_loss(model(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize("steps_before", [0, 2])
@pytest.mark.parametrize("name", MAKERS)
def test_everything_is_put_back_exactly_and_training_goes_on_as_if_nothing_was(name, steps_before):
    torch.manual_seed(0)
    model = Noisy()
    optimizer = MAKERS[name]([p for p in model.parameters() if p.requires_grad])
    train(model, optimizer, steps_before)
    twin_model, twin = copy.deepcopy((model, optimizer))
    model.norm.eval()
    twin_model.norm.eval()
    kept = [p.grad for p in model.parameters()]
    before = everything(model, optimizer)

    def step(model, batch):
        random.random()
        np.random.rand()
        model.norm.train()
        return functional.mse_loss(model(batch[0]), batch[1])

    result = lr_range_test(model, step, optimizer, batches(), lr_max=0.1, steps=20)
    assert len(result.losses) == 20
    assert_equal(everything(model, optimizer), before)
    assert all(p.grad is g for p, g in zip(model.parameters(), kept, strict=True))
    state = torch.get_rng_state()
    train(model, optimizer, 3)
    torch.set_rng_state(state)
    train(twin_model, twin, 3)
    assert_same(dict(model.named_parameters()), dict(twin_model.named_parameters()))


def test_states_stay_the_same_tensors():
    model, step = quadratic()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train_loss = step(model, None)
    train_loss.backward()
    optimizer.step()
    buffer = optimizer.state[model.weight]["momentum_buffer"]
    value = buffer.clone()
    lr_range_test(model, step, optimizer, [None], steps=10, lr_max=0.5)
    assert optimizer.state[model.weight]["momentum_buffer"] is buffer
    assert_same(buffer, value)


def test_attributes_of_the_optimizer_are_put_back():
    model, step = quadratic()
    optimizer = fallline.SGD(model.parameters(), lr=0.1, clip_norm=1.0)
    torch.optim.lr_scheduler.ConstantLR(optimizer)
    before = set(vars(optimizer))
    lr_range_test(model, step, optimizer, [None], steps=10)
    assert optimizer.grad_norm is None
    # The scheduler's mark that the optimizer has stepped: it has not.
    assert set(vars(optimizer)) == before


def test_put_back_after_an_error_too():
    model, step = quadratic()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    before = everything(model, optimizer)
    calls = []

    def failing(model, batch):
        calls.append(batch)
        torch.rand(1)
        if len(calls) == 7:
            raise KeyError("a bug in the user's code")
        return step(model, batch)

    with pytest.raises(KeyError, match="a bug"):
        lr_range_test(model, failing, optimizer, [None], steps=10)
    assert_equal(everything(model, optimizer), before)


def test_generators_of_a_data_loader_are_put_back():
    generator = torch.Generator().manual_seed(3)
    data = torch.utils.data.TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, generator=generator)
    before = generator.get_state()
    model = nn.Linear(4, 1)
    lr_range_test(model, nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1), loader, steps=10)
    assert_same(generator.get_state(), before)


def test_rates_grow_exponentially_from_first_to_last():
    model, step = quadratic(1e-6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: seen.append(opt.param_groups[0]["lr"]))
    result = lr_range_test(model, step, optimizer, [None], lr_min=1e-4, lr_max=1.0, steps=5)
    assert result.lrs == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1, 1.0], rel=1e-12)
    assert seen == result.lrs
    assert result.stopped == "all rates were tried"


def rates_seen(first, second):
    """The rates of both groups in the first and in the last of five steps from 0.001 to 0.01."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD([{"params": [model.weight]}, {"params": [model.bias], "lr": second}], lr=first)
    seen = []
    optimizer.register_step_pre_hook(lambda opt, *_: seen.append([g["lr"] for g in opt.param_groups]))
    data = [(torch.ones(1, 2), torch.ones(1, 1))]
    lr_range_test(model, nn.MSELoss(), optimizer, data, lr_min=0.001, lr_max=0.01, steps=5)
    return [*seen[0], *seen[-1]]


def test_groups_keep_their_ratio():
    assert rates_seen(0.1, 0.02) == pytest.approx([0.001, 0.0002, 0.01, 0.002])


def test_groups_whose_rate_is_0_rest():
    assert rates_seen(0.0, 0.1) == pytest.approx([0.0, 0.001, 0.0, 0.01])
    assert rates_seen(0.1, 0.0) == pytest.approx([0.001, 0.0, 0.01, 0.0])
    assert rates_seen(0.0, 0.0) == pytest.approx([0.001, 0.001, 0.01, 0.01])


def test_losses_and_smoothing_against_plain_code():
    model, step = quadratic()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    result = lr_range_test(model, step, optimizer, [None], lr_min=0.01, lr_max=1.0, steps=9, window=2)
    w, losses = 1.0, []
    for lr in result.lrs:
        losses.append(w * w / 2)
        w -= lr * w
    assert result.losses == pytest.approx(losses, rel=1e-5)
    windows = [losses[0:3], losses[0:4], losses[0:5], losses[1:6], losses[2:7], losses[3:8], losses[4:9]]
    windows += [losses[5:9], losses[6:9]]
    assert result.smoothed == pytest.approx([sum(part) / len(part) for part in windows], rel=1e-5)


def test_stops_when_the_loss_diverges_and_suggests_rates_that_converge():
    model, step = quadratic(curvature=4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    result = lr_range_test(model, step, optimizer, [None], lr_min=1e-5, lr_max=1e3)
    assert "the loss diverged" in result.stopped
    assert 0.5 < result.lrs[-1] < 10
    assert 0.001 < result.steepest < 0.5
    assert 0.001 < result.tenth_of_lowest < 0.5
    assert str(result).startswith("steepest descent at lr 0.")
    assert result.stopped in str(result)


def test_stops_when_the_loss_is_not_finite():
    model, _ = quadratic()

    def step(model, batch):
        loss = model.weight.square().sum()
        return loss * float("nan") if loss < 0.5 else loss

    result = lr_range_test(model, step, torch.optim.SGD(model.parameters(), lr=0.1), [None], lr_min=1e-3, lr_max=1.0)
    assert "the loss was nan" in result.stopped
    assert all(np.isfinite(result.losses))


def test_negative_losses_are_no_divergence():
    model, _ = quadratic()

    def step(model, batch):
        return (model.weight.square() - 20).sum()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    result = lr_range_test(model, step, optimizer, [None], lr_min=1e-4, lr_max=0.5, steps=50)
    assert result.stopped == "all rates were tried"
    assert result.steepest is not None
    assert "still falling at the last rate tried: raise lr_max" in str(result)


def test_no_suggestion_if_the_loss_never_fell():
    model, step = quadratic()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, maximize=True)
    result = lr_range_test(model, step, optimizer, [None], lr_min=1e-3, lr_max=1.0)
    assert result.steepest is None
    assert result.tenth_of_lowest is None
    assert str(result).startswith("no suggestion: loss never fell (")
    assert result.table()


def test_no_suggestion_if_only_batches_differ():
    model = nn.Linear(1, 1)
    noise = torch.Generator().manual_seed(1)
    data = [torch.randn((), generator=noise).item() for _ in range(100)]

    def step(model, batch):
        return model.weight.sum() * 0 + 10 + batch

    result = lr_range_test(model, step, torch.optim.SGD(model.parameters(), lr=0.1), data)
    assert "noise between batches alone by up to" in str(result)
    assert result.steepest is None


def test_noise_rarely_passes_for_a_fall_and_a_fall_is_seen_through_noise():
    random = np.random.default_rng(0)
    lrs = [10.0 ** (i / 12 - 7) for i in range(100)]

    def suggested(fall):
        found = []
        for _ in range(200):
            curve = _Curve(window=5, diverge=4.0)
            for i, lr in enumerate(lrs):
                curve.add(lr, 10 - fall / (1 + np.exp(-(i - 50) / 5)) + random.normal())
            found.append(curve.result().steepest)
        return [lr for lr in found if lr is not None]

    assert len(suggested(0.0)) <= 10
    seen = suggested(4.0)
    assert len(seen) >= 190
    # The steepest place is step 50; the noise moves it by less than a decade in most sweeps.
    near = [lr for lr in seen if abs(np.log10(lr / lrs[50])) < 1.0]
    assert len(near) > 0.9 * len(seen)


def test_no_suggestion_if_the_first_loss_is_not_finite():
    model, _ = quadratic()

    def step(model, batch):
        return model.weight.sum() * float("inf")

    result = lr_range_test(model, step, torch.optim.SGD(model.parameters(), lr=0.1), [None])
    assert str(result) == "no suggestion: too few losses (stopped at lr 1e-07: the loss was inf)"
    assert result.table().splitlines()[1:] == []


def test_data_that_cannot_be_begun_again_ends_the_sweep():
    model, step = quadratic()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    result = lr_range_test(model, step, optimizer, (None for _ in range(40)), lr_min=0.01)
    assert len(result.losses) == 40
    assert result.stopped == "the data ended after 40 of 100 steps"
    assert result.smoothed[-1] < result.smoothed[0], "what there is of the curve falls"
    assert (result.steepest, result.tenth_of_lowest) == (None, None), "but larger rates were not tried"
    assert str(result) == (
        "no suggestion: the data ended after 40 of 100 steps, so that larger rates were not tried; give data that can "
        "be begun again, or steps=40"
    )
    assert "steepest" not in result.table()
    assert lr_range_test(model, step, optimizer, []).stopped == "the data ended after 0 of 100 steps"


@pytest.mark.parametrize(
    "loss", [nn.MSELoss(), functional.mse_loss, lambda model, b: functional.mse_loss(model(b[0]), b[1])]
)
def test_losses_of_torch_and_own_functions(loss):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    result = lr_range_test(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), batches(), steps=10)
    assert result.losses[0] == pytest.approx(functional.mse_loss(model(batches()[0][0]), batches()[0][1]).item())


def test_step_that_calls_backward_itself():
    model, step = quadratic()

    def own(model, batch):
        loss = step(model, batch)
        loss.backward()
        return loss.item()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    a = lr_range_test(model, own, optimizer, [None])
    b = lr_range_test(model, step, optimizer, [None])
    assert a == b


def test_average_is_not_taken_during_the_sweep():
    model, step = quadratic()
    average = WeightEma(torch.optim.SGD(model.parameters(), lr=0.1))
    lr_range_test(model, step, average, [None], steps=10)
    assert average.updates == 0
    average.eval()
    with pytest.raises(RuntimeError, match="eval mode"):
        lr_range_test(model, step, average, [None], steps=10)


def test_table_shows_the_rows_the_suggestions_come_from():
    lrs = [10.0 ** (i / 10 - 5) for i in range(50)]
    losses = [1.0] * 20 + [1.0 - 0.05 * i for i in range(15)] + [0.3 + 0.1 * i for i in range(15)]
    result = LrRangeResult(lrs, losses, losses, "all rates were tried", window=0)
    lines = result.table(rows=6).splitlines()
    assert lines[0].split() == ["lr", "loss", "smoothed"]
    assert len(lines) <= 1 + 6 + 2
    assert [line.split()[0] for line in lines if line.endswith("lowest")] == ["2.512e-02"]
    (steepest,) = [float(line.split()[0]) for line in lines if line.endswith("steepest")]
    assert steepest == pytest.approx(result.steepest, rel=1e-3)
    assert result.tenth_of_lowest == pytest.approx(lrs[34] / 10)


def test_plot_exists_only_with_matplotlib(tmp_path, monkeypatch):
    def loaded():
        """A second copy of the module, as it is imported now."""
        spec = importlib.util.spec_from_file_location("another_lr_range_test", inspect.getfile(LrRangeResult))
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module.LrRangeResult

    class Figure:
        def __init__(self):
            self.drawn = []

        def subplots(self):
            return self

        def savefig(self, path):
            pathlib.Path(path).write_text(", ".join(self.drawn))

        def __getattr__(self, name):
            return lambda *args, **kwargs: self.drawn.append(name)

    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        assert not hasattr(loaded(), "plot")
        patch.setattr(importlib.util, "find_spec", lambda name: object())
        patch.setitem(sys.modules, "matplotlib.figure", types.SimpleNamespace(Figure=Figure))
        falling = [8.0, 6.0, 4.0, 2.0]
        result = loaded()([0.1, 0.2, 0.3, 0.4], falling, falling, "", 0)
        result.plot(str(tmp_path / "lr.png"))
        assert result.plot().drawn == ["semilogx", "semilogx", "axvline", "axvline", "set", "legend"]
    assert (tmp_path / "lr.png").read_text() == "semilogx, semilogx, axvline, axvline, set, legend"
    assert [path.name for path in tmp_path.iterdir()] == ["lr.png"], "without a path no file is written"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": [1]}, TypeError, "model must be a torch.nn.Module, got list"),
        ({"loss_fn_or_step": 3}, TypeError, "loss_fn_or_step must be a loss or a function"),
        ({"optimizer": None}, TypeError, "optimizer must be a torch.optim.Optimizer, got NoneType"),
        ({"lr_min": 0}, ValueError, "lr_min must be > 0, got 0"),
        ({"lr_max": float("inf")}, ValueError, "lr_max must be finite and > 0, got inf"),
        ({"lr_min": 1, "lr_max": 0.5}, ValueError, "lr_max must be > lr_min = 1, got 0.5"),
        ({"steps": 4}, ValueError, "steps must be a whole number >= 5, got 4"),
        ({"window": -1}, ValueError, "window must be a whole number >= 0, got -1"),
        ({"diverge": 1}, ValueError, "diverge must be > 1, got 1"),
        (
            {"loss_fn_or_step": nn.MSELoss()},
            ValueError,
            r"batches that are pairs \(inputs, targets\), got NoneType",
        ),
        ({"loss_fn_or_step": lambda m, b: m.weight.detach().sum()}, ValueError, "without detach"),
        (
            {"loss_fn_or_step": lambda m, b: m.weight * torch.ones(2)},
            ValueError,
            r"one number, .* shape \(1, 2\)",
        ),
    ],
)
def test_bad_arguments(changes, error, message):
    model, step = quadratic()
    arguments = {
        "model": model,
        "loss_fn_or_step": step,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "data": [None],
    }
    with pytest.raises(error, match=message):
        lr_range_test(**{**arguments, **changes})
    assert model.weight.item() == 1.0
    assert model.weight.grad is None


def test_optimizer_without_a_rate():
    model, step = quadratic()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    del optimizer.param_groups[0]["lr"]
    with pytest.raises(ValueError, match="group 0 of SGD has no 'lr' to sweep"):
        lr_range_test(model, step, optimizer, [None])


def test_optimizer_whose_rate_follows_from_the_step_number():
    model, step = quadratic()
    optimizer = fallline.Adafactor(model.parameters(), variant="hf")
    with pytest.raises(ValueError, match=r"group 0 of Adafactor has lr=None.*relative_step=False"):
        lr_range_test(model, step, optimizer, [None])
