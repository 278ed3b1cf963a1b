"""Arms by name: nicknames, implementations, settings, users' files, hybrids; typos name the nearest."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from fallline.memory import memory_of
from fallline.profile.arms import DEFAULT, BadArm, arm_of, arms_of, matching
from fallline.workloads.gpt import model

MINE = """
import torch
class Mine(torch.optim.SGD):
    def __init__(self, params, lr=1e-2):
        super().__init__(params, lr=lr)
"""


def small() -> torch.nn.Module:
    return model("tiny", layers=1, width=64, heads=2)


def test_the_default_arms_all_step() -> None:
    torch.manual_seed(0)
    for arm in arms_of([",".join(DEFAULT)]):
        made = small()
        optimizer = arm.prepare(made, total_steps=20)
        before = [param.clone() for param in made.parameters()]
        for _ in range(2):
            made(torch.randint(256, (1, 8))).sum().backward()
            optimizer.set_rates(5)
            optimizer.step()
        assert any(not torch.equal(one, other) for one, other in zip(before, made.parameters(), strict=True)), arm.label


def test_fusedadam_is_torchs_own_with_the_groups_of_a_model() -> None:
    optimizer = arm_of("torch-fused:adamw[lr=1e-4]").prepare(small(), 10).optimizer
    assert type(optimizer) is torch.optim.AdamW
    assert [group["weight_decay"] > 0 for group in optimizer.param_groups] == [True, False]
    assert {group["lr"] for group in optimizer.param_groups} == {1e-4}
    assert type(arm_of("fusedadam").prepare(small(), 10).optimizer) is torch.optim.Adam


def test_settings_labels_and_files(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    first, second, third = arms_of(["adamw[lr=1e-4,eps=1e-6],twin=adamw", f"{tmp_path}/mine.py:Mine"])
    assert (first.label, first.settings["lr"]) == ("adamw[lr=1e-4,eps=1e-6]", 1e-4)
    assert (second.label, second.optimizer) == ("twin", "adamw")
    assert third.label == "mine"
    assert arm_of("adamw", lr=7e-4).settings["lr"] == 7e-4
    assert arm_of("adamw[lr=1e-4]", lr=7e-4).settings["lr"] == 1e-4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("adamq", "no optimizer 'adamq'; did you mean adam"),
        ("fusedadma", "did you mean fusedadam"),
        ("torch-fussed:adamw", "no implementation 'torch-fussed'; did you mean torch-fused"),
        ("bitsandbytes", "name one, for instance bitsandbytes:adamw"),
        ("adamw[lrr=1]", "has no setting 'lrr'"),
        ("adamw[lr]", r"settings such as \[lr=1e-4\]"),
        ("adamw[schedule=linear]", "no schedule 'linear'"),
        ("adamw,adamw", "named twice"),
        ("adamw,,lion", "empty name"),
    ],
)
def test_a_wrong_name_is_one_clear_line(text: str, words: str) -> None:
    with pytest.raises(BadArm, match=words):
        arms_of([text])


def test_a_hybrid_keeps_some_states_in_full() -> None:
    arm = dataclasses.replace(arm_of("adamw8bit"), full=("tokens*",))
    made = small()
    assert matching(arm.full, made) == ["tokens.weight"]
    hybrid, plain = (one.prepare(made, 10).optimizer for one in (arm, arm_of("adamw8bit")))
    full = 2 * 4 * made.tokens.weight.numel()
    sizes = [memory_of(optimizer).states["exp_avg"]["float32"] for optimizer in (hybrid, plain)]  # type: ignore[arg-type]
    assert sizes[0] - sizes[1] == full // 2
    with pytest.raises(BadArm, match=r"no parameter has such a name; there are tokens\.weight"):
        matching(("nothing*",), made)


def test_adafactor_can_keep_its_second_moments_decay() -> None:
    torch.manual_seed(0)
    made = small()
    optimizer = arm_of("adafactor[beta2=0.99]").prepare(made, total_steps=20).optimizer
    for number in range(1, 5):
        made(torch.randint(256, (1, 8))).sum().backward()
        optimizer.step()
        decay = optimizer.param_groups[0]["beta2_decay"]
        if number > 1:
            assert 1 - number**decay == pytest.approx(0.99)
