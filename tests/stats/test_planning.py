"""The planner's figures in the contract, its floors and its cap."""

import math

import mpmath as mp
import pytest
from verify_variance.stats.cases import Case, Reference
from verify_variance.stats.checks import InputError
from verify_variance.stats.planning import (
    ELEMENTS_PER_SECOND,
    LEAST_ROWS,
    MAX_ELEMENTS,
    UNKNOWN_SPREAD_DRAWS,
    Rates,
    detectable_by,
    detectable_gap,
    draws_floor,
    draws_needed,
    elements_per_draw,
    plan_draws,
    predicted_seconds,
    shown_duration,
    skew_floor,
)
from verify_variance.stats.predict import predict
from verify_variance.stats.request import CaseOptions, DecisionOptions
from verify_variance.stats.run import Run

RATES = Rates()
SD = "replicate_sd must be a number of at least 0"


def deviate(p):
    """The normal quantile in mpmath."""
    with mp.workdps(30):
        return float(mp.sqrt(2) * mp.erfinv(2 * mp.mpf(p) - 1))


def test_default_thresholds():
    assert RATES.z_holm(4) == pytest.approx(-deviate(1e-6 / 8), rel=1e-10)
    assert RATES.z_power == pytest.approx(deviate(0.999), rel=1e-10)
    assert round(RATES.z_holm(4), 3) == 5.158
    assert round(RATES.z_power, 3) == 3.090
    assert RATES.z_holm(0) == RATES.z_holm(1) == pytest.approx(4.8916, abs=1e-4)


def test_the_default_table_plans_404_372_356_and_348_thousand():
    run = Run.planned(CaseOptions(), DecisionOptions())
    draws = [cell.draws for cell in run.cells]
    assert [round(n / 1000) for n in draws] == [404, 372, 356, 348]
    z = -deviate(1e-6 / 8) + deviate(0.999)
    # replicate_sd / unit of the variance of a normal logit: sqrt(2 + 6/d) / 2
    exact = [math.ceil((z * math.sqrt(2 + 6 / d) / 2 / 0.01) ** 2) for d in (16, 32, 64, 128)]
    assert draws == exact
    assert not any(cell.capped for cell in run.cells)


def test_variance_and_std_plan_the_same_draws():
    case = Case(d_k=32)
    plans = {
        plan_draws(case, [(name, predict(case, name))], RATES, 1) for name in ("variance", "std")
    }
    assert len(plans) == 1


@pytest.mark.parametrize(
    ("d", "alpha", "power", "wanted"),
    # theory.md 3.4: 1 %, alpha 1e-6, power 0.9
    [(64, 1e-6, 0.9, 199_474), (16, 1e-6, 0.9, 226_268), (1, 1e-6, 0.9, 762_166)],
)
def test_published_sample_sizes(d, alpha, power, wanted):
    sd = math.sqrt(2 + 6 / d) / 2
    assert draws_needed(sd, 1.0, 0.01, false_alarm=alpha, power=power) == wanted


@pytest.mark.parametrize(
    ("d", "wanted"),
    # theory.md 3.3: two-sided 1e-6; one pair's skew (k6 + 12 k4 + 8) / (k4 + 2)^1.5
    [(1, 62_000), (4, 21_000), (16, 10_000), (64, 7_200)],
)
def test_published_skew_floors(d, wanted):
    skew = (120 / d**2 + 72 / d + 8) / (6 / d + 2) ** 1.5
    assert skew_floor(skew, RATES.z_holm(1)) == pytest.approx(wanted, rel=0.05)
    assert skew_floor(predict(Case(d_k=d), "variance").replicate_skew, RATES.z_holm(1)) == (
        pytest.approx(skew_floor(skew, RATES.z_holm(1)), rel=1e-9)
    )


def test_the_skew_floor_is_a_factor_of_two_by_edgeworth():
    # tail error exp(skew z^3 / (6 sqrt N)) = 2 at the floor
    z, skew = 5.158, 3.0
    assert math.exp(skew * z**3 / (6 * math.sqrt(skew_floor(skew, z)))) == pytest.approx(2)
    assert skew_floor(None, z) == 0.0


def reference(sd, skew=None, unit=1.0):
    return Reference(1.0, unit, sd, skew, "closed form", "")


def test_floors_beat_the_tolerance():
    case = Case(d_k=4)
    floor = math.ceil(skew_floor(3.0, RATES.z_holm(1)))
    assert plan_draws(case, [("std", reference(1e-3, 3.0))], RATES, 1) == (floor, False)
    rows = Case(d_k=4, n_keys=2)
    assert plan_draws(rows, [("entropy", reference(1e-3, 0.0))], RATES, 1) == (10_000, False)
    assert draws_floor("entropy", reference(1.0, 4.0), 5.0) == skew_floor(4.0, 5.0) > LEAST_ROWS
    assert draws_floor("entropy", reference(1.0), 5.0) == 10_000
    assert draws_floor("std", reference(1.0), 5.0) == 0


def test_the_cap_beats_the_floor():
    case = Case(d_k=50)
    cap = plan_draws(case, [("std", reference(1e-3, 30.0))], RATES, 1, max_elements=1e5)
    assert cap == (1000, True)
    assert plan_draws(case, [("std", reference(1e9))], RATES, 1) == (MAX_ELEMENTS // 100, True)


def test_rows_without_an_exact_spread_ask_for_a_fixed_number():
    assert UNKNOWN_SPREAD_DRAWS == 100_000
    for quantity, n_keys in (("mean_abs", None), ("jacobian_spectral", 10)):
        case = Case(d_k=4, n_keys=n_keys)
        assert plan_draws(case, [(quantity, reference(None))], RATES, 1) == (100_000, False)


def test_a_cell_draws_the_most_that_its_rows_ask_for():
    case = Case(d_k=4)
    rows = [("std", reference(1.0)), ("mean", reference(2.0)), ("mean_abs", reference(None))]
    alone = [plan_draws(case, [row], RATES, 3)[0] for row in rows]
    assert plan_draws(case, rows, RATES, 3)[0] == max(alone)


def test_elements_behind_a_replicate():
    assert elements_per_draw(Case(d_k=64)) == 128
    assert elements_per_draw(Case(d_k=64, n_keys=10)) == 64 * 11
    assert elements_per_draw(Case(d_k=None, n_keys=10, logit_std=1.0)) == 10


@pytest.mark.parametrize("tests", [1, 4, 100])
@pytest.mark.parametrize("sd", [0.3, 2.0])
def test_detectable_equals_the_tolerance_at_the_planned_draws(tests, sd):
    rates = Rates(tolerance=0.003)
    draws = draws_needed(sd, 2.0, 0.003, tests=tests)
    # rounding the draws up by less than one moves the gap by less than 1 / (2 N)
    assert detectable_gap(sd, 2.0, draws, tests=tests) == pytest.approx(0.003, rel=1 / draws)
    assert detectable_by("std", reference(sd, unit=2.0), draws, rates, tests, 99.0) == (
        detectable_gap(sd, 2.0, draws, tests=tests)
    )


def test_an_unknown_spread_takes_the_samples():
    got = detectable_by("mean_abs", reference(None), 400, RATES, 2, 3.0)
    assert got == detectable_gap(3.0, 1.0, 400, tests=2)


def test_a_vanishing_influence_function_detects_gaps_of_order_one_over_n():
    z = RATES.z_holm(1) + RATES.z_power
    constant = reference(0.0)
    assert detectable_by("std", constant, 1000, RATES, 1, 0.0) == pytest.approx(z**2 / 2000)
    assert detectable_by("kurtosis", constant, 1000, RATES, 1, 0.0) == pytest.approx(z**2 / 250)
    assert detectable_by("mean_abs", constant, 1000, RATES, 1, 0.0) == 1e-6
    assert plan_draws(Case(d_k=1), [("std", constant)], RATES, 1) == (10_000, False)


def test_text_becomes_its_number():
    rates = Rates("1e-4", "0.9", "0.05")  # type: ignore[arg-type]
    assert (rates.false_alarm, rates.power, rates.tolerance) == (1e-4, 0.9, 0.05)
    assert rates.tolerance_of("entropy") == 0.05


def test_default_tolerances():
    assert [RATES.tolerance_of(q) for q in ("std", "kurtosis", "entropy", "jacobian_trace")] == [
        0.01, 0.01, 0.02, 0.02,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: Rates(false_alarm=0), "false_alarm must be a number between 0 and 0.5, got 0"),
        (lambda: Rates(false_alarm=0.5), "false_alarm must be a number between 0 and 0.5, got 0.5"),
        (lambda: Rates(power=1.0), "power must be a number between 0 and 1, got 1.0"),
        (lambda: Rates(power=0.2), "power must be at least 0.5, got 0.2"),
        (lambda: Rates(tolerance=0), "tolerance must be a positive number, got 0"),
        (lambda: Rates(tolerance="x"), "tolerance must be a positive number, got 'x'"),
        (lambda: draws_needed(1.0, 0.0, 0.1), "unit must be a positive number, got 0.0"),
        (lambda: draws_needed(-1.0, 1.0, 0.1), f"{SD}, got -1.0"),
        (lambda: draws_needed(1.0, 1.0, -0.1), "tolerance must be a positive number, got -0.1"),
        (lambda: detectable_gap(1.0, 1.0, 0), "draws must be a positive integer, got 0"),
        (lambda: detectable_gap(math.inf, 1.0, 9), f"{SD}, got inf"),
    ],
)  # fmt: skip
def test_a_bad_rate_is_one_line(bad, message):
    with pytest.raises(InputError) as caught:
        bad()
    assert str(caught.value) == message


def test_durations():
    assert predicted_seconds(100 * ELEMENTS_PER_SECOND) == 100
    assert [shown_duration(s) for s in (0, 7200, 7 * 86400)] == ["1 s", "2 hours", "7 days"]
