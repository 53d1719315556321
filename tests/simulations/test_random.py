"""The generator: known answers, the transforms' errors, and a battery on what comes out."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32 as jax_threefry
from scipy import special
from verify_variance.simulations import random
from verify_variance.simulations.recipes import with_float64
from verify_variance.simulations.vectors import draw_vectors
from verify_variance.stats.cases import Case

# Random123 1.14, examples/kat_vectors, threefry2x32 20: counter, key, answer
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def hashed(counter, key):
    words = random.threefry_2x32(*(jnp.uint32(w) for w in (*key, *counter)))
    return tuple(int(w) for w in words)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_published_known_answers(counter, key, answer):
    assert hashed(counter, key) == answer


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_a_wrong_rotation_fails_the_known_answers(monkeypatch, counter, key, answer):
    monkeypatch.setattr(random, "_ROTATIONS", ((13, 15, 26, 6), (17, 29, 16, 25)))
    assert hashed(counter, key) != answer


def test_agrees_with_jax_bit_for_bit():
    words = np.random.default_rng().integers(2**32, size=(4, 1000), dtype=np.uint32)
    for key0, key1 in words[:2, :3].T:
        ours = jax.jit(random.threefry_2x32)(key0, key1, words[2], words[3])
        theirs = jax_threefry(jnp.array([key0, key1]), words[2:].ravel())
        assert np.array_equal(np.concatenate(ours), theirs)


def test_no_two_roles_hashes_pairs_or_lanes_share_a_counter():
    """The hash is a bijection of the counter, so that equal counters would give equal words."""
    key, lanes, pairs = (jnp.uint32(1), jnp.uint32(2)), jnp.arange(64), jnp.array([0, 1, 2**19])
    seen = set()
    for role, pair in itertools.product((0, 1, 15), pairs):
        words = np.array(random.random_words(key, lanes.astype(jnp.uint32), role, pair, 8))
        seen |= set(zip(words[::2].ravel(), words[1::2].ravel(), strict=True))
    assert len(seen) == 3 * 3 * 64 * 4


EXTREMES = np.array([0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1], dtype=np.uint32)


@pytest.mark.parametrize("n_words", [1, 2])
def test_extreme_words_give_finite_nonzero_values(n_words):
    grid = np.array(list(itertools.product(EXTREMES, repeat=2 * n_words))).T
    with with_float64("float64"):
        radius, angle = random.to_bits([jnp.asarray(w) for w in grid], n_words)
        u, s = np.asarray(random.uniform(radius)), np.asarray(random.signed_unit(radius))
        z = np.array(random.box_muller(radius, angle))
    assert u.dtype == z.dtype == ("float32", "float64")[n_words - 1]
    assert ((u > 0) & (u < 1) & (s != 0) & (np.abs(s) <= 1)).all()
    assert (np.isfinite(z).all() & (z != 0).any(0)).all()


def test_signed_unit_is_symmetric_and_with_sign_has_its_sign():
    words = jnp.asarray(EXTREMES)
    values = np.asarray(random.signed_unit((words,)))
    assert np.array_equal(np.asarray(random.signed_unit((~words,))), -values)
    assert np.array_equal(random.with_sign((words,), jnp.ones(6)), np.sign(values))


def ulps(got, exact):
    return np.abs(got - exact) / np.spacing(np.abs(exact).astype(np.float32))


def test_negative_log_is_within_3_ulp():
    words = np.random.default_rng().integers(2**31, size=500_000)
    low = 2.0 ** -np.arange(1, 32)
    top = 1 - np.arange(1, 100_000) * 2.0**-24
    u = np.concatenate([words * 2.0**-31 + 2.0**-31, low, top]).astype(np.float32)
    u = np.minimum(u, np.float32(1 - 2.0**-24))
    worst = ulps(np.asarray(jax.jit(random.negative_log)(u)), -np.log(u.astype(float))).max()
    assert worst <= 3


def test_cos_and_sin_are_within_2e_7():
    s = np.linspace(-1, 1, 400_001).astype(np.float32)
    cos, sin = jax.jit(random.cos_sin_quarter_turns)(s)
    angle = s.astype(float) * np.pi / 2
    assert np.abs(np.asarray(cos) - np.cos(angle)).max() <= 2e-7
    assert np.abs(np.asarray(sin) - np.sin(angle)).max() <= 2e-7


# The battery: fewer than 100 tests at 1e-8 each, hence below 1e-6 in all, for any seed
RATE = 1e-8
CASE = Case(d_k=64)
ROWS = 4096


@pytest.fixture(scope="module")
def draws():
    seed = int(np.random.default_rng().integers(2**63))
    q, k = draw_vectors(CASE, seed, 0, ROWS)
    return {
        "q": q,
        "k": k,
        "q, next block": draw_vectors(CASE, seed, 1, ROWS)[0],
        "q, block 2^32": draw_vectors(CASE, seed, 2**32, ROWS)[0],
        "q, next seed": draw_vectors(CASE, seed + 1, 0, ROWS)[0],
        "q, other cell": draw_vectors(Case(d_k=65), seed, 0, ROWS)[0][:, :64],
    }


def correlation_z(a, b):
    """`sum a b / sqrt(n)`: a standard normal for independent unit normals, up to 6 / n."""
    return float((a * b).sum() / np.sqrt(a.size))


def assert_uncorrelated(a, b):
    a, b = a.astype(float), b.astype(float)
    limit = -special.ndtri(RATE / 4)
    assert abs(correlation_z(a, b)) < limit
    assert abs(correlation_z((a**2 - 1) / np.sqrt(2), (b**2 - 1) / np.sqrt(2))) < limit


@pytest.mark.parametrize(
    "other", ["k", "q, next block", "q, block 2^32", "q, next seed", "q, other cell"]
)
def test_vectors_that_should_be_independent_are(draws, other):
    assert not np.array_equal(draws["q"], draws[other])
    assert_uncorrelated(draws["q"], draws[other])


@pytest.mark.parametrize("shift", [1, 2, 3, 4, 7, 8, 16, 32])
@pytest.mark.parametrize("name", ["q", "k"])
def test_lanes_and_dimensions_are_independent(draws, name, shift):
    x = draws[name]
    assert_uncorrelated(x[shift:], x[:-shift])
    assert_uncorrelated(x[:, shift:], x[:, :-shift])


@pytest.mark.parametrize("name", ["q", "k", "q, block 2^32"])
def test_normals_are_uniform_under_their_cdf(draws, name):
    """Chi-square over 256 equal cells, unobserved ones included."""
    cells = np.bincount(
        (special.ndtr(draws[name].ravel().astype(float)) * 256).astype(int), minlength=256
    )
    expected = draws[name].size / 256
    statistic = ((cells - expected) ** 2 / expected).sum()
    assert RATE / 2 < special.chdtrc(255, statistic) < 1 - RATE / 2


@pytest.mark.parametrize("shift", [0, 8, 16, 24])
def test_bytes_of_the_words_are_uniform(shift):
    key = tuple(jnp.uint32(w) for w in np.random.default_rng().integers(2**32, size=2))
    lane = jnp.arange(65536, dtype=jnp.uint32)
    for word in random.random_words(key, lane, 0, jnp.uint32(5), 2):
        cells = np.bincount(np.asarray(word) >> shift & 0xFF, minlength=256)
        statistic = ((cells - 256) ** 2 / 256).sum()
        assert RATE / 2 < special.chdtrc(255, statistic) < 1 - RATE / 2


def test_the_battery_finds_a_shared_key(draws):
    with pytest.raises(AssertionError):
        assert_uncorrelated(draws["q"], draws["q"])
    with pytest.raises(AssertionError):
        assert_uncorrelated(draws["q"], -draws["q"])
