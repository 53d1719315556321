"""Half precision: the same bits as NumPy's own float16, and overflow as often as theory says."""

import jax
import ml_dtypes
import numpy as np
import pytest
import verify_variance as vv
from scipy.special import ndtr
from scipy.stats import binom
from verify_variance.simulations.half import half_logits, half_recipe
from verify_variance.simulations.half_rows import HalfRow
from verify_variance.simulations.keys import block_words
from verify_variance.simulations.recipes import block_key, cell_words
from verify_variance.simulations.rounding import rounded
from verify_variance.simulations.vectors import draw_vectors
from verify_variance.stats.cases import Case

KINDS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
ROWS = 500


@pytest.mark.parametrize("dtype", KINDS)
def test_rounding_is_that_of_a_cast(dtype):
    """Subnormal, normal and infinite numbers, ties among them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(20_000) * 10.0 ** rng.uniform(-9, 6, 20_000)
    special = [0, 65519.99, 65520, 65536, 2**-25, 1.5 * 2**-24, 2**-14, 2**-14 - 2**-26, 1 + 2**-11]
    x = np.append(x, special).astype(np.float32)
    with np.errstate(over="ignore"):
        wanted = x.astype(KINDS[dtype]).astype(np.float32)
    got = np.asarray(jax.jit(rounded, static_argnums=1)(x, dtype))
    assert np.array_equal(got, wanted)
    assert np.array_equal(np.asarray(jax.jit(rounded, static_argnums=1)(-x, dtype)), -wanted)


def drawn_logits(case):
    recipe, numbers = half_recipe(case)
    key = jax.jit(block_key)(cell_words(case, 3), *(np.uint32(word) for word in block_words(0)))
    draw = jax.jit(half_logits, static_argnums=(0, 3))
    return np.asarray(draw(recipe, key, numbers, ROWS))


def numpy_logits(case):
    """Step by step in NumPy's own types, from the vectors that the kernel draws."""
    stored = KINDS[case.dtype]
    products = KINDS[case.dtype_products or "float32"]
    running = KINDS[case.dtype_accumulate or "float32"]
    q, k = (x.astype(stored) for x in draw_vectors(case, 3, 0, ROWS))
    root = np.float32(case.d_k**-0.25)
    if case.scale == "query-only":
        q = (q.astype(np.float32) * np.float32(case.d_k**-0.5)).astype(stored)
    if case.scale == "fourth-root":
        q, k = ((x.astype(np.float32) * root).astype(stored) for x in (q, k))
    total = np.zeros(ROWS, running)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(case.d_k):
            of_pair = (q[:, i].astype(np.float32) * k[:, i].astype(np.float32)).astype(products)
            total = (total.astype(np.float32) + of_pair.astype(np.float32)).astype(running)
        x = total.astype(stored).astype(np.float32)
        if case.scale == "sqrt-dk":
            x = (x * np.float32(case.d_k**-0.5)).astype(stored).astype(np.float32)
    return x


@pytest.mark.parametrize("scale", ["none", "sqrt-dk", "query-only", "fourth-root"])
@pytest.mark.parametrize(
    ("dtype", "products", "accumulate"),
    [
        ("float16", None, None),
        ("float16", "float16", "float16"),
        ("bfloat16", None, "bfloat16"),
        ("bfloat16", "bfloat16", None),
        ("float16", None, "bfloat16"),
    ],
)
@pytest.mark.parametrize(("d_k", "sigma"), [(7, 1.0), (64, 60.0)])
def test_logits_have_the_bits_of_numpy(scale, dtype, products, accumulate, d_k, sigma):
    case = Case(d_k=d_k, sigma_q=sigma, sigma_k=sigma, mean_k=0.5, scale=scale, dtype=dtype,
                dtype_products=products, dtype_accumulate=accumulate)  # fmt: skip
    got, wanted = drawn_logits(case), numpy_logits(case)
    assert np.array_equal(got, wanted, equal_nan=True)
    if dtype == "float16" and sigma > 1 and scale in ("none", "sqrt-dk"):
        assert not np.isfinite(wanted).all()  # there was something to get right


@pytest.mark.parametrize("naive", [False, True])
@pytest.mark.parametrize("dtype", KINDS)
def test_rows_are_whole_where_numpy_has_probabilities(dtype, naive):
    x = 6 * np.random.default_rng(1).standard_normal((ROWS, 12)).astype(np.float32)
    x[0], x[1, 3], x[2], x[3] = -200, np.inf, [-np.inf, *[0] * 11], 200
    row = HalfRow(jax.numpy.asarray(x), 1.0, dtype, naive)
    kind = KINDS[dtype]
    with np.errstate(over="ignore", invalid="ignore"):
        y = x.astype(kind).astype(np.float32)
        y = y if naive else (y - y.max(1, keepdims=True)).astype(kind).astype(np.float32)
        terms = np.exp(y).astype(kind).astype(np.float32)
        total = terms.sum(1).astype(kind).astype(np.float32)
        p = terms / total[:, None]
    whole = np.isfinite(total) & (total > 0)
    assert np.array_equal(np.asarray(row.whole), whole)
    assert list(whole[:4]) == ([False, False, True, False] if naive else [True, False, True, True])
    weights = np.asarray(row.weights)
    # float32 exponentials of JAX and NumPy differ by an ulp, and so may their roundings
    ulps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 1e-6}[dtype]
    got = weights / weights.sum(1, keepdims=True)
    assert np.allclose(got[whole], p[whole], rtol=4 * ulps, atol=1e-7)


def test_float16_overflows_as_often_as_the_exact_law_says_and_bfloat16_never():
    """200000 draws, false alarm 1e-6 a row; the normal tail (13 expected, not 300) is refuted."""
    case = {"dk": 4, "sigma": 90, "samples": 200_000, "quantities": "overflow"}
    record = vv.verify(dtype=["float16", "bfloat16"], scale=["none", "sqrt-dk"], **case).record
    half, half_scaled, wide, _ = record["rows"]
    assert record["verdict"] == "match"
    assert half["theory"] > 1e-3
    assert wide["estimate"] == wide["theory"] == 0.0
    normal = 2 * ndtr(-65520 / (2 * 90**2))
    for row in (half, half_scaled):
        assert binom.sf(round(row["estimate"] * 200_000) - 1, 200_000, normal) < 1e-6


def test_scaling_the_query_first_avoids_it():
    case = {"dk": 64, "sigma": 60, "samples": 20_000, "quantities": ["std", "overflow"]}
    result = vv.verify(dtype="float16", scale=["sqrt-dk", "query-only"], **case)
    verdicts = {(r["quantity"], r["scale"]): r["verdict"] for r in result.record["rows"]}
    assert verdicts == {
        ("std", "sqrt-dk"): "mismatch",
        ("std", "query-only"): "match",
        ("overflow", "sqrt-dk"): "match",
        ("overflow", "query-only"): "match",
    }
    assert "are inf or nan and left out; scale q first, or use" in " ".join(result.text().split())
    assert result.record["rows"][0]["draws"] < 20_000


def test_a_running_sum_in_float16_lies_in_its_bracket():
    result = vv.verify(dk=64, sigma=60, samples=50_000, quantities="overflow", dtype="float16",
                       dtype_accumulate="float16")  # fmt: skip
    (row,) = result.record["rows"]
    assert (row["theory_kind"], row["verdict"]) == ("bracket", "match")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_moments_and_rows_match_within_rounding(dtype):
    quantities = ["std", "mean", "kurtosis", "entropy", "sum_p2", "broken_rows"]
    case = {"dk": [16, 64], "dtype": dtype, "samples": 20_000, "scale": "sqrt-dk"}
    assert vv.verify(quantities=quantities, **case).verdict == "match"


def test_a_long_sum_in_bfloat16_loses_its_mean():
    """Adding 1 to 512 changes nothing in 8 bits: a mismatch although rounding is allowed."""
    case = {"dk": 1024, "mean_q": 1, "mean_k": 1, "samples": 5_000, "quantities": "mean"}
    assert vv.verify(dtype="bfloat16", dtype_accumulate="bfloat16", **case).verdict == "mismatch"
    assert vv.verify(dtype="bfloat16", **case).verdict == "match"


def test_naive_softmax_breaks_and_stable_softmax_does_not():
    case = {"dk": 1024, "n_keys": 64, "samples": 10_000, "scale": ["none", "sqrt-dk"]}
    stable, naive = (vv.verify(softmax=kind, quantities=["broken_rows", "sum_p2"], **case).record
                     for kind in ("stable", "naive"))  # fmt: skip
    assert stable["verdict"] == "match"
    rows = {(row["quantity"], row["scale"]): row for row in naive["rows"]}
    assert rows["broken_rows", "none"]["verdict"] == "match"
    assert rows["broken_rows", "none"]["estimate"] > 0.1
    assert rows["sum_p2", "none"]["verdict"] == "mismatch"  # rows were lost
    assert rows["sum_p2", "sqrt-dk"]["verdict"] == "match"


def test_all_logits_lost_is_a_mismatch_and_no_crash():
    result = vv.verify(dk=8, sigma=1e4, dtype="float16", samples=1000)
    assert result.verdict == "mismatch"
    assert result.record["rows"][0]["estimate"] is None
