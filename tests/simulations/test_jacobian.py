"""Jacobian statistics in float32 against the matrix itself in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from verify_variance.simulations.jacobian import JACOBIAN_STATISTICS, jacobian_statistics
from verify_variance.simulations.recipes import with_float64
from verify_variance.simulations.softmax import ROW_STATISTICS

TOLERANCE = 1e-6  # what the module promises in float32
TINY = float(np.finfo(np.float32).tiny)
RNG = np.random.default_rng(8)
FACTOR = 0.37


def of_matrices(j):
    """Trace, norms and largest eigenvalue of matrices [rows, n, n]."""
    squares = (j**2).sum((-2, -1))
    return {
        "jacobian_trace": np.trace(j, axis1=-2, axis2=-1),
        "jacobian_frobenius_sq": squares,
        "jacobian_frobenius": np.sqrt(squares),
        "jacobian_spectral": np.maximum(np.linalg.eigvalsh(j)[:, -1], 0),
    }


def matrices(logits, factor):
    """J = diag(p) - p p^T in float64, with p_i (1 - p_i) as p_i times the sum of the others."""
    x = (logits * logits.dtype.type(factor)).astype(float)
    w = np.exp(x - x.max(-1, keepdims=True))
    p = w / w.sum(-1, keepdims=True)
    off = 1 - np.eye(p.shape[1])
    return (p * (p @ off))[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :] * off


def relative_gap(got, want):
    """Largest relative gap; what underflows in float32 may be lost."""
    got = np.asarray(got, float)
    assert np.isfinite(got).all()
    lost = 100 * TINY
    return np.max(np.maximum(np.abs(got - want) - lost, 0) / np.maximum(want, lost))


def rows_of(n_keys, rows=48):
    """Rows from uniform to saturated, with exact and near ties and one-hot rows among them."""
    stds = np.geomspace(1e-4, 1e4, rows)[:, None]
    x = (RNG.standard_normal((rows, n_keys)) * stds).astype(np.float32)
    x[::5, -1] = x[::5].max(-1)
    x[1::5, 0] = np.nextafter(x[1::5].max(-1), np.float32(np.inf))
    x[3] = 2.0
    x[8] = np.where(np.arange(n_keys) == n_keys // 2, 1e4, -1e4)
    return x


@pytest.mark.parametrize("n_keys", [1, 2, 3, 10, 200])
def test_every_statistic_agrees_with_the_matrix(n_keys):
    x = rows_of(n_keys)
    got, want = jacobian_statistics(jnp.asarray(x), FACTOR), of_matrices(matrices(x, FACTOR))
    assert set(got) == set(JACOBIAN_STATISTICS) == set(want)
    for name in want:
        assert got[name].dtype == np.float32
        assert relative_gap(got[name], want[name]) <= TOLERANCE, name


def test_automatic_differentiation_gives_the_same():
    x = RNG.standard_normal((20, 6)) * np.geomspace(0.1, 5, 20)[:, None]
    with with_float64("float64"):
        j = np.asarray(jax.vmap(jax.jacfwd(jax.nn.softmax))(jnp.asarray(x)))
        got = {k: np.asarray(v) for k, v in jacobian_statistics(jnp.asarray(x), 1.0).items()}
    # float64 throughout; 1 - p cancels in the derivative's diagonal, at most to 1e-6 here
    for name, want in of_matrices(j).items():
        assert relative_gap(got[name], want) <= 1e-9, name


def test_planted_errors_are_seen():
    x = rows_of(10)
    got = jacobian_statistics(jnp.asarray(x), FACTOR)
    p = np.asarray(jax.nn.softmax(jnp.asarray(x) * np.float32(FACTOR)), float)
    s2, s3 = (p**2).sum(-1), (p**3).sum(-1)
    assert relative_gap(got["jacobian_frobenius_sq"], s2 + 2 * s3 + s2**2) > 0.1  # sign
    s2, s3 = np.float32(s2), np.float32(s3)
    as_written = s2 - 2 * s3 + s2**2
    assert relative_gap(got["jacobian_frobenius_sq"], as_written.astype(float)) > 1e-3  # cancels
    want = of_matrices(matrices(x, FACTOR))
    ranked = np.sort(p)
    rayleigh = (ranked[:, -1] + ranked[:, -2] - (ranked[:, -1] - ranked[:, -2]) ** 2) / 2
    assert relative_gap(rayleigh, want["jacobian_spectral"]) > 1e-2  # a bound, not the root


@pytest.mark.parametrize("spread", [1e-6, 1e-3, 0.1, 1.0])
def test_newton_has_converged_where_the_keys_crowd_below_the_largest(spread):
    """Rows for which the first bound is poor: clusters at two or more distances from the top."""
    depth = np.geomspace(1e-3, 30, 40)[:, None]
    crowd = np.concatenate([np.zeros((40, 1)), -spread - depth * RNG.random((40, 99)) ** 4], 1)
    x = crowd.astype(np.float32)
    want = of_matrices(matrices(x, 1.0))["jacobian_spectral"]
    got = jacobian_statistics(jnp.asarray(x), 1.0, ("jacobian_spectral",))["jacobian_spectral"]
    assert relative_gap(got, want) <= TOLERANCE


def test_65536_keys_keep_the_accuracy():
    x = (RNG.standard_normal((3, 65536)) * [[0.1], [3.0], [6.0]]).astype(np.float32)
    got = jacobian_statistics(jnp.asarray(x), 1.0)
    got = {name: np.asarray(value, float) for name, value in got.items()}
    p = np.exp(x.astype(float) - x.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    s2 = (p**2).sum(-1)
    assert relative_gap(got["jacobian_trace"], 1 - s2) <= TOLERANCE
    assert relative_gap(got["jacobian_frobenius_sq"], s2 - 2 * (p**3).sum(-1) + s2**2) <= TOLERANCE

    def secular(root):
        return (p / (p - root[:, None])).sum(-1)

    top = got["jacobian_spectral"]
    assert (secular(top * (1 - TOLERANCE)) * secular(top * (1 + TOLERANCE)) < 0).all()


def test_degenerate_rows_are_decided():
    names = tuple(JACOBIAN_STATISTICS)
    one = jacobian_statistics(jnp.array([[3.0]]), 1.0, names)
    hot = jacobian_statistics(jnp.array([[0.0, 1e4, 0.0]]), 1.0, names)
    assert [float(values[name][0]) for values in (one, hot) for name in names] == [0] * 8
    tied = jacobian_statistics(jnp.zeros((1, 4)), 1.0, ("jacobian_spectral", "max_prob"))
    assert float(tied["jacobian_spectral"][0]) == float(tied["max_prob"][0]) == 0.25


eighths = st.integers(-160, 160).map(lambda k: k / 8)
SHAPE = (8, 7)


@given(arrays(np.float32, SHAPE, elements=eighths), st.integers(-1000, 1000), st.randoms())
@settings(max_examples=40, deadline=None)
def test_bounds_shift_and_order(x, shift, random):
    names = (*JACOBIAN_STATISTICS, *ROW_STATISTICS)
    order = random.sample(range(SHAPE[1]), SHAPE[1])
    base = jacobian_statistics(jnp.asarray(x), 1.0, names)
    shifted = jacobian_statistics(jnp.asarray(x + np.float32(shift)), 1.0, names)
    permuted = jacobian_statistics(jnp.asarray(x[:, order]), 1.0, names)
    for name, value in base.items():
        np.testing.assert_array_equal(value, shifted[name], err_msg=name)
        assert relative_gap(permuted[name], np.asarray(value, float)) <= TOLERANCE, name
    value = {name: np.asarray(array, float) for name, array in base.items()}
    up, top = 1 + TOLERANCE, value["jacobian_spectral"]
    p1, p2 = value["max_prob"], value["second_prob"]
    assert ((p2 <= top * up) & (top <= p1 * up)).all()
    largest = np.diagonal(matrices(x, 1.0), axis1=1, axis2=2).max(-1)  # p (1 - p)
    assert ((largest <= top * up) & (top <= 2 * largest * up)).all()
    assert (top <= np.minimum(value["jacobian_trace"], 0.5) * up).all()
    assert (top <= value["jacobian_frobenius"] * up).all()
    assert (value["jacobian_frobenius"] <= value["jacobian_trace"] * up).all()
    assert (value["jacobian_frobenius_sq"] <= 0.25 * up).all()
