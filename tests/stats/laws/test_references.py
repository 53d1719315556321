"""The law, its tails and its extremes: references, planned draws, rates, and planted faults."""

import math

import numpy as np
import pytest
from scipy import stats
from verify_variance.stats.cases import Case
from verify_variance.stats.decision import Row, decide
from verify_variance.stats.laws.logit_counts import LogitCounts, count_edges
from verify_variance.stats.laws.references import law_estimate, law_reference
from verify_variance.stats.planning import Rates, detectable_by, plan_draws
from verify_variance.stats.quantities import GROUPS

LAW = ("law", *GROUPS["tails"], *GROUPS["extremes"])
RATE = 1e-7  # of each statistical test here, for any seed


def rows_of(case, x, quantities=LAW, rates=None, **options):
    counts = LogitCounts.of(x, count_edges(case))
    rows = []
    for quantity in quantities:
        reference = law_reference(case, quantity)
        reference = reference.at(counts.count) if reference.at else reference
        estimate = law_estimate(case, quantity, 1.0, counts)
        rows.append(Row(case, quantity, reference, estimate))
    return decide(rows, rates or Rates(), **options)


def verdicts(case, x, **options):
    return {row.quantity: row.verdict for row in rows_of(case, x, **options)}


def dots(rng, n, d, draw=None):
    draw = draw or rng.standard_normal
    return np.einsum("ij,ij->i", draw((n, d)), draw((n, d)))


def test_tails_are_exact():
    """The tail at d_k = 64 beyond 3 sd is R012; signs are counted."""
    assert law_reference(Case(d_k=64), "above_3").value == pytest.approx(0.0016521211622724, 1e-11)
    signs = Case(d_k=16, elements_q="rademacher", elements_k="rademacher")
    above = sum(math.comb(16, j) for j in (15, 16)) / 2**16  # 14 and 16 exceed 12
    assert law_reference(signs, "above_3").value == pytest.approx(above, rel=1e-14)
    assert law_reference(signs, "below_3").value == pytest.approx(above, rel=1e-14)
    assert law_reference(signs, "above_4").value == 0.0  # 16 = 4 sd is not beyond


def test_the_largest_of_many_laplace_logits():
    """d_k = 2: P(X > x) = exp(-x) / 2, so that the median solves (1 - exp(-x)/2)^N = 1/2."""
    n = 10**6
    exact = -math.log(-2 * math.expm1(-math.log(2) / n))
    scaled = law_reference(Case(d_k=2), "largest", 0.25).at(n)
    assert scaled.value == pytest.approx(exact / 4, rel=1e-9)
    assert law_reference(Case(d_k=2), "smallest").at(n).value == pytest.approx(-exact, rel=1e-9)
    assert law_reference(Case(d_k=1), "largest").at(n).value != pytest.approx(exact, rel=1e-2)


def test_a_tail_below_the_accuracy_of_an_inverted_cdf_is_an_interval():
    uniform = Case(d_k=16, elements_q="uniform", elements_k="uniform")
    low, high = law_reference(uniform, "above_6").value
    assert 0 < low < 1.2e-9 < high < 1.21e-9
    assert law_reference(uniform, "above_3").kind == "quadrature"


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (Case(d_k=4, elements_q="uniform", elements_k="uniform"), "d_k must be larger"),
        (Case(elements_q="sphere", elements_k="uniform"), "elements must be independent"),
        (Case(d_k=4, weights="lecun-normal", d_model=8), "no exact law of logits through weights"),
    ],
)
def test_what_has_no_cdf_is_measured_and_says_why(case, why):
    x = np.random.default_rng(0).standard_normal(1000)
    rows = rows_of(case, x)
    assert {row.verdict for row in rows} == {"measured"}
    assert all(why in row.reference.assumptions for row in rows)


def test_a_law_is_tested_where_the_variance_cannot_be():
    from verify_variance.stats.checks import InputError
    from verify_variance.stats.predict import check_verdict_possible

    heavy = Case(d_k=64, elements_q="student-t:5", elements_k="student-t:5")
    with pytest.raises(InputError, match="or law"):
        check_verdict_possible(heavy, "variance")
    rng, wrong = np.random.default_rng(), math.sqrt(4.5 / 2.5)
    x = dots(rng, 50_000, 64, lambda size: rng.standard_t(5, size) / math.sqrt(5 / 3))
    assert set(verdicts(heavy, x, samples_only=True).values()) == {"match"}
    other = dots(rng, 50_000, 64, lambda size: rng.standard_t(4.5, size) / wrong)
    assert verdicts(heavy, 1.1 * other)["law"] == "mismatch"


CASES = {
    "normal": (Case(d_k=4), lambda rng, n: dots(rng, n, 4)),
    "signs": (
        Case(d_k=16, elements_q="rademacher", elements_k="rademacher"),
        lambda rng, n: 2.0 * rng.binomial(16, 0.5, n) - 16,
    ),
    "uniform": (
        Case(d_k=16, elements_q="uniform", elements_k="uniform"),
        lambda rng, n: dots(rng, n, 16, lambda size: rng.uniform(-(3**0.5), 3**0.5, size)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_false_alarms_are_no_more_frequent_than_stated(name):
    """Every test of the group at level 5 %, over 150 runs of 2000 draws."""
    case, draw = CASES[name]
    rng, trials, level = np.random.default_rng(), 150, 0.05
    alarms = dict.fromkeys(LAW, 0)
    runs = 0
    for _ in range(trials):
        rows = rows_of(case, draw(rng, 2000), rates=Rates(false_alarm=level))
        for row in rows:
            alarms[row.quantity] += row.p_value <= level
        runs += any(row.verdict == "mismatch" for row in rows)
    limit = stats.binom.isf(RATE, trials, level)
    assert max(alarms.values()) <= limit
    assert runs <= limit


def test_extremes_are_not_only_safe_but_exact():
    case, draw = CASES["normal"]
    rng = np.random.default_rng()
    p = [rows_of(case, draw(rng, 500), ("largest",))[0].p_value for _ in range(300)]
    assert stats.kstest(p, "uniform").pvalue > RATE


def variance_is_right(case, x):
    z = (np.mean(x**2) / case.d_k - 1) / math.sqrt((2 + 6 / case.d_k) / len(x))
    return abs(z) < 5.4


def cut(x, bound):
    """Beyond the bound drawn anew, as samplers with a missing tail do; the variance restored."""
    inside = x[np.abs(x) <= bound]
    return inside * (x.std() / inside.std())


def test_tails_that_are_wrong_under_a_right_variance_are_caught():
    """A truncation at 5 sd: 800 thousand draws miss the 109 a side that should lie beyond."""
    case, rng = Case(d_k=4), np.random.default_rng()
    x = np.concatenate([dots(rng, 10**5, 4) for _ in range(8)])
    assert set(verdicts(case, x).values()) == {"match"}
    assert law_reference(case, "above_5").value == pytest.approx(1.362e-4, rel=1e-3)
    planted = cut(x, 10.0)
    assert variance_is_right(case, planted)
    got = verdicts(case, planted)
    assert (got["above_5"], got["below_5"], got["law"]) == ("mismatch", "mismatch", "match")
    assert "mismatch" in (got["largest"], got["smallest"])
    clipped = verdicts(case, np.clip(x, -9.99, 9.99))
    assert clipped["above_5"] == clipped["below_5"] == "mismatch"


def test_a_mixture_of_equal_variance_is_caught_by_the_law():
    case, rng = Case(d_k=4), np.random.default_rng()

    def mixed(size):
        return rng.standard_normal(size) * np.sqrt(rng.choice([0.5, 1.5], size))

    x = dots(rng, 400_000, 4, mixed)
    assert variance_is_right(case, x)
    got = verdicts(case, x)
    assert (got["law"], got["above_5"]) == ("mismatch", "mismatch")
    signs = dots(rng, 50_000, 4, lambda size: rng.choice([-1.0, 1.0], size))
    assert verdicts(case, signs)["law"] == "mismatch"


def test_a_sampler_that_returns_a_million_once_is_caught():
    """jax issue 10951: truncated_normal beyond 5.25 sd returned 1e6."""
    case = Case(d_k=16, elements_q="truncated-normal:2", elements_k="truncated-normal:2")
    x = np.random.default_rng(3).standard_normal(20_000) * 4 * 0.98
    x[7] = 1e6
    assert verdicts(case, x)["largest"] == "mismatch"


def test_planned_draws_see_the_tolerance_and_a_missing_tail():
    case, rates, tests = Case(d_k=4), Rates(), 3
    law = law_reference(case, "law")
    draws, _ = plan_draws(case, [("law", law)], rates, tests)
    # (sqrt(ln(2 tests / 1e-6) / 2) + 3.0902 / 2)^2 / 0.01^2
    expected = ((math.log(6e6) / 2) ** 0.5 + 1.5451161) ** 2 / 1e-4
    assert draws == math.ceil(expected)
    assert detectable_by("law", law, draws, rates, tests, 0.0) == pytest.approx(0.01, rel=1e-5)
    tail = law_reference(case, "above_4")
    draws, _ = plan_draws(case, [("above_4", tail)], rates, tests)
    assert (1 - tail.value) ** draws <= 1e-6 / 6 < (1 - tail.value) ** (draws - 1)
