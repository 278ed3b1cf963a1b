"""The promises of every built-in workload to a race."""

from __future__ import annotations

import copy
import functools
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import fallline
from fallline.race.contestants import named
from fallline.race.engine.messages import GO_ON, Assignment, Evaluation
from fallline.race.engine.trial import run_trial
from fallline.workloads import ALGOPERF, BUILT_IN, HELD_OUT, Workload, load

EVERY = pytest.mark.parametrize("name", BUILT_IN)

PARAMETERS = {
    "clicks": 370_905,
    "mri": 29_161,
    "images_resnet": 77_754,
    "images_vit": 88_458,
    "speech_conformer": 115_646,
    "speech_deepspeech": 146_190,
    "graphs": 70_824,
    "translation": 151_920,
    "chars": 116_608,
    "fashion_mlp": 79_510,
    "quadratic_deep": 100,
    "rosenbrock": 2,
    "clicks_embed_init": 370_905,
    "mri_tanh": 29_161,
    "images_resnet_large_bn_init": 77_754,
    "speech_conformer_layernorm": 115_454,
    "graphs_model_size": 136_152,
    "translation_glu_tanh": 189_552,
}

load_once = functools.cache(load)


def optimizer_of(model: torch.nn.Module) -> torch.optim.Optimizer:
    return fallline.create("adamw", model, lr=1e-3)


def losses(
    workload: Workload, model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: range, seed: int
) -> list[float]:
    found = []
    for step in steps:
        loss = workload.training_loss(model, step, seed)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def tensors_in(batch: Any) -> list[torch.Tensor]:
    if batch is None:
        return []
    return [batch] if isinstance(batch, torch.Tensor) else list(batch)


@EVERY
def test_a_run_continued_from_its_states_has_the_same_curve(name: str) -> None:
    workload, seed = load_once(name), 3
    model = workload.new_model(seed)
    optimizer = optimizer_of(model)
    start = losses(workload, model, optimizer, range(2), seed)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    torch.manual_seed(0)  # what others do with the generator must not matter
    whole = losses(workload, model, optimizer, range(2, 4), seed)

    again = workload.new_model(seed)
    other = optimizer_of(again)
    torch.manual_seed(1)
    again.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    assert losses(workload, again, other, range(2, 4), seed) == whole
    assert all(map(math.isfinite, start + whole))


@EVERY
def test_a_trial_that_goes_on_from_its_checkpoint_file_has_the_same_curve(name: str, tmp_path: Path) -> None:
    def state(model: torch.nn.Module) -> float:
        """Cheaper than the metric, and of every weight and buffer."""
        return sum(value.double().sum().item() for value in model.state_dict().values())

    workload = load_once(name).replace(evaluate=state, eval_every=1, max_steps=4, target=None)
    contestant = named("adamw")
    point = contestant.trial_points(trials=1, study=0, seed=1, tuned=False)[0]

    def events(killed_after: int, recorded: int, file: Path) -> list[tuple[float | None, float | None]]:
        """(value, loss) of the evaluations before the process is killed."""
        run = run_trial(workload, Assignment(1, contestant, point, 5, 4, True, str(file), recorded, 0.0))
        found = [next(run), *(run.send(GO_ON) for _ in range(killed_after - 1))]
        return [(event.value, event.loss) for event in found if isinstance(event, Evaluation)]

    whole = events(4, 0, tmp_path / "whole.pt")
    first = events(2, 0, tmp_path / "killed.pt")
    torch.manual_seed(1)  # another process has another generator
    assert first + events(2, 2, tmp_path / "killed.pt") == whole
    assert torch.load(tmp_path / "killed.pt", weights_only=True)["step"] == 4, "it did not begin anew"


@EVERY
def test_batches_are_functions_of_step_and_seed(name: str) -> None:
    workload = load_once(name)
    first, again = tensors_in(workload.batch(5, 1)), tensors_in(workload.batch(5, 1))
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(first, again, strict=True))
    if name == "rosenbrock":
        return
    for step, seed in ((6, 1), (5, 2)):
        other = tensors_in(workload.batch(step, seed))
        assert any(not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(first, other, strict=True))


@EVERY
def test_seeds_decide_where_a_model_starts(name: str) -> None:
    workload = load_once(name)
    models = [workload.new_model(seed) for seed in (0, 0, 1)]
    first, same, other = (torch.cat([p.flatten() for p in model.parameters()]) for model in models)
    assert torch.equal(first, same)
    # The quadratic starts where the published one starts, whatever the seed.
    assert torch.equal(first, other) == (name == "quadratic_deep")
    assert len(first) == PARAMETERS[name]


@EVERY
def test_evaluation_repeats_and_leaves_the_model_as_it_was(name: str) -> None:
    workload = load_once(name)
    model = workload.new_model(0)
    before = copy.deepcopy(model.state_dict())
    values = workload.validate(model), workload.validate(model)
    assert values[0] == values[1] and math.isfinite(values[0])
    assert model.training
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert not workload.reached(values[0]), "the target is met before the first step"


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name not in ("rosenbrock", "quadratic_deep")])
def test_a_few_steps_lower_the_loss(name: str) -> None:
    workload = load_once(name)
    model = workload.new_model(0)
    before = [workload.loss(model, workload.batch(step, 0)).item() for step in range(2)]
    losses(workload, model, fallline.create("adamw", model, lr=3e-3), range(12), seed=0)
    after = [workload.loss(model, workload.batch(step, 0)).item() for step in range(2)]
    assert sum(after) < sum(before)


@EVERY
def test_descriptions_are_complete(name: str) -> None:
    workload = load_once(name)
    assert workload.name == name
    about = workload.about
    assert all(text not in ("", "–") for text in (about.task, about.model, about.loss))
    higher = {"SSIM", "mAP", "BLEU"}
    assert workload.direction == ("higher" if workload.metric in higher else "lower")
    assert len(workload.evaluation_steps()) >= 20
    assert workload.evaluation_steps()[-1] <= workload.max_steps
    assert re.match("([0-9,]+ )?generated|Python sources|DeepOBS|none", workload.data_name)


def test_the_eight_and_the_six() -> None:
    assert len(ALGOPERF) == 8 and len(HELD_OUT) == 6
    assert set(HELD_OUT.values()) <= set(ALGOPERF)
    metrics = [load_once(name).metric for name in ALGOPERF]
    assert metrics == ["cross-entropy", "SSIM", "error rate", "error rate", "WER", "WER", "mAP", "BLEU"]
    for variant, base in HELD_OUT.items():
        assert load_once(variant).metric == load_once(base).metric
