"""The generated languages, and sentences of a user's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fallline.workloads.translation import END, PAD, START, Vocabulary, from_pairs, generated_corpus, generated_pairs


def test_agreement_reaches_articles_adjectives_and_verbs() -> None:
    for source, target in generated_pairs(200):
        words, translated = source.split(), target.split()
        assert translated[-1].startswith("vi")
        # No adjective stands before its noun, and nothing is left untranslated.
        assert sum(w.startswith("adj") for w in words) == sum(w.startswith("ad") for w in translated)
        assert sum(w.startswith("noun") for w in words) == sum(w.startswith("no") for w in translated)
        subject = next(w for w in words if w.startswith("noun"))
        number = int(subject.removeprefix("noun").removesuffix("s"))
        assert translated[-1].endswith(("en" if subject.endswith("s") else "et") + str(number % 3))


def test_text_survives_the_vocabulary() -> None:
    words = Vocabulary(["a b b c", "b c d"], largest=7)
    assert words.words[4:] == ["b", "c", "a"], "by frequency, then by alphabet"
    assert words.decode([*words.encode("c a d b"), END, 4]) == "c a ? b"


def test_targets_start_and_end() -> None:
    corpus = generated_corpus()
    assert (corpus.target[:, 0] == START).all()
    assert ((corpus.target == END).sum(1) == 1).all()
    last = (corpus.target != PAD).sum(1) - 1
    assert (corpus.target[torch.arange(len(last)), last] == END).all()


def test_pairs_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"the number {n % 7} is {n % 5}\tнумер {n % 7} – {n % 5}\n" for n in range(200)))
    workload = from_pairs(path, max_steps=30)
    assert workload.data_name == "pairs of pairs.tsv" and workload.target is None
    model = workload.new_model(0)
    assert torch.isfinite(workload.training_loss(model, 0, 0))
    assert 0 <= workload.validate(model) <= 100


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("one\ttwo\nthree\n", "line 2: needs two sentences with a tab between, got 'three'"),
        ("a\tb\n", "has 1 pairs; 160"),
    ],
)
def test_unusable_pairs_are_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        from_pairs(path)
