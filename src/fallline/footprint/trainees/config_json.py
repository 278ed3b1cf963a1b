"""Models from the ``config.json`` of a Hugging Face repository, for the families of GPT-2 and Llama.

Only numbers are read: no code of the repository runs, and the package ``transformers`` is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fallline.footprint.trainees.language import of_shape, shape_of
from fallline.footprint.trainees.trainee import Trainee, Unbuildable

MOST_BYTES = 10_000_000
GPT2 = {"layers": "n_layer", "heads": "n_head", "width": "n_embd", "context": "n_positions", "vocabulary": "vocab_size"}
LLAMA = {
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "width": "hidden_size",
    "hidden": "intermediate_size",
    "context": "max_position_embeddings",
    "vocabulary": "vocab_size",
}
LIKE_LLAMA = ("llama", "mistral")
"""Model types whose layers are Llama's."""
DROPOUTS = ("attn_pdrop", "embd_pdrop", "resid_pdrop", "attention_dropout")


def from_config(path: Path, spec: str) -> Trainee:
    """The model that a configuration describes."""
    fields = _read(path, spec)
    kind = fields.get("model_type")
    if kind == "gpt2":
        return _gpt2(fields, spec)
    if kind in LIKE_LLAMA:
        return _llama(fields, spec)
    known = ", ".join(("gpt2", *LIKE_LLAMA))
    said = "has no field model_type" if kind is None else f"has model_type {kind!r}"
    raise Unbuildable(f"{spec}: {said}; {known} are known, others need a workload file (FILE.py)")


def _read(path: Path, spec: str) -> dict[str, Any]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise Unbuildable(f"{spec}: too large for a configuration ({path.stat().st_size:,} bytes)")
        fields = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Unbuildable(f"{spec}: {error.strerror}; name a config.json or its folder") from None
    except (ValueError, RecursionError) as error:
        raise Unbuildable(f"{spec}: is no JSON ({str(error).splitlines()[0]})") from None
    if not isinstance(fields, dict):
        raise Unbuildable(f"{spec}: a configuration is a JSON object, got a {type(fields).__name__}")
    return fields


def _gpt2(fields: Mapping[str, Any], spec: str) -> Trainee:
    numbers = _whole(fields, GPT2, spec)
    inner = fields.get("n_inner")
    if inner not in (None, 4 * numbers["width"]):
        raise Unbuildable(f"{spec}: n_inner {inner} is not 4 × n_embd; write the model as a workload file (FILE.py)")
    if fields.get("tie_word_embeddings", True) is False:
        raise Unbuildable(f"{spec}: tie_word_embeddings is false; write the model as a workload file (FILE.py)")
    return of_shape("gpt", shape_of("gpt", numbers, spec), _name(fields, spec), spec, _notes(fields))


def _llama(fields: Mapping[str, Any], spec: str) -> Trainee:
    numbers = _whole(fields, LLAMA, spec)
    if fields.get("num_key_value_heads") is not None:
        numbers |= _whole(fields, {"kv_heads": "num_key_value_heads"}, spec)
    numbers["tied"] = int(fields.get("tie_word_embeddings", False) is True)
    head = fields.get("head_dim")
    if numbers["heads"] and head not in (None, numbers["width"] // numbers["heads"]):
        raise Unbuildable(f"{spec}: head_dim {head} is not hidden_size / num_attention_heads; write a workload file")
    return of_shape("llama", shape_of("llama", numbers, spec), _name(fields, spec), spec, _notes(fields))


def _whole(fields: Mapping[str, Any], names: Mapping[str, str], spec: str) -> dict[str, int]:
    missing = [theirs for theirs in names.values() if fields.get(theirs) is None]
    if missing:
        raise Unbuildable(f"{spec}: lacks {', '.join(missing)}, which its family needs")
    for theirs in names.values():
        if isinstance(fields[theirs], bool) or not isinstance(fields[theirs], int):
            raise Unbuildable(f"{spec}: {theirs} must be a whole number, got {fields[theirs]!r}")
    return {ours: fields[theirs] for ours, theirs in names.items()}


def _name(fields: Mapping[str, Any], spec: str) -> str:
    given = fields.get("_name_or_path")
    return given if isinstance(given, str) and given else spec


def _notes(fields: Mapping[str, Any]) -> tuple[str, ...]:
    found = [f"{name} {fields[name]}" for name in DROPOUTS if isinstance(fields.get(name), float) and fields[name] > 0]
    if not found:
        return ()
    return (f"the configuration has dropout ({', '.join(found)}), which is left out",)
