"""The messages between a race and its workers, and the one place that writes and reads them as JSON.

A race sends a request; a worker answers with events.  Every event but a last one waits for a reply, so that nothing
goes on before the race has stored what happened.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from fallline.race.clock.calibrated import Calibration
from fallline.race.contestants.contestant import Contestant

REACHED = "reached"
OVER_BUDGET = "over budget"
CENSORED = "censored"
DIVERGED = "diverged"
OUT_OF_MEMORY = "out of memory"
CRASHED = "crashed"
FAILED = "failed"
ENDED = "ended"
"""An equal-budget trial that used its budget; whether it reached the target on the way stands beside."""


class BadMessage(ValueError):
    """A message that neither side knows: the two run different versions."""


# ------------------------------------------------------------------ requests


@dataclasses.dataclass(frozen=True)
class WorkloadRequest:
    """A workload to load, and the fields to change in it."""

    spec: str
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Assignment:
    """Everything a worker needs for a trial."""

    trial: int
    contestant: Contestant
    point: Mapping[str, Any]
    seed: int
    max_steps: int
    """Also the length that schedules count on."""
    stop_at_target: bool
    checkpoint: str | None
    recorded: int = 0
    """The last step whose evaluation is in the results file."""
    save_every: float | None = None
    """Seconds between checkpoints; 0 saves at every evaluation, None as often as is cheap."""


@dataclasses.dataclass(frozen=True)
class Arm:
    """A contestant at one of its settings, whose steps are measured."""

    contestant: Contestant
    point: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class RunTrial:
    workload: WorkloadRequest
    task: Assignment


@dataclasses.dataclass(frozen=True)
class Calibrate:
    """Measure the steps of all arms side by side, in at most so many seconds."""

    workload: WorkloadRequest
    arms: Sequence[Arm]
    seconds: float


@dataclasses.dataclass(frozen=True)
class TimeSteps:
    """Take a few steps of one arm, for a plan."""

    workload: WorkloadRequest
    arm: Arm


@dataclasses.dataclass(frozen=True)
class Check:
    """Evaluate an untrained model."""

    workload: WorkloadRequest
    seed: int


Request = RunTrial | Calibrate | TimeSteps | Check


# ------------------------------------------------------------------ events


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """A trial was evaluated."""

    step: int
    value: float | None
    """None if it is not a number."""
    loss: float | None
    training: float
    """Seconds of training so far, and of evaluation."""
    evaluation: float = 0.0
    unsaved: str | None = None
    """Why its checkpoint could not be saved, if it could not."""


@dataclasses.dataclass(frozen=True)
class Notice:
    """A sentence for whoever watches the race."""

    text: str


@dataclasses.dataclass(frozen=True)
class End:
    """A trial has ended, or a request could not be answered."""

    status: str
    step: int | None = None
    training: float | None = None
    evaluation: float | None = None
    note: str | None = None

    @property
    def reason(self) -> str:
        """The first line of why it ended."""
        return (self.note or self.status).splitlines()[0]


@dataclasses.dataclass(frozen=True)
class Untrained:
    """The value of an untrained model, None if it is not a number, and the seconds that its evaluation took."""

    value: float | None
    seconds: float


@dataclasses.dataclass(frozen=True)
class QuickStepTime:
    step_seconds: float
    state_bytes: int
    peak_bytes: int | None


@dataclasses.dataclass(frozen=True)
class Lost:
    """The worker is gone: killed, or crashed below Python."""

    note: str


Event = Evaluation | Notice | End | Untrained | Calibration | QuickStepTime | Lost
WAITING = (Evaluation, Notice)
"""The events that wait for a reply."""


@dataclasses.dataclass(frozen=True)
class Reply:
    go_on: bool


GO_ON, STOP = Reply(True), Reply(False)


# ------------------------------------------------------------------ as lines of JSON

Message = Request | Event | Reply
_KINDS = {kind.__name__: kind for kind in typing.get_args(Message)}


def encode(message: Message) -> str:
    """One line."""
    return json.dumps({"kind": type(message).__name__, **dataclasses.asdict(message)})


def decode(line: str) -> Message:
    """The message of a line; one of an unknown kind, or with other fields, is an error."""
    try:
        data = json.loads(line)
        kind = data.pop("kind")
        if kind not in _KINDS:
            raise BadMessage(f"there is no message of kind {kind!r}; a race and its workers need the same fallline")
        return typing.cast(Message, _typed(_KINDS[kind], data))
    except (AttributeError, KeyError, TypeError, json.JSONDecodeError) as error:
        shown = line if len(line) < 200 else f"{line[:200]}…"
        raise BadMessage(f"not a message ({type(error).__name__}: {error}): {shown.strip()}") from None


def decode_request(line: str) -> Request:
    message = decode(line)
    if not isinstance(message, Request):
        raise BadMessage(f"a worker takes requests, got {type(message).__name__}")
    return message


def decode_event(line: str) -> Event:
    message = decode(line)
    if not isinstance(message, Event):
        raise BadMessage(f"a race takes events, got {type(message).__name__}")
    return message


def decode_reply(line: str) -> Reply:
    message = decode(line)
    if not isinstance(message, Reply):
        raise BadMessage(f"a trial takes replies, got {type(message).__name__}")
    return message


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _typed(hint: Any, data: Any) -> Any:
    """Plain data as the type that a field says: dataclasses, and sequences and mappings of them."""
    if dataclasses.is_dataclass(hint):
        hints = _hints(typing.cast(type, hint))
        return hint(**{name: _typed(hints[name], value) for name, value in data.items()})  # type: ignore[operator]
    arguments = [argument for argument in typing.get_args(hint) if dataclasses.is_dataclass(argument)]
    if not arguments:
        return data
    if typing.get_origin(hint) is collections.abc.Mapping:
        return {name: _typed(arguments[0], value) for name, value in data.items()}
    return tuple(_typed(arguments[0], value) for value in data)
