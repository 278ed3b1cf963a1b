"""Changes that save memory have their cost in seconds where one can be computed."""

from __future__ import annotations

import pytest

from fallline.footprint.measuring import measured_here
from fallline.footprint.prediction import Predictor
from fallline.footprint.remedies import remedies
from fallline.footprint.setting import Setting
from fallline.footprint.speed import LINK, Speed, lasting
from fallline.footprint.trainees import trainee

GPT = "gpt:layers=3,heads=2,width=64,context=48,vocabulary=300"


def test_recomputation_takes_the_seconds_of_its_operations() -> None:
    predictor = Predictor(trainee(GPT))
    base = predictor.predict(Setting(batch=8))
    again = predictor.predict(Setting(batch=8, checkpointing=True))
    found = {one.option: one for one in remedies(predictor, base, None, speed=Speed(1e9))}
    more = again.operations - base.operations
    assert 0.1 * base.operations < more < base.operations / 3
    assert found["--checkpointing"].seconds == pytest.approx(more / 1e9)
    assert f"{lasting(more / 1e9)} at 1 GFLOP/s" in found["--checkpointing"].cost


def test_links_take_the_seconds_of_their_bytes_and_nothing_else_has_a_number() -> None:
    predictor = Predictor(trainee(GPT))
    base = predictor.predict(Setting(batch=2))
    found = {one.option: one for one in remedies(predictor, base, None)}
    moved = base.optimizer.parameters + base.optimizer.gradients
    assert found["--offload"].seconds == moved / LINK
    assert found["--shard zero3 --ranks 8"].seconds == 3 * base.optimizer.gradients / LINK
    assert found["--state-dtype int8"].seconds is None
    assert all(one.cost for one in found.values())


def test_batches_that_are_added_up_count_each() -> None:
    predictor = Predictor(trainee(GPT))
    once = predictor.predict(Setting(batch=2, checkpointing=True))
    assert predictor.predict(Setting(batch=2, accumulation=3, checkpointing=True)).recomputed == 3 * once.recomputed
    assert predictor.at_batch(Setting(batch=2, checkpointing=True), 10).recomputed == 5 * once.recomputed


def test_time_is_taken_only_when_asked_for() -> None:
    model, setting = trainee(GPT), Predictor(trainee(GPT)).completed(Setting(batch=2))
    assert measured_here(model, setting).seconds is None
    assert (measured_here(model, setting, timed=True).seconds or 0) > 0
