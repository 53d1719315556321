"""Row statistics in float32 against their definition in float64, saturated and tied rows too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from verify_variance.simulations.recipes import with_float64
from verify_variance.simulations.softmax import ROW_STATISTICS, row_statistics

TOLERANCE = 1e-6  # what the module promises in float32
RNG = np.random.default_rng(7)
FACTOR = 0.37


def defined(logits, factor):
    """The definitions in float64 from the scaled logits as their dtype holds them."""
    x = (logits * logits.dtype.type(factor)).astype(float)
    w = np.exp(x - x.max(-1, keepdims=True))
    p = w / w.sum(-1, keepdims=True)
    rest = p @ (1 - np.eye(p.shape[1]))  # 1 - p without cancellation
    large = p > 0.5
    log_p = np.where(large, np.log1p(-rest * large), np.log(np.where(p > 0, p, 1)))
    ranked = np.pad(np.sort(p)[:, ::-1], ((0, 0), (0, 2)))
    return {
        "max_prob": ranked[:, 0],
        "second_prob": ranked[:, 1],
        "third_prob": ranked[:, 2],
        "entropy": -(p * log_p).sum(-1),
        "sum_p2": (p**2).sum(-1),
        "saturated": (ranked[:, 0] > 0.99).astype(float),
    }


def relative_gap(got, want):
    """Largest relative gap; weights that underflow may cost their size times their gap."""
    got = np.asarray(got, float)
    assert np.isfinite(got).all()
    lost = want.size * 100 * float(np.finfo(np.float32).tiny)
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


@pytest.mark.parametrize("n_keys", [1, 2, 3, 10, 600])
def test_every_statistic_agrees_with_its_definition(n_keys):
    x = rows_of(n_keys)
    got, want = row_statistics(jnp.asarray(x), FACTOR), defined(x, FACTOR)
    assert set(got) == set(ROW_STATISTICS) == set(want)
    for name in want:
        assert got[name].dtype == np.float32
        assert relative_gap(got[name], want[name]) <= TOLERANCE, name


def test_float64_logits_are_measured_in_float64():
    x = rows_of(7).astype(float)
    with with_float64("float64"):
        got = row_statistics(jnp.asarray(x), FACTOR)
        assert all(value.dtype == np.float64 for value in got.values())
        got = {name: np.asarray(value) for name, value in got.items()}
    for name, want in defined(x, FACTOR).items():
        assert relative_gap(got[name], want) <= 1e-13, name


def test_planted_errors_are_seen():
    x = rows_of(10)
    got, want = row_statistics(jnp.asarray(x), FACTOR), defined(x, FACTOR)
    assert relative_gap(got["entropy"], want["entropy"] / np.log(2)) > 0.1  # in bits
    assert relative_gap(got["second_prob"], want["third_prob"]) > 0.1
    p = np.asarray(jax.nn.softmax(jnp.asarray(x) * np.float32(FACTOR)))
    naive = -(p * np.log(np.maximum(p, 1e-37))).sum(-1)
    assert relative_gap(naive, want["entropy"]) > 1e-3  # as usually written in float32


def test_65536_keys_keep_the_accuracy():
    x = (RNG.standard_normal((3, 65536)) * [[0.1], [3.0], [30.0]]).astype(np.float32)
    got = row_statistics(jnp.asarray(x), 1.0)
    p = np.exp(x.astype(float) - x.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    assert relative_gap(got["max_prob"], p.max(-1)) <= TOLERANCE
    assert relative_gap(got["sum_p2"], (p**2).sum(-1)) <= TOLERANCE
    entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
    assert relative_gap(got["entropy"], entropy) <= TOLERANCE


def test_degenerate_rows_are_decided():
    one = row_statistics(jnp.array([[3.0]]), 1.0)
    assert [float(one[name][0]) for name in ROW_STATISTICS] == [1, 0, 0, 0, 1, 1]
    two = row_statistics(jnp.array([[np.inf, 0.0], [-np.inf, -np.inf]]), 1.0)
    assert two["max_prob"].tolist() == [1, 0.5]
    assert two["entropy"].tolist() == pytest.approx([0, np.log(2)])
    assert two["third_prob"].tolist() == [0, 0]


def test_only_what_is_asked_for_comes_back_and_the_factor_compiles_once():
    x = jnp.asarray(rows_of(4))
    assert list(row_statistics(x, 1.0, ("entropy",))) == ["entropy"]
    row_statistics(x, 1.0, ("max_prob",))
    before = row_statistics._cache_size()
    row_statistics(x, 2.0, ("max_prob",))
    assert row_statistics._cache_size() == before


eighths = st.integers(-320, 320).map(lambda k: k / 8)
SHAPE = (8, 7)


@given(arrays(np.float32, SHAPE, elements=eighths), st.integers(-1000, 1000), st.randoms())
@settings(max_examples=60, deadline=None)
def test_a_constant_and_the_order_of_keys_do_not_matter(x, shift, random):
    order = random.sample(range(SHAPE[1]), SHAPE[1])
    base = row_statistics(jnp.asarray(x), 1.0)
    shifted = row_statistics(jnp.asarray(x + np.float32(shift)), 1.0)  # exact: no bit is lost
    permuted = row_statistics(jnp.asarray(x[:, order]), 1.0)
    for name, value in base.items():
        np.testing.assert_array_equal(value, shifted[name], err_msg=name)
        assert relative_gap(permuted[name], np.asarray(value, float)) <= TOLERANCE, name
    p1, p2, p3 = (np.asarray(base[name]) for name in ("max_prob", "second_prob", "third_prob"))
    assert ((p1 >= p2) & (p2 >= p3) & (p1 * 7 >= 1 - 1e-6)).all()
    assert (np.asarray(base["entropy"]) <= np.log(7) * (1 + 1e-6)).all()
