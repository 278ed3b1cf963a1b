"""Command lines that make objects from dotted paths make our optimizers, and refuse what has a wrong type."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fallline


@pytest.fixture
def parser() -> Any:
    """As Lightning's command line takes an optimizer."""
    jsonargparse = pytest.importorskip("jsonargparse")
    pytest.importorskip("typeshed_client", reason="a part of jsonargparse[signatures]")
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(torch.optim.Optimizer, "optimizer", skip={"params"}, instantiate=False)
    return parser


def test_jsonargparse_reads_types_from_the_signature(parser: Any) -> None:
    given = parser.parse_args(
        ["--optimizer=fallline.AdamW", "--optimizer.lr=1e-4", "--optimizer.betas=[0.8, 0.9]", "--optimizer.clip_norm=1"]
    )
    settings = vars(given.optimizer.init_args)
    assert given.optimizer.class_path == "fallline.AdamW"
    assert (settings["lr"], settings["betas"], settings["clip_norm"]) == (1e-4, (0.8, 0.9), 1.0)
    assert settings["state_dtype"] == "float32"
    fallline.AdamW([torch.nn.Parameter(torch.ones(3))], **settings)


@pytest.mark.parametrize("wrong", ["lr=fast", "betas=[0.8]", "state_dtype=int7", "fused=maybe", "momentum=0.9"])
def test_jsonargparse_refuses_what_the_class_does_not_take(parser: Any, wrong: str) -> None:
    jsonargparse = pytest.importorskip("jsonargparse")
    with pytest.raises(jsonargparse.ArgumentError, match=wrong.split("=")[0]):
        parser.parse_args(["--optimizer=fallline.AdamW", f"--optimizer.{wrong}"])


def test_hydra_instantiates_a_target() -> None:
    utils = pytest.importorskip("hydra.utils")
    settings = {"_target_": "fallline.Lion", "_convert_": "all", "lr": 1e-4, "betas": [0.8, 0.9]}
    opt = utils.instantiate(settings, params=[torch.nn.Parameter(torch.ones(3))])
    assert type(opt) is fallline.Lion
    assert (opt.param_groups[0]["lr"], opt.param_groups[0]["betas"]) == (1e-4, [0.8, 0.9])
