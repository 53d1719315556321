"""Fixed-tree reductions against exact sums; the same bits on one core and on two."""

import hashlib
import math
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verify_variance.simulations.jacobian import JACOBIAN_STATISTICS, jacobian_statistics
from verify_variance.simulations.reduce import (
    bin_counts,
    block_moments,
    row_moments,
    tree_max,
    tree_sum,
)
from verify_variance.simulations.softmax import ROW_STATISTICS
from verify_variance.stats.counts import BINS, BinCounts
from verify_variance.stats.moments import Moments

EPS = float(np.finfo(np.float32).eps) / 2  # one rounding
RNG = np.random.default_rng(20)
jitted_moments, jitted_counts = jax.jit(row_moments), jax.jit(bin_counts)


@pytest.mark.parametrize("length", [1, 5, 13])
def test_a_tree_over_integers_is_exact_on_every_axis_and_length(length):
    x = RNG.integers(-1000, 1000, (length, 2, length)).astype(np.float32)
    for axis in (0, -1):
        total, largest = jax.jit(lambda x, axis=axis: (tree_sum(x, axis), tree_max(x, axis)))(x)
        np.testing.assert_array_equal(total, x.sum(axis))
        np.testing.assert_array_equal(largest, x.max(axis))


def test_padding_with_zeros_changes_no_bit():
    x = RNG.standard_normal((3, 11)).astype(np.float32)
    folded = jax.jit(tree_sum)
    for padded in (12, 32):
        wide = np.pad(x, ((0, 0), (0, padded - 11)))
        assert np.asarray(folded(wide)).tobytes() == np.asarray(folded(x)).tobytes()


def test_rounding_grows_with_the_logarithm_where_a_running_total_fails():
    x = RNG.random(65536).astype(np.float32)
    exact = math.fsum(x.tolist())
    bound = 16 * EPS  # log2(65536) roundings
    assert abs(float(jax.jit(tree_sum)(x)) / exact - 1) <= bound
    tenth = np.full(65536, 0.1, np.float32)
    assert abs(float(np.cumsum(tenth)[-1]) / math.fsum(tenth.tolist()) - 1) > bound


def test_an_empty_axis_is_refused():
    with pytest.raises(ValueError, match="at least one element, got 0"):
        tree_sum(jnp.zeros((2, 0)))


@pytest.mark.parametrize("valid", [1, 700, 1000])
def test_block_moments_are_those_of_the_valid_rows(valid):
    x = (5 + RNG.gamma(2.0, size=1000)).astype(np.float32)
    x[valid:] = np.nan if valid < 1000 else x[valid:]
    got = block_moments(np.asarray(jitted_moments({"x": jnp.asarray(x)}, valid)["x"]), valid)
    want = Moments.of(x[:valid], order=3)
    assert got.count == valid
    # c is within a rounding or so of the mean and the sums of d^r carry a dozen roundings each
    assert got.mean == pytest.approx(want.mean, rel=EPS)
    d = np.abs(x[:valid] - want.mean).astype(float)
    for r in (2, 3):
        scale = (want.mean * r * d ** (r - 1) + d**r).sum()
        assert abs(got.sums[r - 2] - want.sums[r - 2]) <= 20 * EPS * scale


def test_the_mean_is_not_limited_by_the_rounding_of_the_centre():
    x = (1000 + RNG.random(4096)).astype(np.float32)
    got = block_moments(np.asarray(jitted_moments({"x": jnp.asarray(x)}, 4096)["x"]), 4096)
    assert abs(got.mean - x.astype(float).mean()) < 1e-7  # the centre's own rounding is 3e-5


@given(st.lists(st.floats(0, 0.5, width=32), min_size=1, max_size=40))
@settings(max_examples=50, deadline=None)
def test_a_median_from_counts_is_within_a_bin_of_the_sorted_one(values):
    padded = np.full(40, 0.3, np.float32)
    padded[: len(values)] = values
    counts = np.asarray(jitted_counts(jnp.asarray(padded), len(values)))
    assert counts.sum() == len(values)
    estimate = BinCounts(counts).quantile(0.5)
    low, high = sorted(values)[(len(values) - 1) // 2], sorted(values)[len(values) // 2]
    tiny = float(np.finfo(np.float32).tiny)
    assert low / (1 + 1 / 128) - tiny <= estimate <= high * (1 + 1 / 128) + tiny


def test_counts_of_blocks_add_up_and_outliers_join_the_outermost_bins():
    x = RNG.random(4000).astype(np.float32) ** 8
    blocks = [np.asarray(jitted_counts(jnp.asarray(x[i::4]), 1000)) for i in range(4)]
    whole = np.asarray(jitted_counts(jnp.asarray(x), 4000))
    np.testing.assert_array_equal(sum(blocks), whole)
    assert BinCounts(whole).quantile(0.5) == pytest.approx(np.median(x), rel=0.01)
    assert BinCounts(whole).quantile(0.9) == pytest.approx(np.quantile(x, 0.9), rel=0.01)
    edge = np.asarray(jitted_counts(jnp.array([0.0, 1.0, 2.0]), 3))
    assert (edge[0], edge[BINS - 1]) == (1, 2)
    with pytest.raises(ValueError, match="counts must hold at least one value"):
        BinCounts(np.zeros(BINS, np.int32)).quantile(0.5)


def digest_of_all_statistics():
    """Hash of every row statistic, over shapes that split unevenly, and of sums over the rows."""
    every = (*ROW_STATISTICS, *JACOBIAN_STATISTICS)
    digest = hashlib.sha256()
    for rows, n_keys, names in ((30_011, 10, every), (997, 301, ("entropy", "jacobian_spectral"))):
        logits = np.random.default_rng(5).standard_normal((rows, n_keys)).astype(np.float32)
        statistics = jacobian_statistics(jax.device_put(logits, jax.devices()[-1]), 3.0, names)
        for name in names:
            digest.update(np.asarray(statistics[name]).tobytes())
        sums = jitted_moments({"entropy": statistics["entropy"]}, rows - 7)
        digest.update(np.asarray(sums["entropy"]).tobytes())
    return digest.hexdigest()


def test_one_core_and_a_second_device_give_the_same_bits():
    flags = "--xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    devices, digest = done.stdout.split()
    assert devices == "2"
    if jax.default_backend() == "cpu":
        assert digest == digest_of_all_statistics()


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(jax.device_count(), digest_of_all_statistics())
