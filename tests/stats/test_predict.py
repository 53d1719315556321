"""Theory by name; and a wrong theory is called a mismatch, with a miss rate that is computed."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri
from verify_variance.stats.cases import Case
from verify_variance.stats.checks import InputError
from verify_variance.stats.decision import Row, decide
from verify_variance.stats.moments import Moments
from verify_variance.stats.planning import MAX_ELEMENTS, Rates, plan_draws
from verify_variance.stats.predict import check_verdict_possible, predict
from verify_variance.stats.quantities import QUANTITIES

MISS = -float(ndtri(1e-6))  # each planted error may be missed with probability 1e-6


@pytest.mark.parametrize("factor", [1.0, 1 / 8])
@pytest.mark.parametrize(
    ("quantity", "wanted"),
    # normal elements: variance d, excess kurtosis 6/d; E|x| of R2 in theory.md section 1
    [("variance", 64.0), ("std", 8.0), ("mean", 0.0), ("skewness", 0.0), ("kurtosis", 6 / 64),
     ("mean_abs", 2 * math.exp(math.lgamma(32.5) - math.lgamma(32)) / math.sqrt(math.pi))],
)  # fmt: skip
def test_normal_elements_by_name(quantity, wanted, factor):
    case = Case(d_k=64, scale="none" if factor == 1 else "sqrt-dk")
    power = {"variance": 2, "skewness": 0, "kurtosis": 0}.get(quantity, 1)
    got = predict(case, quantity)
    assert got.value == pytest.approx(wanted * factor**power, rel=1e-12)
    assert got.kind == "closed form"
    assert got.formula


@pytest.mark.parametrize(
    ("case", "quantity", "message"),
    [
        (Case(), "varience", "unknown quantity 'varience'; did you mean variance?"),
        (Case(), "entropy", "entropy is a statistic of rows and needs --n-keys"),
        (
            Case(d_k=None, n_keys=3, logit_std=1.0),
            "variance",
            "variance of given normal logits is what --logit-std states; "
            "choose quantities of rows, or give --dk",
        ),
        (Case(scale="dkk"), "std", "unknown scale 'dkk'; did you mean dk"),
        (Case(d_k=0), "std", "d_k must be a positive integer, got 0"),
    ],
)
def test_what_cannot_be_predicted_is_one_line(case, quantity, message):
    with pytest.raises(InputError) as caught:
        predict(case, quantity)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("quantity", "order"), [("variance", 8), ("std", 8), ("skewness", 12), ("kurtosis", 16)]
)
def test_a_verdict_needs_four_times_the_moments(quantity, order):
    check_verdict_possible(Case(elements_k=f"student-t:{order + 0.5}"), quantity)
    for law in (f"student-t:{order}", "student-t:5"):
        message = rf"finite moments of order {order}, got {law}; .* test "
        with pytest.raises(InputError, match=message):
            check_verdict_possible(Case(elements_k=law), quantity)


def test_rows_are_bounded_and_need_no_moments():
    check_verdict_possible(Case(n_keys=4, elements_q="student-t:3"), "entropy")


def test_theory_is_shown_where_its_error_bar_is_infinite():
    got = predict(Case(elements_q="student-t:3.5"), "variance")
    assert got.value == 64.0
    assert got.replicate_sd is None


def normal(rng, draws, d):
    return np.sqrt(rng.chisquare(d, draws)) * rng.standard_normal(draws)


def judged(row, draw, gap, spread, seed=0):
    """The row after the planned draws, at a tolerance at which a miss has probability 1e-6.

    A gap g at the N planned for tolerance t has the deviate g (z_holm + z_power) / t. It is missed
    when the estimate falls `MISS` true standard errors short, each `spread` planned ones:
    t = g (z_holm + z_power) / (z_holm + spread MISS), at which the power is above 0.999.
    """
    rates = Rates()
    z = rates.z_holm(1)
    room = 1.1  # the chi-square law is skewed, and its threshold a little beyond the normal one
    tolerance = gap * (z + rates.z_power) / (room * (z + max(spread, 1.0) * MISS))
    assert tolerance < gap
    rates = Rates(tolerance=tolerance)
    draws, capped = plan_draws(row.case, [(row.quantity, row.reference)], rates, 1, MAX_ELEMENTS)
    assert not capped
    x = draw(np.random.default_rng(seed), draws, row.case.d_k)
    quantity = QUANTITIES[row.quantity]
    values = np.abs(x) if quantity.measured == "abs_logit" else x
    estimate = quantity.estimate(Moments.of(values, 8))
    got = decide([replace(row, estimate=estimate)], rates)[0]
    assert draws < 5e6
    return got


def wrong_variance(case, factor):
    """The variance's reference with its value multiplied by a factor, errors and unit with it."""
    right = predict(case, "variance")
    return replace(
        right,
        value=right.value * factor,
        unit=right.unit * factor,
        replicate_sd=right.replicate_sd * factor,
    )


@pytest.mark.parametrize(
    ("name", "case", "factor"),
    [
        ("sigma^2 for sigma^4", Case(d_k=16, sigma_q=1.1, sigma_k=1.1), 1.1**-2),
        ("d_k^2 for d_k", Case(d_k=4), 4.0),
        ("the std for the variance", Case(d_k=4), 0.5),
        ("1 % too large", Case(d_k=16), 1.01),
        ("1 % too small", Case(d_k=16), 1 / 1.01),
    ],
)
def test_a_wrong_variance_is_a_mismatch(name, case, factor):
    row = Row(case, "variance", wrong_variance(case, factor))
    right = Row(case, "variance", predict(case, "variance"))

    def draw(rng, draws, d):
        return case.sigma_q * case.sigma_k * normal(rng, draws, d)

    gap, spread = abs(1 / factor - 1) / 2, 1 / factor
    assert judged(row, draw, gap, spread).verdict == "mismatch", name
    assert judged(right, draw, gap, 1.0).verdict == "match"


def test_a_kurtosis_off_by_three_tenths_is_a_mismatch():
    case = Case(d_k=20)  # 6/20 = 0.3, and the theory says normal
    right = predict(case, "kurtosis")
    wrong = replace(right, value=right.value - 0.3)
    assert judged(Row(case, "kurtosis", wrong), normal, 0.3, 1.0).verdict == "mismatch"
    assert judged(Row(case, "kurtosis", right), normal, 0.3, 1.0).verdict == "match"


def wrong_q(rng, draws, d):
    return math.sqrt(1.01) * normal(rng, draws, d)


def dropped(rng, draws, d):
    return normal(rng, draws, d - 4)


def equal_vectors(rng, draws, d):
    return rng.chisquare(d, draws)


@pytest.mark.parametrize(
    ("draw", "quantity", "gap", "spread"),
    [
        (wrong_q, "std", math.sqrt(1.01) - 1, 1.01),  # q's variance is 1.01
        (wrong_q, "variance", 0.005, 1.01),
        (dropped, "std", 1 - math.sqrt(60 / 64), 1.0),  # the last 4 of 64 dimensions are not drawn
        (dropped, "mean_abs", 0.03, 1.0),
        (equal_vectors, "variance", 0.3, 3.0),  # x = |q|^2: variance 2 d ...
        (equal_vectors, "mean", 0.5, 1.5),  # ... and mean d, 8 standard deviations off
    ],
)
def test_a_wrong_sampler_is_a_mismatch(draw, quantity, gap, spread):
    case = Case(d_k=64)
    row = Row(case, quantity, predict(case, quantity))
    assert judged(row, draw, gap, spread).verdict == "mismatch"
    assert judged(row, normal, gap, spread).verdict == "match"


def test_a_closed_form_loads_no_scipy():
    code = (
        "import sys, verify_variance as vv\n"
        "vv.predict(vv.Case(d_k=64), 'variance')\n"
        "print({name.partition('.')[0] for name in sys.modules} & {'scipy', 'jax'})"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"
