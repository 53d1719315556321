"""Selected logits: order statistics of few normals are known in closed form, many are drawn."""

import math

import numpy as np
import pytest
from verify_variance.stats.checks import InputError
from verify_variance.stats.transforms.top_k import selected_moment, top_k_variance


def test_the_largest_of_two_and_of_three():
    assert selected_moment(2, 1, 1) == pytest.approx(1 / math.sqrt(math.pi), rel=1e-13)
    assert selected_moment(3, 1, 1) == pytest.approx(1.5 / math.sqrt(math.pi), rel=1e-13)
    assert selected_moment(3, 1, 2) == pytest.approx(1 + math.sqrt(3) / (2 * math.pi), rel=1e-13)


def test_all_of_n_are_no_selection():
    assert [selected_moment(5, 5, r) for r in range(5)] == pytest.approx([1, 0, 1, 0, 3], abs=1e-13)
    assert top_k_variance(64, 64, 16) == pytest.approx(16, rel=1e-12)


def test_against_draws_and_two_planted_errors():
    """|z| < 5 with 2e4 independent rows: false alarm 6e-7."""
    rng = np.random.default_rng(7)
    n, k, d, rows = 64, 8, 64, 20_000
    scale = np.sqrt(rng.chisquare(d, rows))[:, None]
    top = np.sort(scale * rng.standard_normal((rows, n)), axis=1)[:, -k:]
    squares = ((top - top.mean()) ** 2).mean(axis=1)
    error = squares.std() / math.sqrt(rows)
    assert abs(squares.mean() - top_k_variance(n, k, d)) < 5 * error
    second, first = (selected_moment(n, k, r) for r in (2, 1))
    # without the mean, without selection, and with |q| fixed
    for wrong in (d * second, float(d), d * (second - first**2)):
        assert abs(squares.mean() - wrong) > 5 * error


def test_more_than_there_are():
    with pytest.raises(InputError, match="k must be from 1 to n = 4, got 5"):
        selected_moment(4, 5, 1)
