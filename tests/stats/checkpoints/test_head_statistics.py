"""A head's figures against enumeration, the SVD of numpy, and drawn tokens.

Statistical tests: z of a sample variance over independent pairs, seed-free at 1e-6 (|z| < 4.9).
"""

import math

import numpy as np
import pytest
from verify_variance.stats.checkpoints.head_statistics import (
    Projections,
    after_norm,
    after_qk_norm,
    head_statistics,
)

D_K, INPUTS, DRAWS = 6, 20, 40_000


@pytest.fixture
def rng():
    return np.random.default_rng()


def drawn_head(rng, bias=True):
    w_q, w_k = rng.normal(size=(2, D_K, INPUTS)) * rng.uniform(0.1, 1.0, INPUTS)
    b_q, b_k = rng.normal(size=(2, D_K))
    return Projections(w_q, w_k, b_q, b_k) if bias else Projections(w_q, w_k)


def test_the_spectrum_is_that_of_the_whole_matrix(rng):
    head = drawn_head(rng, bias=False)
    said = head_statistics(head, 0.5)
    singular = np.linalg.svd(0.5 * head.w_q.T @ head.w_k, compute_uv=False)
    assert said.top == pytest.approx(singular[0], rel=1e-10)
    assert said.logit_std == pytest.approx(math.sqrt((singular**2).sum()), rel=1e-10)
    assert said.stable_rank == pytest.approx((singular**2).sum() / singular[0] ** 2, rel=1e-10)
    cosine = (head.w_q * head.w_k).sum() / np.linalg.norm(head.w_q) / np.linalg.norm(head.w_k)
    assert said.alignment == pytest.approx(cosine, rel=1e-10)
    opposite = head_statistics(Projections(head.w_q, -3 * head.w_q), 1)
    assert opposite.alignment == pytest.approx(-1.0, rel=1e-12)


def test_the_logits_of_signs_have_this_variance_exactly():
    """All 2^4 tokens of +-1: the variance over keys, averaged over queries, by enumeration."""
    rng = np.random.default_rng(0)
    w_q, w_k = rng.normal(size=(2, 3, 4))
    b_q, b_k = rng.normal(size=(2, 3))
    tokens = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T
    logits = 0.7 * (tokens @ w_q.T + b_q) @ (tokens @ w_k.T + b_k).T
    said = head_statistics(Projections(w_q, w_k, b_q, b_k), 0.7)
    assert said.logit_std**2 == pytest.approx(logits.var(axis=1).mean(), rel=1e-12)
    without = head_statistics(Projections(w_q, w_k), 0.7)
    assert (
        without.logit_std < said.logit_std
    )  # the key's bias alone does not count, the query's does
    same_row = head_statistics(Projections(w_q, w_k, None, b_k), 0.7)
    assert same_row.logit_std == without.logit_std


def test_kurtosis_is_that_of_known_laws(rng):
    signs = np.resize([1.0, -1.0], (8, 50))
    assert head_statistics(Projections(signs, signs), 1).kurtosis_q == -2.0
    normal = head_statistics(Projections(*rng.normal(size=(2, 100, 2000))), 1).kurtosis_q
    assert abs(normal) < 4.9 * math.sqrt(24 / 200_000)


@pytest.mark.parametrize("centred", [False, True])
def test_norms_fold_into_the_matrices(rng, centred):
    """What LayerNorm or RMSNorm makes of normal tokens, measured with biases, gains and shifts."""
    head, gain, shift = drawn_head(rng), rng.normal(1, 0.3, INPUTS), rng.normal(0, 2, INPUTS)
    said = head_statistics(after_norm(head, gain, shift, centred), 0.3).logit_std ** 2

    def normed(x):
        x = x - x.mean(-1, keepdims=True) if centred else x
        return gain * x / np.sqrt((x**2).mean(-1, keepdims=True)) + shift

    x, y, z = (normed(rng.normal(size=(DRAWS, INPUTS))) for _ in range(3))
    q = x @ head.w_q.T + head.b_q
    one, other = (0.3 * (q * (key @ head.w_k.T + head.b_k)).sum(1) for key in (y, z))
    halves = (one - other) ** 2 / 2  # an unbiased variance of each row
    deviate = (halves.mean() - said) / (halves.std() / math.sqrt(DRAWS))
    assert abs(deviate) < 4.9
    wrong = head_statistics(after_norm(head, gain, None, centred), 0.3).logit_std ** 2
    assert abs(halves.mean() - wrong) / (halves.std() / math.sqrt(DRAWS)) > 4.9


def test_norms_of_q_and_k_are_replaced_by_their_root_mean_square(rng):
    """QK-norm of isotropic q, k: factor^2 sum (g_q g_k)^2, whatever the size of the weights."""
    gains = rng.uniform(0.5, 2, (2, 64))
    none = np.zeros(64), np.zeros(64)
    head = Projections(*rng.normal(size=(2, 64, 4096)) * 7)
    said = head_statistics(after_qk_norm(head, (gains[0], gains[1]), none, None, False), 0.125)
    expected = 0.125 * math.sqrt(((gains[0] * gains[1]) ** 2).sum())
    assert said.logit_std == pytest.approx(expected, rel=0.05)  # rows overlap by 1/sqrt(4096)
    x, y = rng.normal(size=(2, 2000, 4096))
    vectors = [v @ w.T for v, w in ((x, head.w_q), (y, head.w_k))]
    q, k = (
        g * v / np.sqrt((v**2).mean(1, keepdims=True)) for g, v in zip(gains, vectors, strict=True)
    )
    measured = (0.125 * (q * k).sum(1)).std()
    assert measured == pytest.approx(said.logit_std, rel=0.02 + 4.9 * math.sqrt(2.5 / 4 / 2000))


def test_degenerate_heads_have_their_figures():
    zero, one = np.zeros((2, 3)), np.ones((2, 3))
    said = head_statistics(Projections(zero, one), 1.0)
    assert (said.logit_std, said.top, said.stable_rank, said.alignment) == (0, 0, 0, 0)
    assert not said.same
    assert head_statistics(Projections(one, one), 1.0).same
    broken = head_statistics(Projections(np.array([[np.nan, np.inf]]), np.ones((1, 2))), 1.0)
    assert broken.broken == 2
    assert math.isnan(broken.logit_std)
    huge = head_statistics(Projections(np.full((2, 3), 1e200), one), 1.0)
    assert huge.broken == 0
    assert math.isnan(huge.logit_std)
    small = head_statistics(Projections(1e-30 * one, 1e-30 * one), 1.0)
    assert small.logit_std == pytest.approx(1e-60 * 6, rel=1e-9)
