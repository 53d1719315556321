"""Deciding while drawing: what the looks spend, and the rates of the whole, counted.

Each side of a count is wrong with probability 5e-7 for any seed, by its binomial law.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from verify_variance.stats import looks as looks_of
from verify_variance.stats.cases import Case
from verify_variance.stats.checks import InputError
from verify_variance.stats.decision import Row, decide
from verify_variance.stats.looks import Looks, rates_at, spent
from verify_variance.stats.moments import Moments
from verify_variance.stats.planning import Rates
from verify_variance.stats.predict import predict
from verify_variance.stats.quantities import Estimate
from verify_variance.stats.request import options_from
from verify_variance.stats.run import Run

ONE_SIDE = 5e-7


def planned(**options):
    return Run.planned(*options_from({"quantities": "mean"} | options))


def looked(run, gap, rng, most=10**9):
    """One run of means that are `gap` standard deviations off: each look adds to the last."""
    looks, total = Looks(run, lambda case: 1, lambda case: most), {}
    while cells := looks.cells:
        measured = []
        for cell in cells:
            n, s = total.get(cell.case, (0, 0.0))
            more, sd = cell.draws - n, math.sqrt(cell.case.d_k)
            s += sd * (more * gap + math.sqrt(more) * rng.standard_normal())
            total[cell.case] = cell.draws, s
            sums = (cell.draws * sd**2, 0.0, 3 * cell.draws * sd**4)
            measured.append({("logit", None): Moments(cell.draws, s / cell.draws, sums)})
        looks.judge(measured)
    return looks, sum(n for n, _ in total.values())


def counted(run, gap, runs, seed, **more):
    rng = np.random.default_rng(seed)
    ended = [looked(run, gap, rng, **more) for _ in range(runs)]
    verdicts = [{row.verdict for row in looks.rows} for looks, _ in ended]
    return verdicts, np.mean([draws for _, draws in ended]) / run.cells[0].draws


def test_the_looks_spend_both_rates_and_no_more():
    for rate in (1e-6, 0.05):
        assert sum(spent(rate, k) for k in range(1, 10_000)) == pytest.approx(rate, rel=2e-4)
    at = rates_at(Rates(0.01, 0.9), 3)
    assert (at.false_alarm, 1 - at.power) == pytest.approx((0.01 / 12, 0.1 / 12))


FAMILY = {"dk": [4, 16, 64], "false_alarm": 0.05, "power": 0.9, "tolerance": 0.03}


def test_three_rows_that_are_right_alarm_as_seldom_as_is_said():
    runs = 1500
    verdicts, _ = counted(planned(**FAMILY), 0.0, runs, seed=1)
    alarms = sum("mismatch" in found for found in verdicts)
    assert binom.sf(alarms - 1, runs, 0.05) > ONE_SIDE, alarms
    # the first look alone alarms at half the rate, and Holm's first step at a third a row
    at_least = 1 - (1 - 0.025 / 3) ** 3
    assert binom.cdf(alarms, runs, at_least) > ONE_SIDE, alarms
    assert all(found <= {"match", "mismatch"} for found in verdicts)


def test_looks_that_spend_nothing_are_caught(monkeypatch):
    """The planted fault that the counts above are for: every look at the whole rate."""
    monkeypatch.setattr(looks_of, "spent", lambda rate, look: rate)
    runs = 1500
    verdicts, _ = counted(planned(**FAMILY | {"dk": [16], "power": 0.99}), 0.0, runs, seed=1)
    alarms = sum("mismatch" in found for found in verdicts)
    assert binom.sf(alarms - 1, runs, 0.05) < ONE_SIDE, alarms


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_gap_of_the_tolerance_is_seldom_called_a_match(sign):
    runs, run = 600, planned(**FAMILY | {"dk": [16]})
    verdicts, _ = counted(run, sign * 0.03, runs, seed=2)
    passed = sum(found == {"match"} for found in verdicts)
    assert binom.sf(passed - 1, runs, 0.1) > ONE_SIDE, passed
    assert sum(found == {"mismatch"} for found in verdicts) == runs - passed


def test_most_draws_are_saved():
    """Share of the fixed plan's draws, to five standard errors: 0.25 / sqrt(400) at the most."""
    run = planned(dk=16)
    for gap, share in ((0.0, 0.44), (2.0, 0.16), (5.0, 0.125)):
        verdicts, draws = counted(run, 0.01 * gap, 400, seed=3)
        assert {*verdicts[0]} == {"mismatch" if gap else "match"}
        assert draws == pytest.approx(share, abs=0.0625), gap


def test_what_is_decided_stays_and_is_drawn_no_further():
    run = planned(dk=[4, 16], tolerance=0.01)
    looks = Looks(run, lambda case: 1000, lambda case: 10**9)
    first, second = looks.cells
    assert first.draws == second.draws == 1000 * math.ceil(run.cells[0].draws / 8000)

    def moments(cell, z):
        sd = math.sqrt(cell.case.d_k)
        mean = z * sd / math.sqrt(cell.draws)
        return {("logit", None): Moments(cell.draws, mean, (cell.draws * sd**2, 0.0, 0.0))}

    looks.judge([moments(first, 9.0), moments(second, 0.0)])
    assert [row.verdict for row in looks.rows] == ["mismatch", "undecided"]
    (left,) = looks.cells
    assert left.case == second.case
    assert left.draws == 2 * second.draws
    while looks.cells:
        looks.judge([moments(cell, 0.0) for cell in looks.cells])
    alarmed, accepted = looks.rows
    assert (alarmed.verdict, accepted.verdict) == ("mismatch", "match")
    assert (alarmed.look, alarmed.estimate.draws) == (1, first.draws)
    assert accepted.look == looks.number > 1
    assert accepted.estimate.draws == second.draws * 2 ** (accepted.look - 1)
    # p-values speak in the terms of the whole run
    assert alarmed.p_adjusted == pytest.approx(alarmed.p_value * 2 * 2)
    assert alarmed.detectable == accepted.detectable == 0.01


def test_at_most_so_many_draws_and_then_undecided():
    run = planned(dk=16)
    verdicts, draws = counted(run, 0.005, 20, seed=4, most=100_000)
    assert all(found == {"undecided"} for found in verdicts)
    assert draws * run.cells[0].draws == 100_000


def test_an_accepted_test_counts_in_holms_family():
    row = Row(Case(16), "mean", predict(Case(16), "mean"), Estimate(10_000, 0.2, 4.0))
    alone, among = decide([row])[0], decide([row], accepted=3)[0]
    assert among.p_adjusted == pytest.approx(4 * alone.p_adjusted)
    many = [replace(row, case=Case(d)) for d in (4, 64, 128)]
    assert among.detectable == pytest.approx(decide([row, *many])[0].detectable)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"quantities": "above_3"}, "give --tolerance"),
        ({"quantities": "jacobian_frobenius_median", "n_keys": 4}, "nothing to decide"),
    ],
)
def test_what_cannot_be_decided_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        Looks(planned(dk=8, **options), lambda case: 1, lambda case: 10**6)
