"""A task to train on: a model, batches, a loss, a validation metric, a target and a budget.

A run is made of four calls, and nothing else decides its curve::

    model = workload.new_model(seed)
    for step in range(workload.max_steps):
        loss = workload.training_loss(model, step, seed)
        ...                                              # backward, optimizer step, zero_grad
        if step + 1 in workload.evaluation_steps():
            value = workload.validate(model)
            if workload.reached(value): break

Steps are counted from 0.  Batches are functions of (step, seed), and so is all randomness inside the loss: a run that
goes on from the states of model and optimizer after k steps has the same curve as one that was never stopped.

A workload may also give ``batches``, a ``DataLoader`` or another iterable, or ``train``, a function that takes the
steps itself.  Such a run repeats as exactly as the iterable or the function does; ``batches.py`` says what is seeded.
"""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from fallline.workloads.batches import Batches, ByStep, InOrder, NoBatches, Reader, is_read_once
from fallline.workloads.errors import WorkloadError, raised
from fallline.workloads.seeding import mixed, seed_torch

LOWER, HIGHER = "lower", "higher"
MOST_STEPS = 10**12
"""More than anybody trains, and few enough for a results file also with the longer budget of self-tuning."""


@dataclasses.dataclass(frozen=True)
class About:
    """A workload in the table of workloads, in a few words each."""

    task: str = "–"
    model: str = "–"
    loss: str = "–"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """A task to race optimizers on; see the module's text for how a run uses it.

    The callables are given by whoever writes the workload.  The trainer calls the methods, which also set the modes of
    the model and the random numbers.

    Where batches come from is one of three: ``batch``, a function of (step, seed), with which a training goes on
    exactly after an interruption; ``batches``, an iterable, which is then read again from its start; or ``train``, a
    training function of your own.
    """

    name: str
    model: Callable[[int], nn.Module]
    """seed → a new model.  torch's generator is seeded before it is called."""
    batch: Callable[[int, int], Any] | None = None
    """(step, seed) → the batch of that step: a function of the two, without memory; see ``minibatch``."""
    batches: Batches | None = None
    """Batches in order: a ``DataLoader``, a list or another iterable that can be begun again, or seed → an iterable.
    It is begun again where it ends, and made anew for every training where it is a function."""
    train: Callable[[Any, Any, range, int], Any] | None = None
    """(model, optimizer, steps, seed) → the last loss, or None: takes the steps of the range itself, calling
    ``optimizer.step()`` once for each of them.  The rate is set before every step, and torch's generator is seeded by
    (seed, first step) before every call; one call lasts until the next evaluation."""
    loss: Callable[[Any, Any], Tensor] | None = None
    """(model, batch) → the training loss.  torch's generator is seeded by (seed, step) before it is called."""
    evaluate: Callable[[Any], float]
    """model → the validation metric; called in eval mode without gradients."""
    metric: str
    """The metric's name."""
    max_steps: int
    """The budget in steps, and the length that schedules may count on.  Targets are set in two thirds of it."""
    direction: str = LOWER
    """Is "lower" or "higher" the better value of the metric."""
    target: float | None = None
    """The value to reach; None: whoever races says, for instance what a baseline reaches."""
    eval_every: int | None = None
    """Steps between evaluations; None: thirty evaluations in the budget."""
    data_name: str = "data of your own"
    """Which data is really used, for every result."""
    about: About = About()
    tokens: Callable[[Any], tuple[int, int]] | None = None
    """batch → tokens that are learned from, and all positions that are computed, padding included; None: no tokens."""
    sampled_loss: Callable[[Any, Any], Tensor] | None = None
    """(model, batch) → the loss on labels drawn from the model's own output, for optimizers that estimate curvature."""

    def __post_init__(self) -> None:
        self._check_source()
        for field in ("model", "evaluate", "loss") if self.train is None else ("model", "evaluate"):
            if not callable(getattr(self, field)):
                raise TypeError(f"{field} must be a function, got {getattr(self, field)!r}")
        for field in ("name", "metric", "data_name"):
            if not isinstance(getattr(self, field), str):
                raise TypeError(f"{field} must be text, got {getattr(self, field)!r}")
        if self.direction not in (LOWER, HIGHER):
            raise ValueError(f'direction must be "{LOWER}" or "{HIGHER}", got {self.direction!r}')
        for field in ("max_steps", "eval_every"):
            if field == "eval_every" and self.eval_every is None:
                object.__setattr__(self, "eval_every", max(1, self.max_steps // 30))
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{field} must be a whole number >= 1, got {value!r}")
            if value > MOST_STEPS:
                raise ValueError(f"{field} must be at most {MOST_STEPS:,}, got {value:,}")
        if self.target is not None:
            target = _number(self.target)
            if target is None or not math.isfinite(target):
                raise ValueError(f"target must be a finite number or None, got {self.target!r}")
            # Also where it was numpy's or a tensor, which a results file cannot hold.
            object.__setattr__(self, "target", target)

    def _check_source(self) -> None:
        """Exactly one of the three ways to get at batches."""
        given = [field for field in ("batch", "batches", "train") if getattr(self, field) is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none of them"
            raise TypeError(f"give one of batch (step, seed → batch), batches (an iterable) and train, got {got}")
        if given != ["batches"] and not callable(getattr(self, given[0])):
            raise TypeError(f"{given[0]} must be a function, got {getattr(self, given[0])!r}")
        if self.train is not None and self.loss is not None:
            raise TypeError("loss is not called where train takes the steps; leave one of them out")
        if self.batches is None or callable(self.batches):
            return
        if not isinstance(self.batches, Iterable):
            raise TypeError(f"batches must be an iterable or a function of the seed, got {self.batches!r}")
        if is_read_once(self.batches):
            raise TypeError(
                f"batches must be an iterable that can be begun again, got {type(self.batches).__name__}, which is "
                "read once; give seed → an iterable, for instance the function that makes it"
            )

    # ------------------------------------------------------------------ a run

    @property
    def goes_on_exactly(self) -> bool:
        """Whether a training that was interrupted needs nothing but its checkpoint to go on."""
        return self.batch is not None

    def new_model(self, seed: int) -> nn.Module:
        """The model before its first step, in training mode."""
        seed_torch(mixed(seed, "model"))
        made = self._called(f"model({seed})", self.model, seed)
        if not isinstance(made, nn.Module):
            remedy = "call the class" if isinstance(made, type) else "return a torch.nn.Module"
            raise self._unusable(f"model({seed})", made, remedy)
        return made.train()

    def reader(self, seed: int) -> Reader:
        """Reads the batches of one training."""
        return _Reading(self, seed)

    def training_loss(self, model: nn.Module, step: int, seed: int) -> Tensor:
        """The loss of one step, to be differentiated; dropout is drawn from (seed, step) alone."""
        return self.loss_of(model, self.reader(seed).batch(step), step, seed)

    def loss_of(self, model: nn.Module, batch: Any, step: int, seed: int) -> Tensor:
        """The loss of a batch, to be differentiated; dropout is drawn from (seed, step) alone."""
        assert self.loss is not None
        seed_torch(mixed(seed, "step", step))
        loss = self._called("loss(model, batch)", self.loss, model, batch)
        if not isinstance(loss, Tensor):
            raise self._unusable("loss(model, batch)", loss, "return the loss as a tensor, without .item()")
        if loss.numel() != 1:
            raise self._unusable("loss(model, batch)", loss, "return one number, for instance its .mean()")
        if not loss.requires_grad:
            remedy = "compute it from the model's parameters, without .detach() or no_grad"
            raise self._unusable("loss(model, batch)", loss, remedy)
        return loss

    def train_steps(self, model: nn.Module, optimizer: torch.optim.Optimizer, steps: range, seed: int) -> float:
        """Takes steps with the user's own function; returns the loss that it returned, NaN if it returned none."""
        assert self.train is not None
        seed_torch(mixed(seed, "train", steps.start))
        call = f"train(model, optimizer, {steps}, {seed})"
        loss = self._called(call, self.train, model, optimizer, steps, seed)
        if loss is None:
            return math.nan
        number = _number(loss.detach() if isinstance(loss, Tensor) else loss)
        if number is None:
            raise self._unusable(call, loss, "return the last loss as one number, or nothing")
        return number

    def validate(self, model: nn.Module) -> float:
        """The validation metric; afterwards the model is in training mode again."""
        model.eval()
        try:
            with torch.no_grad():
                value = self._called("evaluate(model)", self.evaluate, model)
                number = _number(value)
        finally:
            model.train()
        if number is None:
            raise self._unusable("evaluate(model)", value, f"return the {self.metric} as one number")
        return number

    def _called(self, call: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function of the user's; an error in it says where it was."""
        try:
            return function(*arguments)
        except (MemoryError, WorkloadError):
            raise  # the first is no mistake of the workload's, the second says where it was
        except NoBatches as error:
            raise WorkloadError(f"{self.name}: {error}") from None
        except (Exception, SystemExit) as error:
            raise raised(f"{self.name}: {call}", error) from error

    def _unusable(self, call: str, value: Any, remedy: str) -> WorkloadError:
        return WorkloadError(f"{self.name}: {call} returned {_in_words(value)}; {remedy}")

    def evaluation_steps(self) -> range:
        """After how many steps to evaluate: the same for every seed and contestant."""
        assert self.eval_every is not None
        return range(self.eval_every, self.max_steps + 1, self.eval_every)

    # ------------------------------------------------------------------ values

    def is_better(self, value: float, than: float) -> bool:
        """NaN is better than nothing, and everything else is better than NaN."""
        if math.isnan(value) or math.isnan(than):
            return math.isnan(than) and not math.isnan(value)
        return value < than if self.direction == LOWER else value > than

    def reached(self, value: float) -> bool:
        """Is the target met?  NaN meets none."""
        if self.target is None:
            return False
        return value <= self.target if self.direction == LOWER else value >= self.target

    def replace(self, **changes: Any) -> Workload:
        """The same workload with other fields, for instance another target."""
        return dataclasses.replace(self, **changes)


class _Reading:
    """Names the call that gave no batch."""

    def __init__(self, workload: Workload, seed: int):
        self._workload, self._seed = workload, seed
        self._reader: Reader
        if workload.batch is not None:
            self._reader = ByStep(workload.batch, seed)
        elif workload.batches is not None:
            self._reader = InOrder(workload.batches, seed)
        else:
            raise WorkloadError(f"{workload.name}: train takes the steps, there are no batches to read")
        self._name = f"batch({{}}, {seed})" if workload.batch is not None else "reading batches at step {}"

    def batch(self, step: int) -> Any:
        return self._workload._called(self._name.format(step), self._reader.batch, step)

    def skip_to(self, step: int) -> None:
        self._workload._called(self._name.format(step), self._reader.skip_to, step)


def _number(value: Any) -> float | None:
    """A number, or a tensor or array that holds one, as a float; None of anything else."""
    try:
        value = value.item() if hasattr(value, "item") else value
        return None if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def _in_words(value: Any) -> str:
    if isinstance(value, Tensor):
        lacks = "" if value.requires_grad or value.numel() != 1 else " without a gradient"
        return f"a tensor of shape {tuple(value.shape)}{lacks}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, int | float | str):
        return textwrap.shorten(repr(value), 60)
    return f"a value of type {type(value).__name__}"
