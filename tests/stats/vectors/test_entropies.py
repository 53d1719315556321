"""Softmax figures against scipy, at several factors at once."""

import numpy as np
import pytest
from scipy.special import entr, softmax
from verify_variance.stats.vectors import entropies
from verify_variance.stats.vectors.entropies import forward, reference_entropy


@pytest.mark.parametrize("factor", [0.0, 1 / 8, 1.0, -0.5, 40.0])
def test_figures_are_those_of_scipy(factor):
    q, k = np.random.default_rng().normal(size=(2, 3, 40, 16))
    p = softmax(factor * q @ k.swapaxes(1, 2), axis=-1)
    seen = forward(q, k, [1.0, factor])
    said = seen.figures[1]
    assert said.factor == factor
    assert said.entropy == pytest.approx(entr(p).sum(-1).mean(), rel=1e-9, abs=1e-12)
    assert said.max_prob == pytest.approx(p.max(-1).mean(), rel=1e-12)
    assert said.saturated == (p.max(-1) > 0.99).mean()
    assert (seen.rows, seen.whole) == (120, True)
    assert seen.variance == pytest.approx((q @ k.swapaxes(1, 2)).var(), rel=1e-10)


def test_a_mean_far_from_zero_does_not_cancel():
    q, k = np.random.default_rng(0).normal(size=(2, 1, 100, 16)) + 1e4
    logits = q @ k.swapaxes(1, 2)
    assert forward(q, k, [1.0]).variance == pytest.approx(logits.var(), rel=1e-6)


def test_large_arrays_are_seen_in_part(monkeypatch):
    monkeypatch.setattr(entropies, "MOST_LOGITS", 1000)
    q, k = np.random.default_rng(0).normal(size=(2, 6, 100, 4))
    seen = forward(q, k, [0.5])
    assert (seen.rows, seen.whole) == (6, False)
    q, k = np.random.default_rng(0).normal(size=(2, 50, 100, 4))
    assert forward(q, k, [0.5]).rows == 10
    q, k = np.random.default_rng(0).normal(size=(2, 2, 1000, 4))
    assert forward(q, k, [0.5]).rows == 1


def test_the_reference_is_that_of_unit_normal_rows():
    """Against 20,000 rows that are drawn: 6 standard errors, 2e-9 whatever the seed."""
    assert reference_entropy(64, 1, 0.125) is None
    q = np.random.default_rng().normal(size=(20_000, 1, 16))
    k = np.random.default_rng().normal(size=(20_000, 10, 16))
    entropy = entr(softmax(0.5 * (q * k).sum(-1), axis=-1)).sum(-1)
    off = entropy.mean() - reference_entropy(16, 10, 0.5)
    assert abs(off) < 6 * entropy.std() / np.sqrt(len(entropy))
