"""Assertions on arrays: what is right passes at the stated rate, planted errors do not.

Fixed seeds; every test that draws would fail by chance with probability below 1e-6 under any
other seed (a pass needs |z| < 6.1, and most planted errors are tens of standard errors away).
"""

import math
import re
import subprocess
import sys
import time

import numpy as np
import pytest
import verify_variance as vv
from scipy.stats import binom
from verify_variance.stats.arrays import as_numpy
from verify_variance.stats.assertions import (
    assert_logit_variance,
    assert_matches,
    assert_unit_logits,
)
from verify_variance.stats.cases import Case, Reference
from verify_variance.stats.checks import InputError
from verify_variance.stats.failures import InconclusiveError
from verify_variance.stats.predict import predict
from verify_variance.stats.unit_logits import unit_row


def logits(factor=1.0, *, draws=20_000, d_k=64, seed=1):
    q, k = np.random.default_rng(seed).normal(size=(2, draws, d_k))
    return factor * (q * k).sum(-1)


def matrices(replicates=2000, m=8, n=6, d_k=16, seed=2):
    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=(replicates, m, d_k)), rng.normal(size=(replicates, n, d_k))
    return q @ k.swapaxes(1, 2)


def test_right_logits_pass_and_give_the_row():
    for scale, factor in (("none", 1.0), ("sqrt-dk", 1 / 8), ("constant:3", 1 / 3)):
        row = assert_logit_variance(logits(factor), d_k=64, scale=scale)
        assert row.verdict == "match"
        assert row.estimate.draws == 20_000
        assert row.reference.value == pytest.approx(64 * factor**2)


PLANTED = {
    "no divisor": (1.0, "a divisor sqrt(d_k) that is missing?"),
    "d_model": (512**-0.5, "d_model = 512 (8 heads) where d_k = 64 was meant?"),
    "d_k": (1 / 64, "divided by sqrt(d_k) twice, or by d_k?"),
    "upside down": (8.0, "multiplied by sqrt(d_k) where a division was meant?"),
    "two cut normals": (0.7737 / 8, "two normals cut at 2 sigma and not corrected"),
    "packed Xavier": (0.5 / 8, "torch MultiheadAttention's packed Xavier init"),
    "nobody's": (1.23 / 8, "are the laws, sigmas and means as assumed?"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_error_is_caught_and_its_cause_named(name):
    factor, cause = PLANTED[name]
    with pytest.raises(AssertionError) as failure:
        assert_logit_variance(logits(factor), d_k=64, scale="sqrt-dk")
    assert not isinstance(failure.value, InconclusiveError)
    headline, *entries = str(failure.value).splitlines()
    assert re.match(r"variance \d+.* where 1 was expected: ", headline)
    assert cause in headline
    said = {entry[2:14].strip(): entry[15:] for entry in entries}
    assert [*said] == ["expected", "measured", "std", "z", "false alarm"]
    z = float(said["z"].partition(",")[0])
    assert (z > 6.1) == (8 * factor > 1)
    assert abs(z) > 6.1
    assert said["false alarm"].startswith("1e-09 ")
    assert float(said["std"].split()[0]) == pytest.approx(8 * factor, rel=0.05)


def test_an_error_of_the_tolerance_is_caught_with_the_stated_power():
    # 10 % in the std at 10,000 draws is 13 standard errors: the smallest error that must not pass
    for factor in (0.9, 1.1):
        with pytest.raises(AssertionError, match="was expected"):
            assert_logit_variance(logits(factor, draws=10_000), d_k=64)


def test_few_logits_are_inconclusive_and_the_draws_advised_suffice():
    with pytest.raises(InconclusiveError, match="too few samples to tell") as failure:
        assert_logit_variance(logits(draws=100), d_k=64)
    assert issubclass(InconclusiveError, AssertionError)
    advised = int(re.search(r"give (\d+) independent", str(failure.value)).group(1))
    # N = ((z_alpha + z_power) / tolerance)^2 (2 + 6/d_k) / 4 = 4420.6, rounded up to two digits
    assert advised == 4500
    assert assert_logit_variance(logits(draws=advised), d_k=64).verdict == "match"


def test_a_gross_error_in_few_logits_names_its_cause_too():
    with pytest.raises(InconclusiveError, match="divisor sqrt\\(d_k\\) that is missing"):
        assert_logit_variance(logits(draws=100), d_k=64, scale="sqrt-dk")


def test_between_pass_and_mismatch_the_way_out_is_more_draws():
    # std 9.8 % off where 10 % may be: neither surely within nor surely outside
    q, k = np.random.default_rng(13).normal(size=(2, 2000, 64))
    q *= 1.098 / np.sqrt(unit_row(q, k, None)[0].estimate.value)
    with pytest.raises(InconclusiveError, match=r"give .* independent replicates, or raise tol"):
        assert_unit_logits(q, k)
    assert_unit_logits(q, k, tolerance=0.2)


def test_matrices_count_once_each():
    x = matrices()
    row = assert_logit_variance(x, d_k=16)
    assert row.estimate.draws == 2000
    assert row.estimate.logits_per_draw == 48
    # pooled, the error would be taken sqrt(1 + (m+n-2)/(d+3)) times too small
    pooled = assert_logit_variance(x.ravel(), d_k=16)
    assert row.z == pytest.approx(pooled.z / math.sqrt(1 + 12 / 19), rel=0.05)


def test_a_sampler_gets_its_seed_and_the_planned_draws():
    seen = []

    def sampler(seed, n):
        seen.append((seed, n))
        return logits(draws=n, seed=seed)

    first = assert_logit_variance(sampler, d_k=64)
    assert assert_logit_variance(sampler, d_k=64) == first
    assert_logit_variance(sampler, d_k=64, seed=7, draws=12_000)
    assert_logit_variance(sampler, d_k=64, tolerance=0.02)
    # ((6.109 + 3.090) / 0.02)^2 (2 + 6/64) / 4, from the deviates of 1e-9 / 2 and 0.999
    needed = math.ceil(((6.10941 + 3.09023) / 0.02) ** 2 * (2 + 6 / 64) / 4)
    assert seen[:3] == [(0, 10_000), (0, 10_000), (7, 12_000)]
    assert seen[3] == (0, pytest.approx(needed, rel=1e-4))


def test_sigmas_and_laws_set_value_and_error():
    rng = np.random.default_rng(3)
    q, k = rng.normal(0, 0.02, (20_000, 64)), rng.laplace(0, 3 / 2**0.5, (20_000, 64))
    row = assert_matches(
        (q * k).sum(-1), Case(64, elements_k="laplace", sigma_q=0.02, sigma_k=3), quantity="std"
    )
    assert row.reference.value == pytest.approx(0.06 * 8)
    assert_logit_variance(logits(0.06), d_k=64, sigma=(0.02, 3.0))
    assert_logit_variance(logits(0.25), d_k=64, sigma=0.5)
    signs = rng.integers(0, 2, (2, 20_000, 64)) * 2 - 1
    assert assert_logit_variance(np.prod(signs, 0).sum(-1), d_k=64, elements="rademacher")


@pytest.mark.parametrize(
    ("samples", "options", "said"),
    [
        (np.ones((5, 5)), {}, "which axis is the replicate"),
        (np.array([1.0, np.nan, 2.0]), {}, "logits must be finite"),
        (np.array(["a", "b"]), {}, "samples must be real numbers"),
        (np.array([1j, 2j]), {}, "samples must be real numbers"),
        ([1.0], {}, "at least 2 replicates"),
        ([1.0, 2.0], {"d_k": 0}, "d_k must be a positive integer"),
        ([1.0, 2.0], {"sigma": -1}, "sigma must be a positive number"),
        ([1.0, 2.0], {"elements": "student-t:5"}, "finite moments of order 8"),
        ([1.0, 2.0], {"false_alarm": 2}, "false_alarm must be"),
    ],
)
def test_what_cannot_be_judged_is_an_input_error(samples, options, said):
    with pytest.raises(InputError, match=said):
        assert_logit_variance(samples, **{"d_k": 64} | options)


# false alarms: rates large enough to be counted, bounds of the count with 1e-7 beyond


@pytest.mark.parametrize("seed", [5, *np.random.SeedSequence().generate_state(1)])
def test_the_false_alarm_rate_is_the_one_stated(seed):
    runs, rate = 400, 0.05
    x = logits(draws=runs * 400, d_k=8, seed=int(seed)).reshape(runs, 400)

    def fails(values):
        try:
            assert_logit_variance(values, d_k=8, false_alarm=rate, tolerance=0.4)
        except AssertionError:
            return True
        return False

    failed = sum(map(fails, x))
    assert binom.ppf(1e-7, runs, rate) <= failed <= binom.ppf(1 - 1e-7, runs, rate)


def tokens_through_weights(rng, rows, d_model=128, d_k=32, std=1.0):
    """Queries and keys of the same tokens, as self-attention has them."""
    x = rng.normal(size=(rows, d_model))
    w = rng.normal(0, std * d_model**-0.5, (2, d_model, d_k))
    return x @ w[0], x @ w[1], w


def test_the_error_bar_of_unit_logits_is_not_too_small():
    # fixed weights and fresh tokens: their variance is known, tr(W_q' W_q W_k' W_k) / d_k
    rng = np.random.default_rng(11)
    *_, w = tokens_through_weights(rng, 2)
    exact = float(np.trace(w[0].T @ w[0] @ w[1].T @ w[1])) / 32
    z = []
    for _ in range(300):
        x = rng.normal(size=(200, 128))
        row, _ = unit_row(x @ w[0], x @ w[1], None)
        z.append((row.estimate.value - exact) / row.estimate.mcse)
    # sd 1 at most; a chi-square of 299 exceeds 1.25^2 of its mean with probability 1e-8
    assert 0.4 < np.std(z) < 1.25
    assert abs(np.mean(z)) < 0.4


def test_unit_logits_are_the_variance_of_all_pairs():
    rng = np.random.default_rng(4)
    q, k = rng.normal(0.3, 1, (3, 2, 9, 5)), rng.normal(-0.2, 1, (3, 2, 7, 5))
    row, factor = unit_row(q, k, None)
    assert factor == pytest.approx(5**-0.5)
    assert row.estimate.value == pytest.approx(np.var(q @ k.swapaxes(-1, -2)) / 5, rel=1e-12)
    # the error by the definition: means over a query's logits, and over a key's
    square = (q @ k.swapaxes(-1, -2) - np.mean(q @ k.swapaxes(-1, -2))) ** 2 / 5
    rows, columns = square.mean((0, 1, 3)), square.mean((0, 1, 2))
    error = rows.std(ddof=1) / 3 + columns.std(ddof=1) / math.sqrt(7)
    assert row.estimate.mcse == pytest.approx(error, rel=1e-12)


def test_unit_logits_pass_at_initialisation_and_fail_off_it():
    rng = np.random.default_rng(6)
    q, k, _ = tokens_through_weights(rng, 2000)
    assert assert_unit_logits(q, k, tolerance=0.2).verdict == "match"
    q, k, _ = tokens_through_weights(rng, 2000, std=2**-0.5)
    with pytest.raises(AssertionError, match="packed Xavier init"):
        assert_unit_logits(q, k, tolerance=0.2)


def test_a_factor_that_was_given_names_the_cause_by_itself():
    q, k = np.random.default_rng(7).normal(size=(2, 4, 500, 64))
    assert_unit_logits(q, k)
    assert_unit_logits(q, k, 1 / 8)
    for factor, cause in (
        (1.0, "divisor sqrt(d_k) that is missing"),
        (512**-0.5, "d_model = 512 (8 heads)"),
        (1 / 64, "divided by sqrt(d_k) twice"),
    ):
        with pytest.raises(AssertionError, match=re.escape(cause)):
            assert_unit_logits(q, k, factor)


def test_unit_logits_of_few_rows_are_inconclusive():
    q, k = np.random.default_rng(8).normal(size=(2, 30, 64))
    with pytest.raises(InconclusiveError, match="independent replicates"):
        assert_unit_logits(q, k)
    with pytest.raises(InputError, match="need 2 rows"):
        assert_unit_logits(q[:1], k[:1])
    with pytest.raises(InputError, match="repeat shared heads"):
        assert_unit_logits(q[None].repeat(8, 0), k[None].repeat(2, 0))
    with pytest.raises(InputError, match="q must be finite"):
        assert_unit_logits(q * np.nan, k)


def test_samples_match_a_reference_a_case_and_a_number():
    # Dirichlet(1, 1, 1, 1): E sum p^2 = 2 / (n + 1)
    p = np.random.default_rng(9).dirichlet(np.ones(4), 20_000)
    purity = (p**2).sum(-1)
    assert assert_matches(purity, 2 / 5).verdict == "match"
    with pytest.raises(AssertionError, match="mean of the samples 0"):
        assert_matches(purity, 1 / 4)
    case = Case(logit_std=1.0, d_k=None, n_keys=10)
    x = np.random.default_rng(10).normal(size=(40_000, 10))
    rows = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) ** 1) ** 2
    rows = rows.sum(-1)
    for reference in (case, predict(case, "sum_p2")):
        assert assert_matches(rows, reference, quantity="sum_p2").verdict == "match"
        with pytest.raises(AssertionError, match="was expected"):
            assert_matches(rows * 1.1, reference, quantity="sum_p2")
    assert assert_matches(logits(), predict(Case(64), "variance"), quantity="variance")
    assert assert_matches(
        logits(), predict(Case(64), "kurtosis"), quantity="kurtosis", tolerance=0.5
    )
    assert assert_matches(logits(), 0.0)


def test_what_assert_matches_refuses():
    with pytest.raises(InputError, match="compared with the mean"):
        assert_matches(logits(), 64.0, quantity="variance")
    with pytest.raises(InputError, match="samples must be 1-D"):
        assert_matches(matrices(), 0.0)
    with pytest.raises(InputError, match="kind none"):
        assert_matches(logits(), Reference(None, 1.0, None, None, "none", ""))
    with pytest.raises(InputError, match="did you mean variance"):
        assert_matches(logits(), Case(64), quantity="varience")
    with pytest.raises(InputError, match="unknown quantity 'jacobian_frobenius_median'"):
        assert_matches(logits(), 0.0, quantity="jacobian_frobenius_median")
    with pytest.raises(InputError, match="reference must be a number, Reference or Case"):
        assert_matches(logits(), "variance")
    assert assert_matches(matrices(), Case(16), quantity="variance").estimate.draws == 2000


# other frameworks' arrays


def test_arrays_of_jax():
    jnp = pytest.importorskip("jax.numpy")
    for dtype in ("float32", "bfloat16"):
        x = jnp.asarray(logits().astype(np.float32), dtype)
        assert assert_logit_variance(x, d_k=64).estimate.draws == 20_000
        assert as_numpy(x).dtype == np.float64
    q, k = jnp.asarray(np.random.default_rng(7).normal(size=(2, 4, 500, 64)))
    assert assert_unit_logits(q, k)


def test_tensors_of_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.from_numpy(logits()).requires_grad_()
    assert assert_logit_variance(x, d_k=64).estimate.draws == 20_000
    assert assert_logit_variance(x.to(torch.bfloat16), d_k=64).estimate.draws == 20_000


class Tensor:
    """As much of a torch tensor as an assertion may touch: NumPy cannot read it as it is."""

    def __init__(self, values, dtype="torch.float32", steps=()):
        self.values, self.dtype, self.steps = values, dtype, steps

    def __array__(self, dtype=None, copy=None):
        if self.steps[:2] != ("detach", "cpu") or "bfloat16" in self.dtype:
            raise TypeError("requires grad, is on a device or is of a type that NumPy has not")
        return np.asarray(self.values, dtype)

    def detach(self):
        return Tensor(self.values, self.dtype, (*self.steps, "detach"))

    def cpu(self):
        return Tensor(self.values, self.dtype, (*self.steps, "cpu"))

    def float(self):
        return Tensor(self.values, "torch.float32", self.steps)


@pytest.mark.parametrize("dtype", ["torch.float32", "torch.bfloat16"])
def test_tensors_are_detached_brought_home_and_widened(dtype):
    assert assert_logit_variance(Tensor(logits(), dtype), d_k=64).verdict == "match"


def test_nothing_is_imported_that_was_not_and_all_is_quick():
    code = (
        "import sys, numpy as np, verify_variance as vv\n"
        "q, k = np.random.default_rng(0).normal(size=(2, 500, 64))\n"
        "vv.assert_logit_variance((q * k).sum(-1), d_k=64, tolerance=0.4)\n"
        "vv.assert_unit_logits(q, k)\n"
        "vv.assert_matches((q * k).sum(-1), 0.0, tolerance=0.5)\n"
        "print({'jax', 'torch', 'pandas', 'ml_dtypes', 'scipy.stats'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    x = logits(draws=100_000)
    started = time.perf_counter()
    vv.assert_logit_variance(x, d_k=64)
    vv.assert_matches(x, 0.0)
    assert time.perf_counter() - started < 1.0  # some hundredths, even where cores are shared
