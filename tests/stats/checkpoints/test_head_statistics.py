"""A head's figures against enumeration, the SVD of numpy, and drawn tokens.

Statistical tests: z of a sample variance over independent pairs, seed-free at 1e-6 (|z| < 4.9).
"""

import math

import numpy as np
import pytest
from verify_variance.stats.checkpoints.head_statistics import head_statistics
from verify_variance.stats.checkpoints.sides import Projection, Side

D_K, INPUTS, DRAWS = 6, 20, 40_000


@pytest.fixture
def rng():
    return np.random.default_rng()


def figures(q, k, factor=1.0, folded=lambda projection: projection):
    """The figures of two projections, given as matrices or with their biases."""
    bare = [p if isinstance(p, Projection) else Projection(np.asarray(p, float)) for p in (q, k)]
    return head_statistics(*(Side.of(p, folded(p)) for p in bare), factor)


def drawn(rng):
    matrices = rng.normal(size=(2, D_K, INPUTS)) * rng.uniform(0.1, 1.0, INPUTS)
    return [Projection(w, b) for w, b in zip(matrices, rng.normal(size=(2, D_K)), strict=True)]


def test_the_spectrum_is_that_of_the_whole_matrix(rng):
    w_q, w_k = (projection.matrix for projection in drawn(rng))
    said = figures(w_q, w_k, 0.5)
    singular = np.linalg.svd(0.5 * w_q.T @ w_k, compute_uv=False)
    assert said.top == pytest.approx(singular[0], rel=1e-10)
    assert said.logit_std == pytest.approx(math.sqrt((singular**2).sum()), rel=1e-10)
    assert said.stable_rank == pytest.approx((singular**2).sum() / singular[0] ** 2, rel=1e-10)
    cosine = (w_q * w_k).sum() / np.linalg.norm(w_q) / np.linalg.norm(w_k)
    assert said.alignment == pytest.approx(cosine, rel=1e-10)
    assert figures(w_q, -3 * w_q).alignment == pytest.approx(-1.0, rel=1e-12)
    assert said.sd_q == pytest.approx(w_q.std(), rel=1e-12)


def test_the_logits_of_signs_have_this_variance_exactly():
    """All 2^4 tokens of +-1: the variance over keys, averaged over queries, by enumeration."""
    rng = np.random.default_rng(0)
    w_q, w_k = rng.normal(size=(2, 3, 4))
    b_q, b_k = rng.normal(size=(2, 3))
    tokens = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T
    logits = 0.7 * (tokens @ w_q.T + b_q) @ (tokens @ w_k.T + b_k).T
    said = figures(Projection(w_q, b_q), Projection(w_k, b_k), 0.7)
    assert said.logit_std**2 == pytest.approx(logits.var(axis=1).mean(), rel=1e-12)
    assert said.alone == said.logit_std
    without = figures(w_q, w_k, 0.7).logit_std
    assert without < said.logit_std  # the query's bias counts, the key's shifts whole rows
    assert figures(w_q, Projection(w_k, b_k), 0.7).logit_std == without


def test_kurtosis_is_that_of_known_laws(rng):
    signs = np.resize([1.0, -1.0], (8, 50))
    assert figures(signs, signs).kurtosis_q == -2.0
    normal = figures(*rng.normal(size=(2, 100, 2000))).kurtosis_q
    assert abs(normal) < 4.9 * math.sqrt(24 / 200_000)


@pytest.mark.parametrize("centred", [False, True])
def test_norms_fold_into_the_matrices(rng, centred):
    """What LayerNorm or RMSNorm makes of normal tokens, measured with biases, gains and shifts."""
    (q, k), gain = drawn(rng), rng.normal(1, 0.3, INPUTS)
    shift = np.linalg.pinv(q.matrix) @ np.full(D_K, 10.0)  # adds 10 to each element of q
    said = figures(q, k, 0.3, lambda p: p.after_norm(gain, shift, centred))
    assert said.alone == figures(q, k, 0.3).logit_std

    def normed(x):
        x = x - x.mean(-1, keepdims=True) if centred else x
        return gain * x / np.sqrt((x**2).mean(-1, keepdims=True)) + shift

    x, y, z = (normed(rng.normal(size=(DRAWS, INPUTS))) for _ in range(3))
    queries = x @ q.matrix.T + q.bias
    one, other = (0.3 * (queries * (key @ k.matrix.T + k.bias)).sum(1) for key in (y, z))
    halves = (one - other) ** 2 / 2  # an unbiased variance of each row
    error = halves.std() / math.sqrt(DRAWS)
    assert abs(halves.mean() - said.logit_std**2) < 4.9 * error
    wrong = figures(q, k, 0.3, lambda p: p.after_norm(gain, None, centred))
    assert abs(halves.mean() - wrong.logit_std**2) > 4.9 * error


def test_norms_of_q_and_k_are_replaced_by_their_root_mean_square(rng):
    """QK-norm of isotropic q, k: factor^2 sum (g_q g_k)^2, whatever the size of the weights."""
    gains, zero = rng.uniform(0.5, 2, (2, 64)), np.zeros(64)
    matrices = rng.normal(size=(2, 64, 4096)) * 7
    sides = [
        Side.of(p, p.normalised(gain, zero, False))
        for p, gain in zip(map(Projection, matrices), gains, strict=True)
    ]
    said = head_statistics(*sides, 0.125).logit_std
    expected = 0.125 * math.sqrt(((gains[0] * gains[1]) ** 2).sum())
    assert said == pytest.approx(expected, rel=0.05)  # rows overlap by 1/sqrt(4096)
    vectors = [rng.normal(size=(2000, 4096)) @ w.T for w in matrices]
    q, k = (
        gain * v / np.sqrt((v**2).mean(1, keepdims=True))
        for gain, v in zip(gains, vectors, strict=True)
    )
    measured = (0.125 * (q * k).sum(1)).std()
    assert measured == pytest.approx(said, rel=0.02 + 4.9 * math.sqrt(2.5 / 4 / 2000))


def test_degenerate_heads_have_their_figures():
    zero, one = np.zeros((2, 3)), np.ones((2, 3))
    said = figures(zero, one)
    assert (said.logit_std, said.top, said.stable_rank, said.alignment) == (0, 0, 0, 0)
    assert not said.same
    assert figures(one, one).same
    broken = figures([[np.nan, np.inf]], np.ones((1, 2)))
    assert broken.broken == 2
    assert math.isnan(broken.logit_std)
    assert figures(Projection(one, np.array([np.nan, 0])), one).broken == 1
    for huge in (1e100, 1e200, 1.7e308):
        said = figures(np.full((2, 3), huge), one)
        assert said.broken == 0
        assert math.isnan(said.logit_std)
    assert figures(1e-30 * one, 1e-30 * one).logit_std == pytest.approx(6e-60, rel=1e-9)
    assert figures(1e50 * one, 1e50 * one).logit_std == pytest.approx(6e100, rel=1e-9)
