"""``fallline optimizers`` shows what the registry knows."""

from __future__ import annotations

import json
from pathlib import Path

import fallline as library
from tests.cli import Command


def test_every_optimizer_has_one_line_when_piped(fallline: Command) -> None:
    ended = fallline("optimizers")
    assert ended.code == 0 and ended.err == ""
    lines = ended.out.splitlines()
    for name in library.list_optimizers():
        assert sum(line.startswith(f"{name} ") for line in lines) == 1
    assert not any(line.endswith(" ") for line in lines)


def test_bytes_are_those_of_the_registry(fallline: Command) -> None:
    line = next(line for line in fallline("optimizers", "adamw*").out.splitlines() if line.startswith("adamw "))
    assert "8 → 2.03" in line
    assert "28 → 16.1" in line


def test_states_of_options_that_are_off_are_not_counted(fallline: Command) -> None:
    listed = fallline("optimizers", "ad*").out
    assert "max_exp_avg_sq" not in next(line for line in listed.splitlines() if line.startswith("adam "))
    assert "with amsgrad: max_exp_avg_sq" in fallline("optimizers", "adam").out
    assert "with momentum: momentum_buffer" in fallline("optimizers", "sgd").out


def test_memory_and_parameters_that_the_numbers_do_not_tell_are_named(fallline: Command) -> None:
    page = unwrapped(fallline("optimizers", "soap").out)
    assert "square matrices come on top: 16 bytes per parameter of a matrix of 1,024 rows and columns" in page
    assert "Square matrices, of caspr, shampoo, shampoo_algoperf, soap, come on top" in unwrapped(
        fallline("optimizers").out
    )
    page = unwrapped(fallline("optimizers", "normuon").out)
    assert "companion: adamw (lr=0.0003, betas=(0.9, 0.95), weight_decay=0.0) steps embeddings" in page
    assert "square matrices" not in page


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def test_pattern_selects(fallline: Command) -> None:
    assert fallline("optimizers", "lion*", "--quiet").out.split() == ["lion", "lion8bit"]


def test_exact_name_shows_the_whole_page(fallline: Command) -> None:
    page = fallline("optimizers", "AdamW").out
    info = library.info("adamw")
    assert info.equations.rstrip() in page
    for value in (*info.sources, *map(str, info.defaults), "torch.optim.AdamW"):
        assert value in page


def test_json_is_the_registry_and_nothing_else(fallline: Command) -> None:
    ended = fallline("optimizers", "--json")
    assert ended.err == ""
    listed = json.loads(ended.out)
    assert [entry["name"] for entry in listed] == library.list_optimizers()
    one = json.loads(fallline("optimizers", "lion", "--json").out)
    assert one == next(entry for entry in listed if entry["name"] == "lion")
    assert one["bytes_per_parameter"]["float32"] == 4.0


def test_out_writes_a_file_and_leaves_stdout_empty(fallline: Command, tmp_path: Path) -> None:
    file = tmp_path / "optimizers.json"
    assert fallline("optimizers", "--json", "--out", str(file)).out == ""
    assert len(json.loads(file.read_text(encoding="utf-8"))) == len(library.list_optimizers())


def test_average_of_weights_is_told_apart_from_an_optimizer(fallline: Command) -> None:
    ended = fallline("optimizers", "lawa_queue")
    assert ended.code == 2 and ended.out == ""
    assert "no optimizer but an average of weights: fallline.LawaQueue(optimizer, …)" in ended.err
