"""Checks of our own rates: each must catch the fault that it is for, and pass what is right.

What is right is exact here (quantiles, binomial counts at their mean), so that nothing is left to
chance.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri
from verify_variance.stats.calibration.checks import (
    Check,
    judged_checks,
    law_checks,
    share_check,
    stated_false_alarm,
    stated_share,
)
from verify_variance.stats.calibration.laws import KolmogorovLaw, distance_from_uniform
from verify_variance.stats.calibration.options import (
    CalibrationOptions,
    seed_of_run,
)
from verify_variance.stats.calibration.planted import planted_reference, planted_row
from verify_variance.stats.cases import Case, Reference
from verify_variance.stats.checks import InputError
from verify_variance.stats.decision import Row, decide
from verify_variance.stats.planning import Rates
from verify_variance.stats.predict import predict
from verify_variance.stats.quantities import Estimate

RUNS = 10_000
ROW = Row(Case(16), "variance", predict(Case(16), "variance"))


def normal_sample(n=RUNS, seed=5):
    """Standard normal values: each check has one chance in a million to be wrong about them."""
    return np.random.default_rng(seed).standard_normal(n)


def verdicts(z):
    judged = judged_checks(law_checks(ROW, "here", list(z)))
    return {row.check: row.verdict for row in judged}


def test_a_standard_normal_z_passes():
    assert set(verdicts(normal_sample()).values()) == {"match"}


@pytest.mark.parametrize(
    ("fault", "caught"),
    [
        (lambda z: 0.9 * z, {"spread of z", "p uniform"}),
        (lambda z: 1.1 * z, {"spread of z", "p uniform"}),
        (lambda z: z + 0.12, {"mean of z"}),
        # evenly spaced: no sample is so regular, and neither its mean nor its spread shows it
        (lambda z: ndtri((np.arange(len(z)) + 0.5) / len(z)), {"p uniform"}),
        # the right mean and spread, another law
        (lambda z: np.sign(z) * np.sqrt(0.5 + 0.5 * z**2), {"p uniform"}),
    ],
)
def test_each_fault_of_a_z_is_caught(fault, caught):
    found = verdicts(fault(normal_sample()))
    assert {name for name, verdict in found.items() if verdict == "mismatch"} == caught


@pytest.mark.parametrize(
    ("count", "stated", "verdict"),
    [
        (100, stated_share(0.01, 0.01, ""), "match"),
        (200, stated_share(0.01, 0.01, ""), "mismatch"),
        (30, stated_share(0.01, 0.01, ""), "mismatch"),  # too few are as wrong as too many
        (30, stated_share(0.0025, 0.01, ""), "match"),
        (9990, stated_share(0.999, 1.0, ""), "match"),
        (9940, stated_share(0.999, 1.0, ""), "mismatch"),
        (10, stated_share(0.0, 0.001, ""), "match"),
        (60, stated_share(0.0, 0.001, ""), "mismatch"),
        (60, stated_share(None, None, ""), "measured"),
    ],
)
def test_shares_of_runs_are_judged_by_their_binomial_law(count, stated, verdict):
    check = share_check("any", "table", Case(16), count, RUNS, stated)
    assert judged_checks([check])[0].verdict == verdict


def test_a_check_is_a_test_of_its_own():
    stated = stated_share(0.999, 1.0, "")
    checks = [
        share_check("gap called", "here", Case(16), 9999, RUNS, stated, planted=gap)
        for gap in (1.0, -1.0)
    ]
    assert len({check.test for check in checks}) == 2
    assert isinstance(replace(checks[0], note="x"), Check)


@pytest.mark.parametrize("n", [1000, 10_000])
def test_kolmogorovs_law_has_both_tails(n):
    law = KolmogorovLaw(n)
    for x in (0.3, 0.45, 0.8, 1.2, 2.0):
        below, above = map(math.exp, law.log_tails(x / math.sqrt(n)))
        assert below == pytest.approx(stats.kstwo.cdf(x / math.sqrt(n), n), rel=20 / n + 1e-9)
        assert above == pytest.approx(stats.kstwo.sf(x / math.sqrt(n), n), rel=20 / n + 1e-9)


def test_the_distance_is_that_of_the_kolmogorov_test():
    p = np.random.default_rng(2).uniform(size=321) ** 1.1
    assert distance_from_uniform(p) == pytest.approx(stats.kstest(p, "uniform").statistic)


@pytest.mark.parametrize(
    ("dk", "quantities", "wanted"),
    [
        ((16,), ("variance",), 0.01),
        ((16,), ("variance", "std"), 0.01),  # one test
        ((16, 64), ("std",), 1 - 0.995**2),
        ((16,), ("std", "mean"), (0.005, 0.01)),  # on the same draws
        ((16, 64), ("std", "mean"), (0.0025, 0.01)),
        ((16,), ("above_3",), (0.0, 0.01)),  # a binomial test is conservative
    ],
)
def test_what_a_table_states(dk, quantities, wanted):
    rows = [Row(Case(d), q, predict(Case(d), q)) for d in dk for q in quantities]
    assert stated_false_alarm(rows, Rates(0.01)).value == pytest.approx(wanted)


def test_a_planted_sigma_is_one_that_is_off_by_the_gap():
    """Var = d s^4: what is measured at a sigma such that the std is 1.01 times what theory says."""
    reference = planted_reference("variance", predict(Case(16), "variance"), 0.01)
    exact = predict(Case(16, sigma_q=1 / 1.01), "variance")
    assert reference.value == pytest.approx(exact.value)
    assert reference.unit == pytest.approx(exact.unit)
    assert reference.replicate_sd == pytest.approx(exact.replicate_sd)


def test_a_planted_value_is_outside_by_the_gap():
    theory = Reference(0.5, 0.5, 0.1, None, "quadrature", "")
    assert planted_reference("max_prob", theory, 0.02).value == pytest.approx(0.49)
    bracket = replace(theory, value=(0.4, 0.5), kind="bracket")
    low, high = planted_reference("jacobian_spectral", bracket, -0.02).value
    assert (low, high) == pytest.approx((0.51, 0.61))
    share = replace(theory, value=0.001, unit=1.0)
    assert planted_reference("saturated", share, 0.01) is None


def test_what_cannot_be_planted_is_left_alone():
    rates = Rates(0.01)
    (row,) = decide([replace(ROW, estimate=Estimate(400_000, 16.0, 24.7))], rates)
    assert planted_row(row, 1.0, rates).reference.value == pytest.approx(16 / 1.01**2)
    assert planted_row(ROW, 1.0, rates) is None  # not decided yet
    constant = replace(row, reference=replace(row.reference, replicate_sd=0.0))
    assert planted_row(constant, 1.0, rates) is None


def test_runs_and_roots_never_share_a_seed():
    assert len({seed_of_run(root, i) for root in range(3) for i in (0, 1, 2**32 - 1)}) == 9
    with pytest.raises(InputError, match="run must be"):
        seed_of_run(0, 2**32)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"runs": "1"}, "runs must be an integer of at least 2"),
        ({"runs": "many"}, "runs must be"),
        ({"gaps": ("0",)}, "gaps must be a positive number"),
        ({"gaps": ("1", "1")}, "gaps"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(InputError, match=said):
        CalibrationOptions(**options).check()
