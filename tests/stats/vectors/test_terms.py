"""The general variance and its terms: exact on grids, known for constructed covariances.

Statistical tests: deviates in the jackknife's own errors, beyond 6.5 in 1e-6 of runs at 63 degrees
of freedom (Student's t), whatever the seed.
"""

import numpy as np
import pytest
from verify_variance.stats.vectors.terms import (
    MOST_BLOCKS,
    NAMES,
    Sums,
    grid_variance,
    term_shares,
    variance_terms,
)

D = 8


@pytest.fixture
def rng():
    return np.random.default_rng()


def covariance(rng):
    root = rng.normal(size=(D, D))
    return root @ root.T / D


def test_the_formula_is_the_variance_of_all_logits_exactly(rng):
    q, k = rng.normal(size=(3, 50, D)) @ covariance(rng) + 1, rng.normal(size=(3, 40, D)) - 0.5
    logits = q @ k.swapaxes(1, 2)
    formula = grid_variance(Sums.of(q), Sums.of(k))
    assert formula == pytest.approx(logits.var(), rel=1e-12)
    for wrong in (logits.var(ddof=1) * 1.01, logits.var(axis=(1, 2)).mean()):
        assert formula != pytest.approx(wrong, rel=1e-6)


def test_rows_left_out_are_as_if_they_had_not_been_there(rng):
    x = rng.normal(size=(2, 30, D))
    left, direct = Sums.of(x).without(Sums.of(x[:, 20:])), Sums.of(x[:, :20])
    assert np.allclose(left.covariance(), direct.covariance(), rtol=1e-9)
    by_numpy = np.cov(x[1, :20].T)
    assert np.allclose(direct.covariance()[1], by_numpy, rtol=1e-12)
    assert np.allclose(direct.mean()[1], x[1, :20].mean(0), rtol=1e-12)


def test_the_terms_sum_to_the_general_formula_of_the_law(rng):
    s_q, s_k = covariance(rng), covariance(rng)
    mu_q, mu_k = rng.normal(size=(2, D))
    exact = (s_q * s_k).sum() + mu_q @ s_k @ mu_q + mu_k @ s_q @ mu_k
    n = 200_000
    q = rng.multivariate_normal(mu_q, s_q, n)[None]
    k = rng.multivariate_normal(mu_k, s_k, n)[None]
    shares = term_shares(q, k)
    equal = variance_terms(Sums.of(q), Sums.of(k))[0]
    assert equal == pytest.approx(np.trace(s_q) * np.trace(s_k) / D, rel=0.05)
    expected = {
        "unequal variances": (np.diag(s_q) * np.diag(s_k)).sum() * D / np.trace(s_q) / np.trace(s_k)
        - 1,
        "means": (mu_q @ s_k @ mu_q + mu_k @ s_q @ mu_k) * D / np.trace(s_q) / np.trace(s_k),
    }
    expected["dependent elements"] = (
        exact * D / np.trace(s_q) / np.trace(s_k) - 1 - sum(expected.values())
    )
    assert set(shares) == set(NAMES) == set(expected)
    for name, share in shares.items():
        assert abs(share.value - expected[name]) < 6.5 * share.mcse
        assert share.mcse < 0.05 * (1 + abs(expected[name]))
        assert share.draws == MOST_BLOCKS


def test_small_samples_are_not_biased(rng):
    """Sample means and covariances of 20 rows: 2000 heads average to the law's 0, 0, 0."""
    q, k = rng.normal(size=(2, 2000, 20, D))
    pairs = zip(q[:, None], k[:, None], strict=True)
    terms = np.array([variance_terms(Sums.of(one), Sums.of(other)) for one, other in pairs])
    deviates = terms[:, 1:].mean(0) / (terms[:, 1:].std(0) / np.sqrt(len(terms)))
    assert np.abs(deviates).max() < 5.5
    assert abs(terms[:, 0].mean() - D) < 5.5 * terms[:, 0].std() / np.sqrt(len(terms))


def test_the_errors_hold_for_rows_that_resemble_their_neighbours(rng):
    """Blocks see that 4096 rows of runs of 32 alike are worth 128; single rows would not."""

    def spread(repeats):
        rows = np.repeat(rng.normal(size=(2, 4096 // repeats, D)), repeats, axis=1)
        return term_shares(rows[:1], rows[1:])["dependent elements"]

    drawn = [spread(32) for _ in range(60)]
    ratio = np.mean([share.value**2 for share in drawn]) / np.mean([s.mcse**2 for s in drawn])
    assert 0.3 < ratio < 3


def test_what_does_not_vary_has_no_shares():
    assert term_shares(np.ones((1, 3, D)), np.ones((1, 3, D))) == {}
    assert all(
        np.isnan(s.value) for s in term_shares(np.ones((1, 9, D)), np.ones((1, 9, D))).values()
    )
