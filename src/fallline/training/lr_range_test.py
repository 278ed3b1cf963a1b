"""The LR range test: which learning rates make this model's loss fall, found in one short sweep.

The rate grows exponentially from step to step.  Where it is too small the loss stands still, then it falls,
then it diverges; good rates lie where it falls fastest.  Everything is put back afterwards: weights, buffers,
gradients, the optimizer's states and settings, and the random number generators.

References:
    Smith 2017, Cyclical learning rates for training neural networks (arXiv 1506.01186), section 3.3.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from fallline.averaging.wrapper import Averaging
from fallline.rules.annotations import Range, positive
from fallline.training.loop import Loop
from fallline.training.put_back import put_back
from fallline.training.scheduled_optimizer import ScheduledOptimizer

_steps = Range("a whole number >= 5", lambda x: x >= 5 and x.is_integer())
_window = Range("a whole number >= 0", lambda x: x >= 0 and x.is_integer())
_diverging = Range("> 1", lambda x: x > 1)


@dataclasses.dataclass(frozen=True)
class LrRangeResult:
    """The result of a sweep.  ``print(result)`` says what follows from it, or that nothing does."""

    lrs: list[float]
    losses: list[float]
    """The loss of each batch, before the update at the rate beside it."""
    smoothed: list[float]
    """Their means over ``window`` steps to either side: a running mean lags, and names too large rates."""
    stopped: str
    """Why the sweep ended."""
    window: int
    untried: str | None = None
    """Why a part of the range was not tried, although the loss did not diverge; None if all of it was."""

    @property
    def lowest(self) -> int:
        """Where the smoothed loss is lowest."""
        return min(range(len(self.smoothed)), key=self.smoothed.__getitem__)

    @property
    def reason(self) -> str | None:
        """Why there is no suggestion; None if there is one."""
        if self.untried is not None:
            return self.untried
        if len(self.smoothed) < 3:
            return "too few losses"
        fall = self.smoothed[0] - self.smoothed[self.lowest]
        if fall <= 0:
            return "loss never fell"
        if fall < (needed := self._fall_of_noise()):
            return f"loss fell by {fall:.2g}, noise between batches alone by up to {needed:.2g}"
        return None

    def _fall_of_noise(self) -> float:
        """How far smoothed losses of nothing but noise fall in one sweep of fifty, by simulation; the
        same for any number of steps.  The noise is seen in second differences: no slope enters those."""
        x = self.losses
        bends = [abs(x[i - 1] - 2 * x[i] + x[i + 1]) for i in range(1, len(x) - 1)]
        deviation = statistics.median(bends) / (0.6745 * math.sqrt(6))
        return 5.5 * deviation / math.sqrt(2 * self.window + 1)

    @property
    def steepest(self) -> float | None:
        """The rate at which the smoothed loss falls fastest over the logarithm of the rate."""
        if self.reason is not None:
            return None
        half = max(1, min(self.window, self.lowest // 2))
        middles = range(half, max(self.lowest - half, half) + 1)
        return self.lrs[min(middles, key=lambda i: self.smoothed[i + half] - self.smoothed[i - half])]

    @property
    def tenth_of_lowest(self) -> float | None:
        """A tenth of the rate at which the smoothed loss is lowest."""
        return None if self.reason is not None else self.lrs[self.lowest] / 10

    def table(self, rows: int = 20) -> str:
        """Rates and losses, at most so many rows, evenly spaced, with those the suggestions come from."""
        n = len(self.lrs)
        shown = {round(i * (n - 1) / max(rows - 1, 1)) for i in range(min(rows, n))} if n else set()
        marks = {}
        if self.reason is None:
            marks = {self.lowest: "lowest"}
            marks[self.lrs.index(self.steepest)] = "steepest"  # type: ignore[arg-type]
        lines = [f"{'lr':>10}  {'loss':>10}  {'smoothed':>10}"]
        for i in sorted(shown | set(marks)):
            numbers = f"{self.lrs[i]:>10.3e}  {self.losses[i]:>10.4g}  {self.smoothed[i]:>10.4g}"
            lines.append(f"{numbers}  {marks.get(i, '')}".rstrip())
        return "\n".join(lines)

    def __str__(self) -> str:
        if self.untried is not None:
            return f"no suggestion: {self.untried}"
        if self.reason is not None:
            return f"no suggestion: {self.reason} ({self.stopped})"
        text = f"steepest descent at lr {self.steepest:.2g}; a tenth of the lr of the lowest loss is "
        text += f"{self.tenth_of_lowest:.2g} ({self.stopped})"
        if self.lowest == len(self.lrs) - 1:
            text += "; the loss was still falling at the last rate tried: raise lr_max"
        return text

    if importlib.util.find_spec("matplotlib") is not None:

        def plot(self, path: str | None = None) -> Any:
            """Losses over rates as a matplotlib figure, which a notebook shows; also into a file if one is named."""
            figure = importlib.import_module("matplotlib.figure").Figure()
            axes = figure.subplots()
            axes.semilogx(self.lrs, self.losses, alpha=0.3, label="loss")
            axes.semilogx(self.lrs, self.smoothed, label="smoothed")
            if self.steepest is not None:
                axes.axvline(self.steepest, linestyle=":", label=f"steepest, {self.steepest:.2g}")
                axes.axvline(self.tenth_of_lowest, linestyle="--", label=f"lowest / 10, {self.tenth_of_lowest:.2g}")
            axes.set(xlabel="learning rate", ylabel="loss")
            axes.legend()
            if path is not None:
                figure.savefig(path)
            return figure


def lr_range_test(
    model: nn.Module,
    loss_fn_or_step: Callable[..., Any],
    optimizer: torch.optim.Optimizer,
    data: Iterable[Any],
    lr_min: float = 1e-7,
    lr_max: float = 10,
    steps: int = 100,
    *,
    window: int | None = None,
    diverge: float = 4.0,
) -> LrRangeResult:
    """Sweeps the learning rate from lr_min to lr_max and says where the loss falls.

    Arguments:
        model: trained during the sweep and then put back, in the mode (train or eval) it is in.
        loss_fn_or_step: a loss of torch (``nn.CrossEntropyLoss()``, ``F.mse_loss``), called with
            ``(model(inputs), targets)`` on batches that are pairs; or your own ``step(model, batch)`` that
            returns the loss.  It may call ``backward()`` itself, then it returns a number or a detached
            tensor; it does not step the optimizer.
        optimizer: of the kind to be used.  The first group whose rate is not 0 is swept, the others keep their ratio
            to it, so that one whose rate is 0 rests; if all are 0, as before a warm-up, all are swept.
        data: batches; begun again when they end.  A generator cannot be begun again: with fewer batches than
            ``steps`` there is no suggestion.
        lr_min, lr_max, steps: the sweep.
        window: losses are averaged over so many steps to either side; None: a twentieth of the steps.
        diverge: stop when the mean of recent losses is so many times its minimum.

    Example:
        >>> import torch, fallline
        >>> _ = torch.manual_seed(0)
        >>> x = torch.randn(64, 3)
        >>> batch = (x, x @ torch.tensor([[1.0], [-2.0], [0.5]]))
        >>> model = torch.nn.Linear(3, 1)
        >>> opt = fallline.SGD(model.parameters())
        >>> result = fallline.lr_range_test(model, torch.nn.MSELoss(), opt, [batch], lr_min=1e-5)
        >>> 0.01 < result.steepest < 1
        True
        >>> result.lrs[0], len(result.lrs) < 100  # it stopped when the loss diverged
        (1e-05, True)
    """
    optimizer = _checked(model, loss_fn_or_step, optimizer)
    positive.check("lr_min", lr_min)
    positive.check("lr_max", lr_max)
    if lr_max <= lr_min:
        raise ValueError(f"lr_max must be > lr_min = {lr_min:g}, got {lr_max:g}")
    _steps.check("steps", steps)
    window = int(steps) // 20 if window is None else window
    _window.check("window", window)
    steps, window = int(steps), int(window)
    _diverging.check("diverge", diverge)

    def rate(step: int, ratio: float = 1.0) -> float:
        lr: float = lr_min * (lr_max / lr_min) ** (step / (steps - 1))
        return lr * ratio

    curve = _Curve(window, diverge)
    with put_back(model, optimizer, data):
        for group, ratio in zip(optimizer.param_groups, _ratios(optimizer), strict=True):
            group["initial_lr"] = ratio
        sweep = _Sweep(loss_fn_or_step, optimizer, data)
        loop = Loop(sweep, model, ScheduledOptimizer(optimizer, rate))
        while loop.done < steps:
            try:
                loss = loop.gradients()
            except _DataEnded:
                curve.data_ended(loop.done, steps)
                break
            sweep.check_gradients()
            if not curve.add(rate(loop.done), float(loss.detach())):
                break
            loop.update()
    return curve.result()


class _Curve:
    """The losses so far, and whether to go on."""

    def __init__(self, window: int, diverge: float):
        self.window, self.diverge = window, diverge
        self.lrs: list[float] = []
        self.losses: list[float] = []
        self.best = math.inf
        self.stopped = "all rates were tried"
        self.untried: str | None = None

    def data_ended(self, done: int, steps: int) -> None:
        self.stopped = f"the data ended after {done} of {steps} steps"
        self.untried = (
            f"{self.stopped}, so that larger rates were not tried; give data that can be begun again, or steps={done}"
        )

    def add(self, lr: float, loss: float) -> bool:
        if not math.isfinite(loss):
            self.stopped = f"stopped at lr {lr:.2g}: the loss was {loss:g}"
            return False
        self.lrs.append(lr)
        self.losses.append(loss)
        recent = statistics.fmean(self.losses[-2 * self.window - 1 :])
        self.best = min(self.best, recent)
        # A hundredth of the first loss: near a loss of 0, four times the minimum is still no divergence.
        scale = max(abs(self.best), 0.01 * abs(self.losses[0]))
        if recent - self.best > (self.diverge - 1) * scale:
            self.stopped = f"stopped at lr {lr:.2g}: the loss diverged"
            return False
        return True

    def result(self) -> LrRangeResult:
        w = self.window
        smoothed = [statistics.fmean(self.losses[max(i - w, 0) : i + w + 1]) for i in range(len(self.losses))]
        return LrRangeResult(self.lrs, self.losses, smoothed, self.stopped, w, self.untried)


def _checked(model: Any, function: Any, optimizer: Any) -> torch.optim.Optimizer:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not callable(function):
        raise TypeError(f"loss_fn_or_step must be a loss or a function of (model, batch), got {function!r}")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
    if isinstance(optimizer, Averaging):
        # The sweep must not enter the average, and cannot begin from it.
        optimizer._refuse()
        optimizer = optimizer.optimizer
    for i, group in enumerate(optimizer.param_groups):
        if "lr" not in group:
            raise ValueError(f"group {i} of {type(optimizer).__name__} has no 'lr' to sweep")
        if group["lr"] is None:
            raise ValueError(
                f"group {i} of {type(optimizer).__name__} has lr=None, so its rate follows from the step number and "
                "there is none to sweep; make the optimizer with a number (Adafactor: relative_step=False, lr=1e-3)"
            )
    return optimizer


def _ratios(optimizer: torch.optim.Optimizer) -> list[float]:
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    swept = next((rate for rate in rates if rate), None)
    return [1.0 if swept is None else rate / swept for rate in rates]


class _DataEnded(Exception):
    """There are no more batches, and the data cannot be begun again."""


class _Sweep:
    """The user's batches and loss as the task of a loop."""

    def __init__(self, function: Any, optimizer: torch.optim.Optimizer, data: Iterable[Any]):
        self._function, self._optimizer = function, optimizer
        self._batches = _endless(data)

    def batch(self, step: int) -> Any:
        for batch in self._batches:
            return batch
        raise _DataEnded

    def loss(self, model: nn.Module, batch: Any, step: int) -> Tensor:
        function = self._function
        if isinstance(function, nn.Module) or getattr(function, "__module__", None) == "torch.nn.functional":
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise ValueError(
                    "a loss of torch needs batches that are pairs (inputs, targets), got "
                    f"{type(batch).__name__}; pass a function of (model, batch) that returns the loss"
                )
            loss = function(model(batch[0]), batch[1])
        else:
            loss = function(model, batch)
        if not isinstance(loss, Tensor):  # a number: the function has called backward() itself
            return torch.tensor(float(loss), dtype=torch.float64)
        if loss.numel() != 1:
            raise ValueError(f"the loss must be one number, got a tensor of shape {tuple(loss.shape)}")
        return loss

    def check_gradients(self) -> None:
        if not any(p.grad is not None for group in self._optimizer.param_groups for p in group["params"]):
            raise ValueError(
                "the loss gives no parameter of the optimizer a gradient; return it without detach(), or call "
                "backward()"
            )


def _endless(data: Iterable[Any]) -> Iterator[Any]:
    """Batches; begun again when they end, as long as that gives any."""
    found = True
    while found:
        found = False
        for batch in data:
            found = True
            yield batch
