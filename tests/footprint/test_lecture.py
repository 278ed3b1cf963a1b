"""The published example of 41 GB comes out of the memory model."""

from __future__ import annotations

from fallline.footprint.lecture import GB, PARAMETERS, example, lecture_bar


def test_sixteen_bytes_per_parameter_are_24_gb() -> None:
    found = example()
    assert found.model.parameters == 3 * GB
    assert (found.model.parameters + found.model.gradients + found.model.optimizer - found.model.counters) == 24 * GB
    assert found.held == 16 * PARAMETERS


def test_the_bar_has_the_eight_published_sections() -> None:
    (bar,) = lecture_bar().bars
    assert [part.value for part in bar.parts] == [3, 3, 6, 6, 6, 8, 6, 3]
    assert bar.total == 41


def test_it_does_not_train_on_32_gb_although_its_states_fit() -> None:
    found = example()
    assert found.held < 32 * GB < found.total


def test_activations_are_about_60_gb_and_checkpointing_saves_more_than_the_text_says() -> None:
    found = example()
    assert 60 <= found.activations / GB < 61
    assert found.checkpointing_saves > 0.85, "the text says 50 %"
