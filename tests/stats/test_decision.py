"""The contract's rules one by one, and Holm against a slow textbook implementation."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verify_variance.stats.cases import Case, Reference
from verify_variance.stats.checks import InputError
from verify_variance.stats.decision import Row, decide, distinct_tests, overall
from verify_variance.stats.pivots import clopper_pearson
from verify_variance.stats.planning import Rates, detectable_gap, draws_needed
from verify_variance.stats.predict import predict
from verify_variance.stats.quantities import Estimate

RATES = Rates()
SD = 0.75  # replicate_sd of the references below, in their unit
N = draws_needed(SD, 1.0, 0.01)  # planned for one test
SE = SD / math.sqrt(N)


def reference(value=1.0, *, sd=SD, skew=None, kind="closed form", unit=1.0):
    return Reference(value, unit, sd, skew, kind, "")


def row(gap=0.0, *, quantity="mean_abs", ref=None, draws=N, sd=SD, d_k=64, capped=False, **case):
    ref = reference() if ref is None else ref
    value = (1.0 if ref.value is None or isinstance(ref.value, tuple) else ref.value) + gap
    made = Case(d_k=d_k, **case)
    return Row(made, quantity, ref, Estimate(draws, value, sd), capped)


def one(*args, rates=RATES, samples_only=False, **kwargs):
    return decide([row(*args, **kwargs)], rates, samples_only=samples_only)[0]


def threshold(tests=1):
    return RATES.z_holm(tests)


@pytest.mark.parametrize("sign", [-1, 1])
def test_mismatch_begins_at_the_holm_threshold(sign):
    assert one(sign * threshold() * SE * 1.0001).verdict == "mismatch"
    assert one(sign * threshold() * SE * 0.9999).verdict != "mismatch"


@pytest.mark.parametrize("sign", [-1, 1])
def test_match_ends_where_gap_and_error_reach_the_tolerance(sign):
    edge = 0.01 - RATES.z_power * SE
    assert edge < threshold() * SE * 1.001  # at the planned draws nothing lies between
    assert one(sign * edge * 0.9999).verdict == "match"
    assert one(sign * edge * 1.0001, draws=N).verdict in ("undecided", "mismatch")


def test_undecided_lies_between_match_and_mismatch():
    few = N // 3
    se = SD / math.sqrt(few)
    edge = 0.01 - RATES.z_power * se
    assert edge < 0.9 * threshold() * se
    assert one(0.99 * edge, draws=few).verdict == "match"
    assert one(1.01 * edge, draws=few).verdict == "undecided"
    assert one(0.99 * threshold() * se, draws=few).verdict == "undecided"
    assert one(1.01 * threshold() * se, draws=few).verdict == "mismatch"


def test_the_error_of_a_match_is_the_larger_of_reference_and_sample():
    assert one(0.0, sd=3 * SD).verdict == "undecided"
    assert one(0.0, sd=SD / 3).verdict == "match"
    assert one(0.0, ref=reference(sd=SD / 2)).ci_high - 1 == pytest.approx(RATES.z_power * SE)


def test_a_mismatch_uses_the_error_of_the_reference():
    gap = 1.1 * threshold() * SE
    assert one(gap, sd=100 * SD).verdict == "mismatch"
    assert one(gap, sd=100 * SD).z == pytest.approx(1.1 * threshold())


def test_a_gap_below_the_numeric_floor_is_no_mismatch():
    many = 10**16
    assert one(0.9e-6, draws=many).verdict == "match"
    assert one(0.9e-6, draws=many).p_adjusted < 1e-6
    assert one(1.1e-6, draws=many).verdict == "mismatch"


def test_undecided_always_where_half_the_unit_could_hide():
    few = math.floor((SD * (threshold() + RATES.z_power) / 0.5) ** 2)
    got = one(50.0, draws=few)
    assert got.detectable > 0.5
    assert (got.verdict, got.note) == ("undecided", "too few draws to see a gap of half the unit")
    assert one(50.0, draws=few + 2).verdict == "mismatch"
    assert one(0.0, draws=few, samples_only=True).verdict == "undecided"


def test_samples_alone_are_judged_at_the_gap_they_detect():
    got = one(0.0, draws=5000, samples_only=True)
    assert got.tolerance == got.detectable == detectable_gap(SD, 1.0, 5000)
    assert got.verdict == "match"
    assert one(0.0, draws=5000).tolerance == 0.01
    assert one(0.0, draws=5000).verdict == "undecided"
    assert one(0.0, draws=5000, rates=Rates(tolerance=0.2)).tolerance == 0.2


def test_samples_alone_leave_nothing_between_match_and_mismatch():
    se = SD / math.sqrt(5000)
    for z in (0.0, 3.0, threshold() - 1e-6):
        assert one(z * se, draws=5000, samples_only=True).verdict == "match"
    assert one((threshold() + 1e-6) * se, draws=5000, samples_only=True).verdict == "mismatch"


def test_a_capped_row_says_at_which_gap_it_is_judged():
    got = one(0.0, draws=N // 4, capped=True)
    assert got.tolerance == got.detectable == pytest.approx(0.02, rel=1e-4)
    assert (got.verdict, got.note) == ("match", "judged at the gap its draws detect")
    easy = one(0.0, draws=4 * N, capped=True)  # another row of its cell was cut, not this one
    assert (easy.tolerance, easy.note) == (0.01, "")


def test_a_row_below_its_floor_says_so():
    # skew floor (10 z^3 / (6 ln 2))^2 at z = 4.8916
    skewed = reference(skew=10.0)
    assert one(0.0, ref=skewed).note == ""
    assert one(0.0, ref=skewed, draws=50_000).note == "below the floor of 7.92e+04 draws"
    assert one(0.0, ref=skewed, draws=80_000, sd=SD).note == ""
    few = one(0.0, quantity="entropy", n_keys=10, draws=9_999)
    assert few.note == "below the floor of 1e+04 draws"
    assert one(0.0, quantity="entropy", n_keys=10, draws=10_000).note == ""


def test_notes_add_up():
    got = one(0.0, ref=reference(skew=10.0), draws=100, capped=True)
    assert got.note == (
        "judged at the gap its draws detect; below the floor of 7.92e+04 draws; "
        "too few draws to see a gap of half the unit"
    )


def test_gaps_are_fractions_of_the_unit():
    ref = reference(4.0, unit=8.0, sd=8 * SD)
    got = decide([Row(Case(), "mean", ref, Estimate(N, 4.4, 8 * SD))])[0]
    assert got.gap == pytest.approx(0.05)
    assert got.ci_low == pytest.approx(4.4 - RATES.z_power * 8 * SE)
    assert got.detectable == pytest.approx(0.01, rel=1e-4)


@pytest.mark.parametrize("quantity", ["variance", "std", "mean", "skewness", "kurtosis"])
def test_units_of_the_logit_moments(quantity):
    ref = predict(Case(d_k=16, mean_q=0.5), quantity)
    unit = {"variance": 2 * ref.value, "std": ref.value, "mean": math.sqrt(16 * 1.25)}
    assert ref.unit == pytest.approx(unit.get(quantity, 1.0))


def test_kind_none_is_measured_and_counts_no_test():
    measured = row(0.0, quantity="jacobian_spectral", ref=reference(None, kind="none"), n_keys=5)
    got = decide([measured, row(0.0)])
    assert [r.verdict for r in got] == ["measured", "match"]
    assert (got[0].gap, got[0].z, got[0].p_value, got[0].tolerance) == (None,) * 4
    assert got[0].ci_low < got[0].estimate.value < got[0].ci_high
    assert distinct_tests([measured, row(0.0)]) == 1
    assert got[1].detectable == detectable_gap(SD, 1.0, N, tests=1)


BRACKET = reference((0.9, 1.1), sd=None, kind="bracket")


@pytest.mark.parametrize("end", [-1, 1])
@pytest.mark.parametrize(
    ("deviate", "tolerance_in_se", "verdict"),
    [
        (-9.0, 5.0, "match"),
        (0.0, 5.0, "match"),
        (1.90, 5.0, "match"),  # 1.90 + 3.09 < 5
        (1.92, 5.0, "undecided"),
        (4.88, 5.0, "undecided"),
        (4.90, 5.0, "mismatch"),
        (4.88, 9.0, "match"),
        (4.90, 9.0, "mismatch"),
    ],
)
def test_brackets(end, deviate, tolerance_in_se, verdict):
    se = 0.02 / tolerance_in_se
    value = 1.0 + end * (0.1 + deviate * se)
    estimate = Estimate(10**6, value, se * 1000)
    got = decide([Row(Case(n_keys=9), "jacobian_spectral", BRACKET, estimate)])[0]
    assert got.verdict == verdict


def test_a_wide_interval_around_a_bracket_is_undecided():
    got = decide([Row(Case(n_keys=9), "jacobian_spectral", BRACKET, Estimate(100, 1.1, 0.5))])[0]
    assert got.verdict == "undecided"


def share_row(share, value, draws, n_keys=9):
    sd = math.sqrt(value * (1 - value))
    ref = reference(value, sd=sd)
    return Row(Case(n_keys=n_keys), "saturated", ref, Estimate(draws, share, sd))


def test_shares_have_a_clopper_pearson_interval():
    got = decide([share_row(0.0, 1e-4, 10_000)])[0]
    assert (got.ci_low, got.ci_high) == clopper_pearson(0.0, 10_000, 1 - RATES.power)
    assert got.ci_high == pytest.approx(1 - 0.001 ** (1 / 10_000), rel=1e-9)
    assert got.verdict == "match"


WITHIN = Rates(within=True)


def test_within_is_a_mismatch_only_where_the_holm_interval_is_outside_the_tolerance():
    inside, outside = 0.01 + 4.88 * SE, 0.01 + 4.90 * SE
    assert one(inside, rates=WITHIN).verdict == "undecided"
    assert one(outside, rates=WITHIN).verdict == "mismatch"
    assert one(-outside, rates=WITHIN).verdict == "mismatch"
    assert one(inside).verdict == "mismatch"


def test_within_notes_a_small_but_significant_gap():
    many = 100 * N
    said = one(0.005, draws=many, rates=WITHIN)
    assert said.verdict == "match"
    assert said.note == "differs from the theory, by less than the tolerance"
    assert one(0.0, draws=many, rates=WITHIN).note == ""
    assert one(0.005, draws=many).verdict == "mismatch"


def test_within_and_samples_alone_share_one_tolerance():
    draws = N // 9
    se = SD / math.sqrt(draws)
    got = one(0.02, draws=draws, rates=WITHIN, samples_only=True)
    assert (got.verdict, got.p_value) == ("undecided", 1.0)
    edge = got.detectable + threshold() * se
    assert one(edge + 0.01 * se, draws=draws, rates=WITHIN, samples_only=True).verdict == "mismatch"
    assert one(edge - 0.01 * se, draws=draws, rates=WITHIN, samples_only=True).verdict != "mismatch"


def test_within_no_row_is_rejected_beyond_its_own_p_value():
    # 1 % of the std is a little more than 2 % of the variance: the two rows' slacks differ
    case, draws = Case(d_k=64), 10**12
    rows = [
        Row(case, q, predict(case, q), Estimate(draws, predict(case, q).value * r, sd))
        for q, r, sd in (("variance", 1.02005, 92.0), ("std", math.sqrt(1.02005), 5.8))
    ]
    variance, std = decide(rows, WITHIN)
    assert (variance.verdict, std.verdict) == ("mismatch", "match")
    assert std.p_adjusted >= std.p_value == 1.0


def slow_holm(p_values, alpha):
    """Holm 1979: reject while the smallest left is at most alpha over the number left."""
    left, rejected = dict(p_values), set()
    while left:
        name = min(left, key=left.get)
        if left[name] > alpha / len(left):
            return rejected
        rejected.add(name)
        del left[name]
    return rejected


@given(
    st.lists(st.floats(0, 8), min_size=1, max_size=12),
    st.sampled_from([1e-6, 1e-3, 0.05, 0.4]),
)
@settings(max_examples=200, deadline=None)
def test_holm_rejects_what_the_textbook_rejects(deviates, alpha):
    rates = Rates(false_alarm=alpha, tolerance=10.0)
    rows = [row(z * SE, d_k=i + 1) for i, z in enumerate(deviates)]
    decided = decide(rows, rates)
    wanted = slow_holm({r.test: r.p_value for r in decided}, alpha)
    # the numeric floor: a deviate of 1e-6 / SE or less is never called
    got = {r.test for r in decided if r.verdict == "mismatch"}
    floored = {r.test for r in decided if abs(r.gap) <= 1e-6}
    assert got == wanted - floored
    for r in decided:
        assert r.p_value <= r.p_adjusted <= 1.0


def test_a_second_test_is_held_against_a_milder_threshold():
    z_one, z_two = RATES.z_holm(1), RATES.z_holm(2)
    gaps = (1.01 * z_two * SE, 0.5 * (z_one + z_two) * SE)
    both = decide([row(gap, d_k=i + 1) for i, gap in enumerate(gaps)])
    assert [r.verdict for r in both] == ["mismatch", "mismatch"]
    alone = decide([row(gaps[1], d_k=1), row(0.0, d_k=2)])
    assert alone[0].verdict != "mismatch"


def table(quantities, scales=("none",), **case):
    rows = []
    for quantity in quantities:
        for scale in scales:
            made = Case(scale=scale, **case)
            ref = predict(made, quantity) if case.get("n_keys") is None else reference()
            rows.append(Row(made, quantity, ref))
    return rows


def test_distinct_tests():
    assert distinct_tests(table(["variance", "std"])) == 1
    assert distinct_tests(table(["variance", "std"], ["none", "sqrt-dk", "constant:3"])) == 1
    assert distinct_tests(table(["variance", "mean", "kurtosis", "mean_abs", "skewness"])) == 5
    assert distinct_tests(table(["variance"], d_k=16) + table(["variance"], d_k=32)) == 2
    assert distinct_tests(table(["entropy"], ["none", "sqrt-dk"], n_keys=4)) == 2
    # one factor spelt in two ways is one test
    assert distinct_tests(table(["entropy"], ["sqrt-dk", "power:0.5", "constant:8"], n_keys=4)) == 1
    assert distinct_tests(table(["entropy"], n_keys=4) + table(["entropy"], n_keys=5)) == 2


def test_rows_of_one_test_share_their_adjusted_p_value():
    rows = [
        replace(r, estimate=Estimate(N, r.reference.value * 1.001 ** (2 - i), 1.0))
        for i, r in enumerate(table(["variance", "std"]))
    ]
    variance, std = decide(rows)
    assert variance.p_value == pytest.approx(std.p_value, rel=1e-9)
    assert variance.p_adjusted == pytest.approx(std.p_adjusted, rel=1e-9)
    assert variance.p_adjusted == pytest.approx(variance.p_value, rel=1e-9)  # one test


def verdicts(*names):
    return [replace(row(), verdict=name) for name in names]


def test_overall():
    assert overall(verdicts("match", "undecided", "mismatch", "measured")) == "mismatch"
    assert overall(verdicts("match", "undecided", "measured")) == "undecided"
    assert overall(verdicts("measured", "match")) == "match"
    assert overall(verdicts("measured", "measured")) == "measured"
    assert overall([]) == "measured"


def test_rademacher_at_one_dimension_is_a_match_from_few_draws():
    """x = +-1: the variance deviates by the mean's square alone, and the kurtosis with it."""
    case, n, ups = Case(d_k=1, elements_q="rademacher", elements_k="rademacher"), 1000, 470
    mean = 2 * ups / n - 1
    variance = (1 - mean**2) * n / (n - 1)
    ref = predict(case, "variance")
    assert ref.replicate_sd == 0.0
    estimate = Estimate(n, variance, 2 * abs(mean))
    got = decide([Row(case, "variance", ref, estimate)], samples_only=True)[0]
    assert got.verdict == "match"
    assert got.z == pytest.approx(-math.sqrt(n) * abs(mean), rel=1e-9)
    wrong = decide([Row(case, "variance", ref, Estimate(n, 1.05, 0.0))], samples_only=True)[0]
    assert wrong.verdict == "mismatch"


@pytest.mark.parametrize(("value", "sd"), [(math.nan, 1.0), (1.0, math.inf), (math.inf, math.nan)])
def test_an_estimate_that_is_not_finite_is_an_error_not_a_verdict(value, sd):
    bad = Row(Case(), "std", predict(Case(), "std"), Estimate(100, value, sd))
    with pytest.raises(InputError, match="the estimate of std must be finite, got "):
        decide([bad])


def test_a_row_without_estimate_is_refused():
    with pytest.raises(ValueError, match="the row of std has no estimate to judge"):
        decide(table(["std"]))


def test_no_rows_no_verdicts():
    assert decide([]) == []
