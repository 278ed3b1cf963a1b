"""Metrics against hand-computed values and plain definitions."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fallline.workloads.metrics.average_precision import average_precision, mean_average_precision
from fallline.workloads.metrics.ssim import ssim
from fallline.workloads.metrics.word_error_rate import edit_distance, word_error_rate


class TestWordErrorRate:
    @pytest.mark.parametrize(
        ("first", "second", "distance"),
        [
            ("", "", 0),
            ("abc", "", 3),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("flaw", "lawn", 2),
            ("intention", "execution", 5),
        ],
    )
    def test_known_distances(self, first: str, second: str, distance: int) -> None:
        assert edit_distance(first, second) == distance

    @given(st.text("ab", max_size=5), st.text("ab", max_size=5))
    @settings(max_examples=60, deadline=None)
    def test_distance_is_the_plain_recursion(self, first: str, second: str) -> None:
        def plain(a: str, b: str) -> int:
            if not a or not b:
                return len(a) + len(b)
            return min(plain(a[1:], b) + 1, plain(a, b[1:]) + 1, plain(a[1:], b[1:]) + (a[0] != b[0]))

        assert edit_distance(first, second) == plain(first, second)

    def test_rate_is_over_all_words_said(self) -> None:
        assert word_error_rate(["a b c", "x"], ["a b d", "x y z"]) == 3 / 6

    def test_rate_can_exceed_one(self) -> None:
        assert word_error_rate(["a b c"], ["d"]) == 3.0

    def test_nothing_said_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="no words were said"):
            word_error_rate([""], [""])


class TestSSIM:
    def test_equal_images_are_one(self) -> None:
        image = torch.rand(2, 1, 12, 12, generator=torch.Generator().manual_seed(0))
        assert ssim(image, image).item() == pytest.approx(1.0)

    def test_the_definition_window_by_window(self) -> None:
        x, y = torch.rand(2, 1, 1, 9, 10, generator=torch.Generator().manual_seed(1)).double()
        values = []
        for row, column in itertools.product(range(3), range(4)):
            a, b = (image[0, 0, row : row + 7, column : column + 7].flatten() for image in (x, y))
            (var_a, cov), (_, var_b) = torch.cov(torch.stack([a, b])).tolist()
            mean_a, mean_b = a.mean().item(), b.mean().item()
            light = (2 * mean_a * mean_b + 1e-4) / (mean_a**2 + mean_b**2 + 1e-4)
            values.append(light * (2 * cov + 9e-4) / (var_a + var_b + 9e-4))
        assert ssim(x, y).item() == pytest.approx(sum(values) / len(values))

    def test_noise_lowers_it(self) -> None:
        generator = torch.Generator().manual_seed(2)
        image = torch.rand(1, 1, 16, 16, generator=generator)
        noise = torch.randn(image.shape, generator=generator)
        slight, strong = (ssim(image + scale * noise, image).item() for scale in (0.05, 0.5))
        assert 1 > slight > strong


class TestAveragePrecision:
    def test_by_hand(self) -> None:
        scores = torch.tensor([0.9, 0.8, 0.7, 0.6])
        assert average_precision(scores, torch.tensor([1.0, 0, 1, 0])) == pytest.approx((1 / 1 + 2 / 3) / 2)
        assert average_precision(scores, torch.tensor([0.0, 0, 0, 1])) == pytest.approx(1 / 4)

    def test_equal_scores_are_one_place(self) -> None:
        for truth in ([1.0, 0, 0, 1], [0.0, 1, 1, 0]):
            assert average_precision(torch.zeros(4), torch.tensor(truth)) == pytest.approx(0.5)

    def test_unknown_labels_and_constant_columns_do_not_count(self) -> None:
        scores = torch.tensor([[0.9, 0.1, 0.2], [0.8, 0.2, 0.1], [0.1, 0.3, 0.3]])
        truth = torch.tensor([[1.0, 1.0, 0.0], [math.nan, 1.0, 1.0], [0.0, 1.0, 0.0]])
        # Column 0 without its unknown row is perfect; column 1 has no negatives; column 2 finds its positive last.
        assert mean_average_precision(scores, truth) == pytest.approx((1 + 1 / 3) / 2)

    def test_nothing_to_average_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="positive and negative"):
            mean_average_precision(torch.zeros(3, 1), torch.ones(3, 1))


def test_bleu_is_sacrebleus() -> None:
    pytest.importorskip("sacrebleu")
    from fallline.workloads.translation import bleu

    assert bleu(["a b c d e"], ["a b c d e"]) == pytest.approx(100)
    # By hand: precisions 3/4, 2/3, 1/2 and, smoothed, 1/2 of 1; brevity exp(1 − 5/4).
    expected = 100 * math.exp(1 - 5 / 4) * (3 / 4 * 2 / 3 * 1 / 2 * 1 / 2) ** 0.25
    assert bleu(["a b c x"], ["a b c d e"]) == pytest.approx(expected)
