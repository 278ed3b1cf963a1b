"""The prediction without memory equals the bytes of a real training."""

from __future__ import annotations

import resource
from typing import Any

import pytest
import torch
from torch import nn

from fallline.footprint.measuring import Measured, measured_here
from fallline.footprint.prediction import (
    FORWARD_BACKWARD,
    SCRATCH,
    STEP,
    Prediction,
    Predictor,
    optimizer_for,
    predicted_peak,
)
from fallline.footprint.setting import Setting
from fallline.footprint.trainees import Trainee, Unbuildable, trainee
from fallline.memory import memory_of
from fallline.workloads import load

GPT = "gpt:layers=3,heads=2,width=64,context=48,vocabulary=300"
LLAMA = "llama:layers=2,heads=4,kv_heads=2,width=64,hidden=96,context=32,vocabulary=200"
SETTINGS: list[dict[str, Any]] = [
    {},
    {"optimizer": "lion", "batch": 5},
    {"optimizer": "adafactor", "checkpointing": True},
    {"optimizer": "adamw8bit", "precision": "autocast"},
    {"precision": "mixed", "sequence": 17},
    {"precision": "bfloat16", "checkpointing": True, "batch": 2},
    {"accumulation": 3, "batch": 4},
    {"accumulation": 2, "checkpointing": True},
]


def both(spec: str, **changes: Any) -> tuple[Prediction, Measured]:
    model = trainee(spec)
    predicted = Predictor(model).predict(Setting(**changes))
    return predicted, measured_here(model, predicted.setting)


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
def test_a_gpt_holds_what_was_predicted(changes: dict[str, Any]) -> None:
    predicted, real = both(GPT, **changes)
    memory = predicted.optimizer
    assert (memory.parameters, memory.gradients, memory.optimizer) == (real.parameters, real.gradients, real.states)
    assert predicted.peak == pytest.approx(real.peak, rel=0.005)


@pytest.mark.parametrize("spec", [LLAMA, "fashion_mlp", "images_resnet", "images_vit", "clicks", "mri"])
def test_other_models_hold_what_was_predicted(spec: str) -> None:
    predicted, real = both(spec, batch=8)
    memory = predicted.optimizer
    assert (memory.parameters, memory.gradients, memory.optimizer) == (real.parameters, real.gradients, real.states)
    assert predicted.peak == pytest.approx(real.peak, rel=0.005)


def test_the_peak_may_be_in_the_step() -> None:
    """A matrix optimizer needs temporaries beside gradients and states."""
    spec = "gpt:layers=1,heads=1,width=64,context=4,vocabulary=4000"
    predicted, real = both(spec, batch=1, optimizer="soap")
    assert predicted.moment == STEP and predicted.at_peak["gradients"] > 0
    assert real.peak <= predicted.peak


@pytest.mark.parametrize(("batch", "moment"), [(1, STEP), (16, FORWARD_BACKWARD)])
def test_the_scratch_memory_of_matrix_functions_is_held_at_every_moment(batch: int, moment: str) -> None:
    predicted, real = both(GPT, optimizer="muon", batch=batch)
    assert predicted.moment == moment and predicted.at_peak[SCRATCH] == predicted.optimizer.scratch > 0
    assert predicted.peak == pytest.approx(real.peak, rel=0.005)


def test_matrices_are_stepped_whole_however_many_ranks_share_the_states() -> None:
    one, many = (
        Predictor(trainee(GPT)).predict(Setting(optimizer="muon", shard=shard, ranks=ranks)).share
        for shard, ranks in ((None, 1), ("zero1", 8))
    )
    assert (many.scratch, many.step_temporaries) == (one.scratch, one.step_temporaries)


def test_traces_at_two_batches_give_every_other_batch_exactly() -> None:
    predictor = Predictor(trainee(GPT))
    for batch in (1, 37):
        assert predictor.at_batch(Setting(batch=2), batch).peak == predictor.predict(Setting(batch=batch)).peak


def test_traces_at_three_lengths_give_every_other_length_exactly() -> None:
    predictor = Predictor(trainee(GPT))
    for length in (9, 47):
        found = predictor.at_sequence(Setting(batch=2), length)
        assert found.peak == predictor.predict(Setting(batch=2, sequence=length)).peak


def test_sixteen_bytes_per_parameter_in_mixed_precision() -> None:
    memory = memory_of(optimizer_for(_on_meta(), Setting(precision="mixed")))
    assert memory.held - memory.counters == 16 * sum(p.numel() for p in _on_meta().parameters())


def _on_meta() -> nn.Module:
    with torch.device("meta"):
        return nn.Linear(500, 300).to(torch.bfloat16)


def test_activations_are_counted_by_module_and_checkpointing_keeps_block_inputs_only() -> None:
    predictor = Predictor(trainee(GPT))
    plain = predictor.predict(Setting(batch=4)).trace
    places = {one.place: one for one in plain.kept}
    assert places["blocks.*.up"].modules == 3 and places["blocks.*.up"].type == "Linear"
    assert places["blocks.*.up"].bytes == 3 * 4 * 4 * 48 * 4 * 64, "layers × bytes × batch × tokens × 4 widths"
    again = predictor.predict(Setting(batch=4, checkpointing=True)).trace
    assert sum(one.bytes for one in again.kept if one.place.startswith("blocks.*.")) == 0
    assert again.pieces == 3 and plain.recomputed_flops == 0
    assert plain.flops + again.recomputed_flops == again.flops
    assert 0.1 < again.recomputed_flops / plain.flops < 0.34


def test_stages_share_states_then_gradients_then_parameters() -> None:
    predictor = Predictor(trainee(GPT))
    whole = predictor.predict(Setting())
    for stage, shared in (("zero1", 0), ("zero2", 1), ("zero3", 2)):
        part = predictor.predict(Setting(shard=stage, ranks=4))
        kinds = ("gradients", "parameters")
        assert part.in_full["exp_avg (float32)"] == whole.in_full["exp_avg (float32)"] // 4
        for number, kind in enumerate(kinds):
            ratio = whole.in_full[kind] / part.in_full[kind]
            assert ratio == pytest.approx(4 if number < shared else 1, rel=0.01)
        assert part.in_full["activations kept"] == whole.in_full["activations kept"]
        assert part.share.communication > 0
    assert predictor.predict(Setting(ranks=2)).share.communication == whole.optimizer.gradients


def test_offloading_moves_the_states_to_the_host() -> None:
    predictor = Predictor(trainee(GPT))
    whole, part = predictor.predict(Setting()), predictor.predict(Setting(offload=True))
    assert not part.share.states and whole.share.host == 0
    assert part.share.host == whole.optimizer.optimizer + whole.optimizer.gradients + whole.optimizer.parameters
    assert part.peak == whole.peak - whole.optimizer.optimizer


def test_nothing_is_allocated_for_gpt2_xl() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = Predictor(trainee("gpt2-xl")).predict(Setting(sequence=64))
    assert found.parameters == 1_557_611_200
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 500e6


def test_the_peak_of_a_workload_is_one_call() -> None:
    workload = load("fashion_mlp")
    peaks = [predicted_peak(workload, batch=batch) for batch in (64, 128, 256)]
    assert peaks == sorted(peaks) and peaks[2] - peaks[1] == 2 * (peaks[1] - peaks[0])


def test_a_model_that_reads_values_is_refused_in_one_line() -> None:
    class Reads(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * float(x.sum())

    model = Trainee("reads", "reads", lambda: Reads(3, 2), lambda b, s: torch.zeros(b, 3), lambda m, x: m(x).sum(), 1)
    with pytest.raises(Unbuildable, match="reads: reads values of tensors") as caught:
        Predictor(model).predict(Setting())
    assert "\n" not in str(caught.value)


def test_a_model_without_blocks_cannot_be_checkpointed() -> None:
    model = Trainee("one", "one", lambda: nn.Linear(3, 2), lambda b, s: torch.zeros(b, 3), lambda m, x: m(x).sum(), 1)
    with pytest.raises(Unbuildable, match="nothing to checkpoint"):
        Predictor(model).predict(Setting(checkpointing=True))
    with pytest.raises(Unbuildable, match="has no sequences"):
        Predictor(model).predict(Setting(sequence=5))
