"""``fallline memory``: every output, the figures, real files, and bad input in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fallline.cli.output import PIPED_WIDTH
from fallline.document.terminal import plain
from fallline.report.reading import read
from tests.cli import Command

GPT = "gpt:layers=2,heads=2,width=64,context=32,vocabulary=300"
FILE = """
import torch
import fallline

def workload():
    return fallline.Workload(
        name="mine",
        model=lambda seed: {model},
        batch=lambda step, seed: torch.zeros(16, {width}),
        loss=lambda model, batch: model(batch).square().mean(),
        evaluate=lambda model: 0.0,
        metric="loss",
        max_steps=10,
    )
"""
GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64, "n_positions": 32, "vocab_size": 300}
LLAMA = {
    "model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 32, "vocab_size": 200,
}  # fmt: skip
KEYS = {
    "model", "parameters", "setting", "precision", "peak_bytes", "peak_in", "bytes_at_peak", "bytes_in_full",
    "host_bytes", "workspace_bytes", "reserved_bytes", "activations", "flops", "recomputed_flops", "lengths", "devices",
    "remedies", "remedies_for", "compared", "measured", "notes", "verdicts",
}  # fmt: skip


def written(folder: Path, model: str = "torch.nn.Linear(8, 4)", width: int = 8) -> str:
    path = folder / "mine.py"
    path.write_text(FILE.format(model=model, width=width))
    return str(path)


def configured(folder: Path, **fields: object) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}))
    return str(path)


def test_text_has_categories_devices_changes_and_verdicts(fallline: Command) -> None:
    ended = fallline("memory", GPT, "--device", "1MB,1GB")
    assert ended.code == 0 and ended.err == ""
    for part in ("At the peak", "exp_avg (float32)", "blocks.*.up", "Devices", "Changes that save memory, for 1 MB"):
        assert part in ended.out
    assert "It trains on 1 GB." in ended.out and "It does not train on 1 MB: " in ended.out
    assert "attention on a GPU saves other tensors" in ended.out


def test_json_is_alone_on_stdout_and_its_sums_hold(fallline: Command) -> None:
    data = json.loads(fallline("memory", GPT, "--json", "--device", "1MB,1GB", "--compare", "lion").out)
    assert set(data) == KEYS
    assert data["peak_bytes"] == sum(data["bytes_at_peak"].values()) <= data["reserved_bytes"]
    assert [one["fits"] for one in data["devices"]] == [False, True]
    assert data["devices"][1]["largest_batch"] > 1
    assert [one["optimizer"] for one in data["compared"]] == ["adamw", "lion"]
    assert data["compared"][0]["state_bytes"] > data["compared"][1]["state_bytes"]
    saved = [one["saves"] for one in data["remedies"] if not one["fits"]]
    assert saved == sorted(saved, reverse=True)
    for one in data["remedies"]:
        assert one["peak"] + one["saves"] == data["peak_bytes"]


def test_the_change_that_is_recommended_is_enough(fallline: Command) -> None:
    first = json.loads(fallline("memory", GPT, "--batch", "512", "--device", "160MB", "--json").out)
    assert first["remedies_for"] == "160 MB"
    said = next(text for text in first["verdicts"] if text.startswith("With "))
    option = said.removeprefix("With ").partition(" it needs")[0].split()
    arguments = ["--batch", "512", *option] if "--batch" not in option else option
    again = json.loads(fallline("memory", GPT, *arguments, "--device", "160MB", "--json").out)
    assert again["devices"][0]["fits"] and again["peak_bytes"] <= 160e6


def test_the_largest_batch_fits_and_one_more_does_not(fallline: Command) -> None:
    (found,) = json.loads(fallline("memory", GPT, "--device", "20MB", "--json").out)["devices"]
    largest = found["largest_batch"]
    for batch, fits in ((largest, True), (largest + max(2, largest // 20), False)):
        (one,) = json.loads(fallline("memory", GPT, "--device", "20MB", "--batch", str(batch), "--json").out)["devices"]
        assert one["fits"] is fits


def test_the_longest_sequence_is_the_model_s_or_the_device_s(fallline: Command) -> None:
    found = json.loads(
        fallline("memory", GPT, "--batch", "256", "--largest", "sequence", "--device", "60MB,1GB", "--json").out
    )
    small, large = (one["largest_sequence"] for one in found["devices"])
    assert 0 < small < large == 32


def test_measured_bytes_stand_beside_the_predicted_ones(fallline: Command) -> None:
    data = json.loads(fallline("memory", GPT, "--measure", "--threads", "1", "--json").out)
    measured = data["measured"]
    assert measured["parameters"] == data["bytes_in_full"]["parameters"]
    assert measured["peak"] == pytest.approx(data["peak_bytes"], rel=0.005)
    assert measured["resident"] > measured["libraries"] > measured["peak"]


def test_figures_files_quiet_and_the_other_forms(fallline: Command, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ended = fallline("memory", GPT, "--figures", str(tmp_path), "--out", str(tmp_path / "a.txt"), "-q")
    assert ended.code == 0 and ended.out == ""
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG") and (tmp_path / "memory.svg").is_file()
    text = (tmp_path / "a.txt").read_text()
    assert "Devices" in text and "Tensors by category" not in text
    assert "| in all |" in fallline("memory", GPT, "--md").out
    assert fallline("memory", GPT, "--csv").out.startswith("table,")


def test_a_stored_answer_says_what_was_printed_and_how_to_repeat_it(fallline: Command, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    ended = fallline("memory", GPT, "--device", "1MB,1GB", "--compare", "lion", "--results", str(path))
    found = read(path)
    assert found.kind == "Memory" and plain(found.document, PIPED_WIDTH) == ended.out
    facts = dict(found.document.provenance.facts)
    assert facts["to repeat it"].startswith(f"fallline memory {GPT} --device 1MB,1GB")
    assert "torch" in found.document.provenance.machine
    assert "there is no directory" in refused(fallline, GPT, "--results", str(tmp_path / "no" / "a.json"))


def test_a_file_of_the_users(fallline: Command, tmp_path: Path) -> None:
    found = json.loads(fallline("memory", written(tmp_path), "--batch", "32", "--json").out)
    assert found["model"] == "mine" and found["parameters"] == 8 * 4 + 4
    assert found["bytes_at_peak"]["inputs"] == 32 * 8 * 4


def test_a_model_too_large_for_any_machine_is_predicted(fallline: Command, tmp_path: Path) -> None:
    found = json.loads(fallline("memory", written(tmp_path, "torch.nn.Linear(8, 10**11)"), "--json").out)
    assert found["parameters"] == 9 * 10**11 and found["bytes_in_full"]["exp_avg (float32)"] == 36 * 10**11


def test_configurations_of_hugging_face(fallline: Command, tmp_path: Path) -> None:
    gpt2 = json.loads(fallline("memory", configured(tmp_path, **GPT2, resid_pdrop=0.1), "--json").out)
    named = json.loads(fallline("memory", GPT, "--json").out)
    assert gpt2["peak_bytes"] == named["peak_bytes"]
    assert any("resid_pdrop 0.1" in note for note in gpt2["notes"])
    llama = json.loads(fallline("memory", str(Path(configured(tmp_path, **LLAMA)).parent), "--json").out)
    block = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96 + 2 * 64
    assert llama["parameters"] == 2 * 200 * 64 + 2 * block + 64


def test_sequences_of_many_lengths_are_replayed(fallline: Command) -> None:
    found = json.loads(fallline("memory", GPT, "--lengths", "9,31,12", "--json").out)
    assert found["lengths"] == [9, 31, 12] and found["setting"]["sequence"] == 31


def refused(fallline: Command, *arguments: str) -> str:
    """The one line that bad input gets; a traceback may follow where the user's own code raised."""
    ended = fallline("memory", *arguments)
    assert ended.code == 2 and ended.out == ""
    first, *rest = ended.err.strip().splitlines()
    assert first.startswith("fallline: ") and (not rest or rest[0].startswith("Traceback"))
    return first


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gpt2-xxl"], "there is no model 'gpt2-xxl'; did you mean gpt2-xl"),
        (["gpt:layers=2"], "gpt needs heads, width too"),
        (["gpt:layers=two"], "write gpt:NAME=NUMBER"),
        (["gpt:layers=2,heads=3,width=64"], "width must be a multiple of heads"),
        (["llama:depth=2"], "llama has no depth; it has layers"),
        ([GPT, "--batch", "-3"], "--batch"),
        ([GPT, "--batch", "0"], "--batch"),
        ([GPT, "--sequence", "33"], "takes at most 32 tokens"),
        (["fashion_mlp", "--sequence", "33"], "has no sequences"),
        (["fashion_mlp", "--largest", "sequence"], "has no sequences"),
        (["fashion_mlp", "--lengths", "3,4"], "has no sequences"),
        ([GPT, "--lengths", "3,x"], "whole numbers"),
        ([GPT, "--device", "6"], "the unit is missing; write 6GB"),
        ([GPT, "--device", "6XB"], "there is no unit 'XB'"),
        ([GPT, "--device", "big"], "is no size"),
        ([GPT, "--optimizer", "adamm"], "adamm"),
        ([GPT, "--compare", "adamw,lionn"], "lionn"),
        ([GPT, "--optimizer", "sgd", "--state-dtype", "int8"], "--optimizer sgd"),
        ([GPT, "--precision", "fp8"], "must be one of float32"),
        ([GPT, "--state-dtype", "int3"], "must be one of"),
        ([GPT, "--shard", "zero4", "--ranks", "2"], "must be one of zero1"),
        ([GPT, "--shard", "zero1"], "add --ranks 2"),
        ([GPT, "--largest", "width"], "must be one of batch, sequence"),
        (["missing.json"], "missing.json: No such file"),
        (["missing.py"], "there is no such file"),
        (["speech_conformer"], "reads values of tensors"),
        (["rosenbrock", "--checkpointing"], "nothing to checkpoint"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_bad_input(fallline: Command, arguments: list[str], said: str) -> None:
    assert said in refused(fallline, *arguments)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({**GPT2, "n_layer": None}, "lacks n_layer"),
        ({**GPT2, "n_layer": "two"}, "n_layer must be a whole number, got 'two'"),
        ({**GPT2, "n_layer": -1}, "layers must be at least 1"),
        ({**GPT2, "n_inner": 100}, "is not 4 × n_embd"),
        ({**LLAMA, "head_dim": 7}, "head_dim 7"),
        ({**LLAMA, "num_attention_heads": 0}, "heads must be at least 1"),
        ({"model_type": "bert"}, "has model_type 'bert'; gpt2, llama"),
        ({"layers": 3}, "has no field model_type"),
    ],
)
def test_bad_configurations(fallline: Command, tmp_path: Path, fields: dict[str, object], said: str) -> None:
    assert said in refused(fallline, configured(tmp_path, **fields))


def test_files_that_are_no_configuration(fallline: Command, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for text, said in (("{", "is no JSON"), ("[]", "is a JSON object"), ("[" * 100_000, "is no JSON")):
        path.write_text(text)
        assert said in refused(fallline, str(path))


def test_a_file_that_raises(fallline: Command, tmp_path: Path) -> None:
    assert "raised ZeroDivisionError" in refused(fallline, written(tmp_path, "1 / 0"))
    assert "raised RuntimeError" in refused(fallline, written(tmp_path, width=9))


def test_a_file_that_takes_gigabytes_to_be_loaded(fallline: Command, tmp_path: Path) -> None:
    path = Path(written(tmp_path))
    path.write_text(path.read_text() + "\nDATA = torch.ones(4_000_000_000)\n")
    assert "takes more than 2 GB before it is trained" in refused(fallline, str(path))
