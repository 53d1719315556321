"""The whole way: planted errors exit 1 where their twins exit 0, and a request gives itself again.

Each planted error is judged at the tolerance for which its power is 0.999. With N draws planned
for it, z of the gap G is normal with mean G unit sqrt(N) / sd and a standard deviation r, that of
the planted replicates over the reference's. Since sqrt(N) = (z_holm + z_power) sd / (unit
tolerance), z exceeds z_holm with probability 0.999 for

    tolerance = G (z_holm + z_power) / (z_holm + r z_power).

A twin is called wrong once in a million seeds. The seed is the command's own, 0.
"""

import json
import math
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import verify_variance as vv
from scipy.special import chdtr, chdtrc
from verify_variance.__main__ import main
from verify_variance.simulations import logits, rows
from verify_variance.stats.cases import Case
from verify_variance.stats.planning import Rates
from verify_variance.stats.predict import predict
from verify_variance.stats.rows.laws import row_law
from verify_variance.stats.rows.moments import row_moments

WIDEST = 0.1  # large gaps are judged here, so that no law is asked for more than its tail holds


def tolerance_for(gap, ratio):
    z_holm, z_power = Rates().z_holm(1), Rates().z_power
    return min(abs(gap) * (z_holm + z_power) / (z_holm + ratio * z_power), WIDEST)


def gap_and_ratio(quantity, right, wrong):
    """Of what a run gives that draws `wrong` where theory says `right`."""
    a, b = predict(right, quantity), predict(wrong, quantity)
    return (b.value - a.value) / a.unit, b.replicate_sd / a.replicate_sd


@pytest.fixture
def judge(monkeypatch, capfd, tmp_path):
    """The verdict and exit code of a one-row command line at a tolerance."""
    monkeypatch.chdir(tmp_path)

    def call(line, tolerance):
        words = [*line.split(), "--tolerance", repr(tolerance), "--format", "json", "--quiet"]
        monkeypatch.setattr(sys, "argv", ["verify-variance", *words])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        (row,) = json.loads(capfd.readouterr().out)["rows"]
        assert row["tolerance"] == tolerance
        assert row["detectable"] <= tolerance * (1 + 1e-9)
        return row["verdict"], ended.value.code

    return call


# --- the sampler is wrong

VARIANCE, KURTOSIS = "--dk 16 --quantities variance", "--dk 12 --quantities kurtosis"
SAMPLERS = {
    "q has variance 1.01": (VARIANCE, Case(d_k=16), {"sigma_q": 1.01**0.5}),
    "the last dimension is dropped": (VARIANCE, Case(d_k=16), {"d_k": 15}),
    "q = k": (VARIANCE, Case(d_k=16), {"correlation": 1.0}),
    "k has a mean of 0.1": (VARIANCE, Case(d_k=16), {"mean_k": 0.1}),
    # (1.8 x 3 - 3) / 12 = 0.2 where (3 x 3 - 3) / 12 = 0.5
    "the kurtosis is off by 0.3": (KURTOSIS, Case(d_k=12), {"elements_q": "uniform"}),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_wrong_sampler_exits_1_and_its_twin_0(judge, monkeypatch, name):
    line, right, wrong = SAMPLERS[name]
    gap, ratio = gap_and_ratio(line.split()[-1], right, replace(right, **wrong))
    tolerance = tolerance_for(gap, ratio)
    if name == "the kurtosis is off by 0.3":
        assert gap == pytest.approx(-0.3)
    assert judge(line, tolerance) == ("match", 0)
    prepared = logits.prepared
    monkeypatch.setattr(
        logits, "prepared", lambda case, seed: prepared(replace(case, **wrong), seed)
    )
    assert judge(line, tolerance) == ("mismatch", 1)


# --- the theory is wrong

THEORIES = {
    # what the planted theory multiplies the right one by
    "sigma^2 for sigma^4": (f"{VARIANCE} --sigma 1.1", 1.1**-2),
    "d_k^2 for d_k": (VARIANCE, 16.0),
    "the standard deviation for the variance": (VARIANCE, 0.25),
    "1 % too large": (VARIANCE, 1.01),
    "1 % too small": (VARIANCE, 0.99),
}


@pytest.mark.parametrize("name", THEORIES)
def test_a_wrong_theory_exits_1_and_its_twin_0(judge, monkeypatch, name):
    line, c = THEORIES[name]

    def planted(case, quantity, matrices=None):
        r = predict(case, quantity, matrices)
        return replace(r, value=c * r.value, unit=c * r.unit, replicate_sd=c * r.replicate_sd)

    # the unit of the variance is twice its value, so that it is judged as a standard deviation
    tolerance = tolerance_for((1 / c - 1) / 2, 1 / c)
    assert judge(line, tolerance) == ("match", 0)
    monkeypatch.setattr("verify_variance.stats.run.predict", planted)
    assert judge(line, tolerance) == ("mismatch", 1)


# --- rows

ROW = Case(d_k=16, n_keys=10, scale="sqrt-dk")
LONG_ROW = replace(ROW, n_keys=512)


def line_of(case, quantity):
    return f"--dk {case.d_k} --n-keys {case.n_keys} --scale {case.scale} --quantities {quantity}"


@pytest.fixture
def plant(monkeypatch):
    """Put something in the place of a function that compiled programs are made of."""

    def forget():
        rows._compiled_draw.cache_clear()
        rows._compiled_sums.cache_clear()
        logits._compiled.cache_clear()

    def put(module, name, planted):
        forget()
        monkeypatch.setattr(module, name, planted)

    yield put
    forget()


def in_bits(statistics):
    """`jacobian_statistics` with the entropy in bits."""

    def planted(x, factor, names, *rest):
        found = statistics(x, factor, names, *rest)
        return found | {"entropy": found["entropy"] / math.log(2)}

    return planted


def with_wrong_sign(statistics):
    """|J|^2 with + 2 sum p^3 where it has - 2 sum p^3."""

    def planted(x, factor, names, *rest):
        found = statistics(x, factor, names, *rest)
        cubes = (jax.nn.softmax(factor * x) ** 3).sum(1)
        return found | {"jacobian_frobenius_sq": found["jacobian_frobenius_sq"] + 4 * cubes}

    return planted


def with_factor_squared(statistics):
    """1 / d_k where the scale is 1 / sqrt(d_k)."""
    return lambda x, factor, names, *rest: statistics(x, factor * factor, names, *rest)


def of_entropy_in_bits():
    r = predict(ROW, "entropy")
    return r.value * (1 / math.log(2) - 1) / r.unit, 1 / math.log(2)


def of_wrong_sign():
    """The planted value lies in [0, 4.25], so that its standard deviation is at most 2.125."""
    r = predict(ROW, "jacobian_frobenius_sq")
    cubes = row_moments(row_law(ROW, 0.25)[0], 10)["sum_p3"]
    return 4 * cubes / r.unit, 2.125 / r.replicate_sd


STATISTICS = {
    "entropy in bits": ("entropy", in_bits, of_entropy_in_bits),
    "the sign of sum p^3": ("jacobian_frobenius_sq", with_wrong_sign, of_wrong_sign),
    "1/d_k for 1/sqrt(d_k), entropy": (
        "entropy", with_factor_squared,
        lambda: gap_and_ratio("entropy", ROW, replace(ROW, scale="dk"))),
    "1/d_k for 1/sqrt(d_k), Jacobian": (
        "jacobian_trace", with_factor_squared,
        lambda: gap_and_ratio("jacobian_trace", ROW, replace(ROW, scale="dk"))),
}  # fmt: skip


@pytest.mark.parametrize("name", STATISTICS)
def test_a_wrong_row_statistic_exits_1_and_its_twin_0(judge, plant, name):
    quantity, wrong, found = STATISTICS[name]
    line, tolerance = line_of(ROW, quantity), tolerance_for(*found())
    assert judge(line, tolerance) == ("match", 0)
    plant(rows, "jacobian_statistics", wrong(rows.jacobian_statistics))
    assert judge(line, tolerance) == ("mismatch", 1)


@pytest.mark.parametrize("quantity", ["sum_p2", "jacobian_frobenius_sq"])
def test_independent_logits_in_place_of_a_shared_query_exit_1(judge, plant, quantity):
    """Right mean and variance of every logit; 512 keys and 16 dimensions show the difference."""
    iid = Case(d_k=None, n_keys=512, logit_std=1.0)
    line, tolerance = line_of(LONG_ROW, quantity), tolerance_for(
        *gap_and_ratio(quantity, LONG_ROW, iid)
    )  # fmt: skip
    assert 0.005 < tolerance < WIDEST
    assert judge(line, tolerance) == ("match", 0)

    def planted(recipe, key, numbers, n_rows, keys=None):
        return rows.given_logits(key, jnp.float32(4.0), n_rows, keys)

    plant(rows, "drawn_logits", planted)
    assert judge(line, tolerance) == ("mismatch", 1)


def deviates():
    """z of the variance of 65536 logits over 20 seeds."""
    records = [vv.verify(dk=16, samples=65536, seed=seed).record for seed in range(20)]
    return [row["z"] for record in records for row in record["rows"]]


def test_error_bars_that_pool_the_logits_of_a_row_are_too_small(plant):
    """z^2 of 128 queries with 512 keys each, taken for 65536 independent logits.

    Every mean is right; the design effect 1 + 511 / (16 + 3) = 28 shows in the spread of z alone:
    5e-7 a side for the honest, and the planted are missed once in 1e6.
    """
    honest = sum(z * z for z in deviates())
    assert 5e-7 < chdtr(20, honest) < 1 - 5e-7
    drawn = logits.drawn_logits

    def pooled(recipe, key, numbers, lanes):
        return drawn(recipe, key, numbers, lanes // 512, 512).reshape(-1)

    plant(logits, "drawn_logits", pooled)
    z = deviates()
    assert chdtrc(20, sum(x * x for x in z)) < 5e-7
    # with the error bar of a replicate of 512 logits that shares its query, all is well
    assert 5e-7 < chdtr(20, sum(x * x for x in z) / (1 + 511 / 19)) < 1 - 5e-7


# --- a request gives itself again


@pytest.mark.parametrize(
    "options",
    [
        {"dk": ["4:16:x2"], "quantities": "logits", "scale": ["none", "dk"], "samples": "2e4"},
        {"dk": 4, "n_keys": 3, "quantities": ["std", "entropy"], "samples": 2000},
        {"logit_std": [0.5, 2], "n_keys": 3, "quantities": ["sum_p2", "saturated"],
         "samples": 20_000, "tolerance": 0.5, "within": True},
        {"dk": 4, "elements_q": ["uniform", "laplace"], "sigma_k": [1, 2], "mean_k": 0.5,
         "quantities": ["mean", "variance"], "samples": 3000, "seed": "random",
         "dtype": "float64"},
        {"dk": 3, "correlation": [0.5, -0.5], "max_elements": 1e5, "false_alarm": 1e-3,
         "power": 0.9},
    ],
    ids=["scales", "rows", "logit-std", "laws", "capped"],
)  # fmt: skip
def test_a_request_gives_the_same_record_again(options):
    first = vv.verify(**options).record
    again = vv.verify(**json.loads(json.dumps(first["request"]))).record
    for part in ("rows", "verdict", "design", "request"):
        assert again[part] == first[part]


def test_a_result_asserts_itself():
    def attention(factor):
        def call(q, k, v):
            p = np.exp(q @ k.swapaxes(-1, -2) * np.float32(factor(q.shape[-1])))
            return p / p.sum(-1, keepdims=True) @ v

        return call

    sound = vv.audit(attention(lambda d: d**-0.5), dk=[16, 64], dtype="float32")
    assert sound.assert_match() is sound
    with pytest.raises(AssertionError, match=r"(?s)mismatch\n.*Defect: ") as caught:
        vv.audit(attention(lambda d: 1 / d), dk=[16, 64], dtype="float32").assert_match()
    assert "At d_k = 64 it divides by 64.0000 where sqrt-dk divides by 8.0000" in str(caught.value)
