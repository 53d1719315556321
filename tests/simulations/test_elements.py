"""Every law's draws against its exact distribution and moments."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from verify_variance.simulations.elements import SAMPLERS, sampler_of, two_sided_probit
from verify_variance.simulations.random import random_words, to_bits
from verify_variance.simulations.recipes import with_float64
from verify_variance.stats.elements import ELEMENTS, element_moment

N = 2**18
RATE = 5e-9  # of each of the fewer than 200 tests here: below 1e-6 in all, for any seed


def drawn(law, dtype="float32", sampler=None):
    """`[2, N]`: the two elements of N pairs, under a random key."""
    found, constants = sampler_of(law)
    sampler = sampler or found
    per_uniform = 2 if dtype == "float64" else 1
    key = [np.uint32(w) for w in np.random.default_rng().integers(2**32, size=2)]

    def draw(key, lane, constants):
        words = random_words(key, lane, 0, jnp.uint32(0), sampler.uniforms * per_uniform)
        return jnp.stack(sampler.draw(to_bits(words, per_uniform), constants))

    with with_float64(dtype):
        numbers = [np.dtype(dtype).type(c) for c in constants]
        out = jax.jit(draw)(key, np.arange(N, dtype=np.uint32), numbers)
        assert out.dtype == dtype
        return np.asarray(out, float)


def truncated(bound, sd=1.0):
    return lambda x: stats.truncnorm(-bound, bound, scale=1 / sd).cdf(x)


def lognormal(s):
    mean, sd = math.exp(s * s / 2), math.exp(s * s / 2) * math.sqrt(math.expm1(s * s))
    return lambda x: stats.lognorm(s).cdf(x * sd + mean)


SD_OF_CUT_AT_2 = 0.8796256610342398  # scipy.stats.truncnorm(-2, 2).std()
CDF = {
    "normal": stats.norm.cdf,
    "sphere": stats.norm.cdf,  # before it is normalised
    "uniform": stats.uniform(-math.sqrt(3), 2 * math.sqrt(3)).cdf,
    "laplace": stats.laplace(scale=math.sqrt(0.5)).cdf,
    "logistic": stats.logistic(scale=math.sqrt(3) / math.pi).cdf,
    "exponential": stats.expon(-1).cdf,
    "student-t:3": stats.t(3, scale=math.sqrt(1 / 3)).cdf,
    "student-t:9": stats.t(9, scale=math.sqrt(7 / 9)).cdf,
    "truncated-normal:2": truncated(2, SD_OF_CUT_AT_2),
    "truncated-normal-raw:2": truncated(2),
    "truncated-normal-raw:0.1": truncated(0.1),
    "truncated-normal-raw:8": truncated(8),
    "lognormal:0.5": lognormal(0.5),
    "lognormal:2": lognormal(2.0),
}


def furthest(values, cdf):
    """Kolmogorov's distance of a sample from a continuous law."""
    levels = cdf(np.sort(values.ravel()))
    n = levels.size
    steps = np.arange(n + 1) / n
    return max((steps[1:] - levels).max(), (levels - steps[:-1]).max())


# Massart 1990: P(distance > eps) <= 2 exp(-2 n eps^2), for every n
LIMIT = math.sqrt(math.log(2 / RATE) / (2 * 2 * N))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("law", CDF)
def test_draws_have_the_law(law, dtype):
    assert furthest(drawn(law, dtype), CDF[law]) < LIMIT


@pytest.mark.parametrize(
    ("law", "wrong"),
    [
        ("truncated-normal", truncated(2)),
        ("student-t:9", stats.t(9).cdf),
        ("normal", CDF["laplace"]),
    ],
)
def test_a_wrong_law_is_found(law, wrong):
    assert furthest(drawn(law), wrong) > LIMIT


MOMENTS = [
    "normal",
    "uniform",
    "rademacher",
    "laplace",
    "logistic",
    "exponential",
    "sparse:0.3",
    "sparse",
    "student-t:30",
    "truncated-normal",
    "truncated-normal:0.1",
    "truncated-normal-raw:3",
    "lognormal:0.2",
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("law", MOMENTS)
def test_moments_are_exact(law, dtype):
    """Means of x^r over 2 N draws against E x^r, in exact standard errors."""
    x = drawn(law, dtype)
    for r in (1, 2, 3):
        exact, square = element_moment(law, r), element_moment(law, 2 * r)
        error = math.sqrt(max(square - exact**2, 0) / x.size)
        assert abs((x**r).mean() - exact) <= -special.ndtri(RATE / 6) * error + 1e-6 * abs(exact)


@pytest.mark.parametrize("law", [*MOMENTS, "student-t:9"])
def test_the_two_elements_of_a_pair_are_independent(law):
    a, b = drawn(law)
    limit = -special.ndtri(RATE / 2)
    a_sd, b_sd = a.std(), b.std()
    assert abs(np.mean(a * b)) / (a_sd * b_sd) < limit / math.sqrt(N)
    bounded_a, bounded_b = np.tanh(np.abs(a)), np.tanh(np.abs(b))
    if bounded_a.std() > 1e-6:
        assert abs(np.corrcoef(bounded_a, bounded_b)[0, 1]) < 1.01 * limit / math.sqrt(N)


def test_baileys_sine_would_not_be_independent_of_his_cosine():
    sampler, constants = sampler_of("student-t:9")

    def dependent(bits, constants):
        from verify_variance.simulations.random import box_muller, negative_log, uniform

        radius = jnp.sqrt(constants[1] * jnp.expm1(constants[0] * negative_log(uniform(bits[0]))))
        z = box_muller(bits[0], bits[1])
        norm = jnp.hypot(*z)
        return radius * z[0] / norm, radius * z[1] / norm

    assert constants
    planted = type(sampler)(dependent)
    a, b = np.tanh(np.abs(drawn("student-t:9", sampler=planted)))
    assert abs(np.corrcoef(a, b)[0, 1]) > 1.01 * -special.ndtri(RATE / 2) / math.sqrt(N)


def test_probit_is_within_1e_6():
    """Against scipy's erfcinv, over every exponent of p and densely near 1."""
    p = np.concatenate(
        [np.geomspace(2.0**-31, 0.99, 300_001), 1 - np.geomspace(1e-7, 0.01, 10_001)]
    )
    p = p.astype(np.float32)
    got = np.asarray(jax.jit(two_sided_probit)(p, (1 - p.astype(float)).astype(np.float32)))
    exact = math.sqrt(2) * special.erfcinv(p.astype(float))
    assert np.abs(got / exact - 1).max() <= 1e-6


@pytest.mark.parametrize("bound", [0.1, 1.0, 2.0, 5.0])
def test_truncation_keeps_to_its_bounds(bound):
    x = np.abs(drawn(f"truncated-normal-raw:{bound}")).max()
    assert 0.9 * min(bound, 4) < x <= bound * (1 + 1e-6)


def test_every_law_that_can_be_named_can_be_drawn():
    assert set(SAMPLERS) == set(ELEMENTS)


def test_an_unknown_law_is_refused():
    with pytest.raises(ValueError, match="did you mean normal"):
        sampler_of("nomal")
