"""Messages between a race and its workers come back as they were sent, and unknown ones are errors."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest

from fallline.race.clock.calibrated import Calibrated, Calibration
from fallline.race.clock.sessions import Rounds, Session
from fallline.race.contestants import named
from fallline.race.engine import worker
from fallline.race.engine.messages import (
    GO_ON,
    STOP,
    Arm,
    Assignment,
    BadMessage,
    Calibrate,
    Check,
    End,
    Evaluation,
    Lost,
    Message,
    Notice,
    QuickStepTime,
    RunTrial,
    TimeSteps,
    Untrained,
    WorkloadRequest,
    decode,
    decode_event,
    decode_reply,
    decode_request,
    encode,
)
from fallline.race.engine.worker import Desk, die_with_parent
from fallline.workloads import loading

CHARS = WorkloadRequest("chars", {"target": 1.5})
ADAMW = named("adamw")
TASK = Assignment(7, ADAMW, ADAMW.one_setting(), 5, 60, True, "1.pt", 10, 0.0)
REQUESTS: list[Message] = [
    RunTrial(CHARS, TASK),
    Calibrate(CHARS, (Arm(ADAMW, {"lr": 0.1}), Arm(named("lion"), {})), 2.5),
    TimeSteps(CHARS, Arm(named("algoperf_amos"), {"style": "adam"})),
    Check(CHARS, 3),
]
SESSION = Session({"adamw": Rounds([0.5, 0.4], [0.3, 0.2])}, {"adamw": Rounds([0.1, 0.1], [])}, "other threads")
EVENTS: list[Message] = [
    Evaluation(10, 0.5, None, 1.25, 0.5, "the disk is full"),
    Notice("a sentence"),
    End("crashed", note="KeyError\nTraceback"),
    Untrained(None, 0.1),
    Calibration({"adamw": Calibrated(0.5, 0.4, 0.6, 0.0, 8, 4, None)}, SESSION, "at the time limit"),
    QuickStepTime(0.1, 1000, 10**9),
    Lost("the worker was killed by signal 9"),
]


@pytest.mark.parametrize("message", [*REQUESTS, *EVENTS, GO_ON, STOP], ids=lambda message: type(message).__name__)
def test_a_message_comes_back_as_it_was_sent(message: Message) -> None:
    line = encode(message)
    assert "\n" not in line
    again = decode(line)
    assert type(again) is type(message) and encode(again) == line
    if isinstance(again, RunTrial):
        assert again.task.contestant.definition() == ADAMW.definition() and again.workload == CHARS
    if isinstance(again, Calibration):
        assert again == message, "costs are not plain tables"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"kind": "Glance"}', "there is no message of kind 'Glance'; a race and its workers need the same fallline"),
        ('{"do": "check"}', "not a message (KeyError: 'kind')"),
        ('{"kind": "Check", "seed": 0}', "not a message (TypeError"),
        ('{"kind": "Check", "workload": {"spec": "a", "changes": {}}, "seed": 0, "more": 1}', "not a message (KeyErr"),
        ("[1, 2]", "not a message (TypeError"),
        ("no JSON", "not a message (JSONDecodeError"),
    ],
)
def test_an_unknown_message_is_an_error_of_one_line(line: str, said: str) -> None:
    with pytest.raises(BadMessage, match=re.escape(said)) as error:
        decode(line)
    assert "\n" not in str(error.value)


def test_neither_side_takes_the_other_sides_messages() -> None:
    for decoder, wrong in ((decode_request, EVENTS[0]), (decode_event, REQUESTS[0]), (decode_reply, REQUESTS[0])):
        with pytest.raises(BadMessage, match=f"got {type(wrong).__name__}"):
            decoder(encode(wrong))  # type: ignore[operator]


def test_each_desk_loads_a_workload_once_and_changes_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, real = [], loading.load
    monkeypatch.setattr(loading, "load", lambda spec, sizes: (loaded.append(spec), real(spec, sizes))[1])
    desk = Desk()
    for target in (None, 1.0, None):
        changes = {} if target is None else {"target": target}
        (event,) = desk.answer(Check(WorkloadRequest("rosenbrock", changes), 0))
        assert isinstance(event, Untrained)
    assert loaded == ["rosenbrock"]
    list(Desk().answer(Check(WorkloadRequest("rosenbrock"), 0)))
    assert loaded == ["rosenbrock"] * 2, "another desk shares nothing with it"


def test_a_worker_whose_race_has_died_before_it_could_ask_for_the_signal_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.ctypes, "CDLL", lambda name: object())  # pytest itself must not get the signal
    die_with_parent(os.getppid())
    with pytest.raises(SystemExit, match="the race that started this worker has ended"):
        die_with_parent(os.getppid() + 1)


def test_messages_are_plain_json() -> None:
    assert json.loads(encode(GO_ON)) == {"kind": "Reply", "go_on": True}
    assert sys.getsizeof(encode(EVENTS[0])) < 1000
