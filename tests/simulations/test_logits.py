"""The kernel against a plain recomputation, against theory, and against itself elsewhere."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache, partial

import jax
import numpy as np
import pytest
from scipy import special
from verify_variance.simulations import logits
from verify_variance.simulations.keys import block_words
from verify_variance.simulations.logits import BLOCK, measure_pairs, to_moments
from verify_variance.simulations.recipes import block_key, cell_words, recipe_of, with_float64
from verify_variance.simulations.vectors import draw_logits, draw_vectors
from verify_variance.stats.cases import Case
from verify_variance.stats.moments import Moments

CASES = [
    Case(d_k=1),
    Case(d_k=2),
    Case(d_k=64),
    Case(d_k=65, mean_q=0.5, mean_k=-2.0, sigma_q=0.3, sigma_k=3.0),
    Case(d_k=7, correlation=0.6),
    Case(d_k=9, dtype="float64", elements_k="laplace"),
    Case(d_k=33, elements_q="student-t:9", elements_k="sparse:0.1"),
    Case(d_k=33, elements_q="rademacher", elements_k="normal", mean_k=1.0),
    Case(d_k=5, elements_q="sphere", elements_k="exponential", sigma_q=2.0, mean_k=0.5),
    Case(d_k=64, elements_q="uniform", elements_k="sphere"),
    Case(d_k=3, elements_q="sphere", elements_k="sphere", sigma_k=0.1),
    Case(d_k=1, elements_q="rademacher", elements_k="rademacher"),
    Case(d_k=97, elements_q="rademacher", elements_k="rademacher", sigma_q=1.5, mean_k=0.7),
    Case(d_k=64, elements_q="rademacher", elements_k="rademacher", dtype="float64", mean_q=0.1),
]
SEED = int(np.random.default_rng().integers(2**40))
in_all_cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.canonical())


@lru_cache
def compiled(recipe, rows, keys):
    return jax.jit(partial(draw_logits, recipe, rows=rows, keys=keys))


def kernel_logits(case, block, rows, keys=None):
    recipe, numbers = recipe_of(case)
    words = [np.uint32(word) for word in block_words(block)]
    key = jax.jit(block_key)(cell_words(case, SEED), *words)
    with with_float64(case.dtype):
        return np.asarray(compiled(recipe, rows, keys)(key=key, numbers=numbers))


def rounding(case, q, k):
    """A bound on a logit's rounding: each product and partial sum may lose an ulp.

    The partial sums of random signs stay below a few root sums of squares, and the elements
    themselves are rounded once more in the kernel's fused multiply-adds.
    """
    eps = np.finfo(case.dtype).eps
    scale = np.sqrt(((q * k) ** 2).sum(-1)) + np.abs((q * k).sum(-1)) + np.abs(q * k).max()
    return 4 * eps * math.sqrt(case.d_k + 4) * scale


@in_all_cases
def test_logits_are_the_dot_products_of_the_vectors(case):
    q, k = (v.astype(float) for v in draw_vectors(case, SEED, 3, 1024))
    assert q.shape == k.shape == (1024, case.d_k)
    exact = (q * k).sum(-1)
    assert (np.abs(kernel_logits(case, 3, 1024) - exact) <= rounding(case, q, k)).all()


@in_all_cases
def test_rows_share_their_query(case):
    q, k = (v.astype(float) for v in draw_vectors(case, SEED, 3, 50, 4))
    assert (q.shape, k.shape) == ((50, case.d_k), (50, 4, case.d_k))
    exact = np.einsum("rd,rkd->rk", q, k)
    got = kernel_logits(case, 3, 50, 4)
    assert (np.abs(got - exact) <= rounding(case, q[:, None], k)).all()


@pytest.mark.parametrize("case", [Case(d_k=7), CASES[-2]], ids=lambda case: case.elements)
def test_one_key_a_row_is_a_pair(case):
    assert np.array_equal(kernel_logits(case, 0, 1024, 1)[:, 0], kernel_logits(case, 0, 1024))


def test_lanes_of_rows_must_fit_a_word():
    with pytest.raises(ValueError, match=r"rows x keys must be at most 2\^32, got 65536 x 65537"):
        kernel_logits(Case(), 0, 65536, 65537)


@pytest.mark.parametrize("d_k", [1, 31, 32, 33, 63, 64, 65, 1000])
def test_counting_bits_equals_multiplying_signs(d_k):
    case = Case(d_k=d_k, elements_q="rademacher", elements_k="rademacher")
    q, k = draw_vectors(case, SEED, 0, 1024)
    assert set(np.unique(np.concatenate([q, k]))) == {-1.0, 1.0}
    assert np.array_equal(kernel_logits(case, 0, 1024), (q * k).sum(-1))


def test_the_sphere_has_its_norm():
    q, k = draw_vectors(Case(d_k=48, elements_q="sphere", sigma_q=0.5), SEED, 0, 100)
    assert np.allclose((q.astype(float) ** 2).sum(-1), 48 / 4, rtol=1e-6)
    assert (k.astype(float) ** 2).sum(-1).std() > 1


def test_correlation_is_that_of_q_and_k():
    q, k = draw_vectors(Case(d_k=64, correlation=-0.8, sigma_k=3.0), SEED, 0, 4096)
    n = q.size
    # sd of sum q k / n for normals: sqrt(1 + rho^2) sigma_q sigma_k / sqrt(n); 1e-8
    limit = -special.ndtri(5e-9) * math.sqrt(1.64) * 3 / math.sqrt(n)
    assert abs((q.astype(float) * k).mean() + 0.8 * 3) < limit
    assert abs((k.astype(float) ** 2).mean() / 9 - 1) < limit


def test_elements_hold_only_what_their_type_can():
    import jax.numpy as jnp

    for dtype in ("float16", "bfloat16"):
        q, k = draw_vectors(Case(d_k=8, mean_q=3.0, dtype=dtype), SEED, 0, 1024)
        x = kernel_logits(Case(d_k=8, mean_q=3.0, dtype=dtype), 0, 1024)
        for values in (q, k, x):
            held = np.asarray(jnp.asarray(values).astype(dtype).astype(jnp.float32))
            assert np.array_equal(values, held)


# --- moments


def assert_moments(got, x, eps):
    """To the rounding of the kernel: y = x - m loses eps max|x|, which moves y^r by r |y|^(r-1)
    times as much; the r - 1 products and at most 16 additions lose eps of sum |y|^r each."""
    want = Moments.of(x, got.order)
    assert got.count == want.count
    largest, y = eps * np.abs(x).max(), np.abs(x - want.mean)
    assert abs(got.mean - want.mean) <= 2 * largest
    for r in range(2, got.order + 1):
        bound = (r + 16) * eps * (y**r).sum() + 2 * r * largest * ((y + largest) ** (r - 1)).sum()
        assert abs(got.sums[r - 2] - want.sums[r - 2]) <= bound


@in_all_cases
def test_moments_of_a_masked_block(case):
    for count in (2, 777):
        x = kernel_logits(case, 0, 1024).astype(float)[:count]
        moments = to_moments(measure_pairs(case, SEED, 0, 1, count)[0])
        eps = float(np.finfo(case.dtype).eps)
        assert_moments(moments["logit"], x, eps)
        assert_moments(moments["abs_logit"], np.abs(x), eps)


def test_lanes_beyond_the_draws_change_no_bit(monkeypatch):
    for case in (Case(d_k=3), Case(d_k=65, elements_q="rademacher", elements_k="rademacher")):
        for count in (2, 1025, 20_000):
            narrow = measure_pairs(case, SEED, 0, 1, count)
            with monkeypatch.context() as m:
                m.setattr(logits, "FEWEST_LANES", BLOCK)
                assert np.array_equal(measure_pairs(case, SEED, 0, 1, count), narrow)


def test_a_block_has_the_same_bits_in_any_company():
    case = Case(d_k=3)
    together = measure_pairs(case, SEED, 0, 5, 1000)
    assert np.array_equal(measure_pairs(case, SEED, 2, 2), together[2:4])
    assert np.array_equal(measure_pairs(case, SEED, 4, 1, 1000), together[4:])
    assert np.array_equal(measure_pairs(case, SEED, 0, 1), together[:1])


def test_blocks_seeds_and_cells_differ():
    """A kernel that ignores its block index gives equal blocks, and is far too fast."""
    blocks = [0, 1, 2**32 - 1, 2**32, 2**64 - 1]
    cases = [Case(d_k=3), Case(d_k=4), Case(d_k=3, sigma_q=2.0)]
    rows = [
        measure_pairs(case, seed, b, 1)[0, 1:] for case in cases for seed in (0, 1) for b in blocks
    ]
    assert len({tuple(row) for row in rows}) == len(rows)
    assert len({row[2] for row in rows}) == len(rows)


def test_more_blocks_than_one_call_holds(monkeypatch):
    whole = measure_pairs(Case(d_k=1), SEED, 0, 5, 77)
    monkeypatch.setattr(logits, "CALL_BLOCKS", 2)
    logits._compiled.cache_clear()
    assert np.array_equal(measure_pairs(Case(d_k=1), SEED, 0, 5, 77), whole)


def test_one_compilation_serves_every_number():
    logits._compiled.cache_clear()
    base = Case(elements_q="student-t:9")
    for case in (
        base,
        replace(base, d_k=5, sigma_q=2.0),
        replace(base, d_k=1, mean_k=1.0),
        replace(base, elements_q="student-t:4"),
    ):
        measure_pairs(case, SEED, 1, 3, 10)
    assert logits._compiled.cache_info().currsize == 1
    recipe, _ = recipe_of(base)
    mesh = logits.device_mesh(jax.local_devices())
    assert logits._compiled(recipe, BLOCK, mesh)._cache_size() == 1


def test_float64_leaves_the_global_switch_alone():
    row = measure_pairs(Case(d_k=2, dtype="float64"), SEED, 0, 1, 100)[0]
    assert not jax.config.jax_enable_x64
    assert np.float32(row[1]) != row[1]


# --- theory: each at 1e-8 or below


def merged(case, n_blocks, name="logit"):
    rows = measure_pairs(case, SEED, 0, n_blocks)
    total = to_moments(rows[0])[name]
    for row in rows[1:]:
        total = total.merge(to_moments(row)[name])
    return total


@pytest.mark.parametrize(
    ("case", "mean", "variance", "kurtosis"),
    [
        (Case(d_k=64), 0, 64, 6 / 64),
        (Case(d_k=1), 0, 1, 6),
        (Case(d_k=64, correlation=0.5), 32, 80, 6 * (1 + 6 / 4 + 1 / 16) / (64 * 1.25**2)),
        (Case(d_k=3, elements_q="uniform", elements_k="laplace", sigma_q=2.0), 0, 12, 7.8 / 3),
        (Case(d_k=64, elements_q="rademacher", elements_k="rademacher"), 0, 64, -2 / 64),
        (Case(d_k=16, elements_q="sphere"), 0, 16, 0),
        (Case(d_k=16, elements_q="sphere", elements_k="sphere"), 0, 16, -6 / 18),
        (Case(d_k=65536, mean_q=1.0, mean_k=1.0), 65536, 3 * 65536, 12 / 65536),
    ],
    ids=lambda value: value.canonical() if isinstance(value, Case) else "",
)
def test_mean_and_variance_are_those_of_theory(case, mean, variance, kurtosis):
    """`mean`, `variance` and excess kurtosis as in the table of the logit's moments."""
    if case.d_k > 1000:
        m = to_moments(measure_pairs(case, SEED, 0, 1, 1024)[0])["logit"]
    else:
        m = merged(case, 8)
    limit = -special.ndtri(5e-10)
    assert abs(m.mean - mean) < limit * math.sqrt(variance / m.count)
    error = math.sqrt((2 + kurtosis) / m.count)
    assert abs(m.central(2) / variance - 1) < limit * error
    assert abs(m.central(2) / (variance * 1.1) - 1) > limit * error or error > 0.01


def test_mean_absolute_logit():
    m = merged(Case(d_k=4), 4, "abs_logit")
    exact = 2 * math.gamma(2.5) / (math.sqrt(math.pi) * math.gamma(2))
    assert abs(m.mean - exact) < -special.ndtri(5e-10) * math.sqrt((4 - exact**2) / m.count)


def test_a_large_mean_costs_no_digits():
    """Totals are centred: the float32 variance at mean 100 is that of float64 draws rounded."""
    case = Case(d_k=4096, mean_q=10.0, mean_k=10.0)
    q, k = (v.astype(float) for v in draw_vectors(case, SEED, 0, 1024))
    exact = Moments.of((q * k).sum(-1))
    got = to_moments(measure_pairs(case, SEED, 0, 1, 1024)[0])["logit"]
    assert abs(got.sums[0] / exact.sums[0] - 1) < 1e-5


# --- the same bits elsewhere

_PROGRAM = """
import hashlib
from verify_variance.simulations.logits import measure_pairs
from verify_variance.stats.cases import Case
rows = [measure_pairs(case, 5, 0, 6, 1234).tobytes() for case in (
    Case(d_k=33), Case(d_k=64, elements_q="rademacher", elements_k="rademacher", mean_q=0.3),
    Case(d_k=3, elements_q="sphere", dtype="float64"))]
import jax
print(len(jax.devices()), hashlib.sha256(b"".join(rows)).hexdigest())
"""


def test_same_bits_on_any_number_of_devices_and_cores():
    flags = {"JAX_PLATFORMS": "cpu"}
    four = {**flags, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    runs = [
        subprocess.Popen(
            [*prefix, sys.executable, "-c", _PROGRAM],
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            text=True,
        )
        for prefix, env in [([], flags), ([], four), (_one_core(), flags)]
    ]
    devices, digests = zip(*(run.communicate()[0].split() for run in runs), strict=True)
    assert devices == ("1", "4", "1")
    assert len(set(digests)) == 1


def _one_core():
    """A prefix that keeps a program on one core, where the machine has the means."""
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return [] if core is None else ["taskset", "-c", str(core)]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case(d_k=None, logit_std=1.0), "d_k must be given to draw q and k, got None"),
        (Case(elements_k="sphere", mean_k=1.0), "mean_k must be 0 for a normalised law, got 1.0"),
        (Case(elements_q="sphere", dtype="float16"), "dtype must be float32 or float64 on a sph"),
    ],
)
def test_what_cannot_be_drawn_is_refused(case, message):
    with pytest.raises(ValueError, match=message):
        measure_pairs(case, 0, 0, 1)
