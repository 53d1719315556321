"""Cells: what is drawn once for all rows that can share it."""

from verify_variance.stats.cases import Case, Reference
from verify_variance.stats.cells import plan_cells
from verify_variance.stats.decision import Row
from verify_variance.stats.planning import Rates
from verify_variance.stats.predict import predict

RATES = Rates()


def row(quantity, **case):
    made = Case(**case)
    ref = Reference(1.0, 1.0, 0.1, 0.0, "closed form", "")
    return Row(made, quantity, predict(made, quantity) if made.n_keys is None else ref)


def test_scales_and_logit_moments_share_one_cell():
    rows = [
        row(q, d_k=8, scale=s) for q in ("variance", "std", "mean_abs") for s in ("none", "sqrt-dk")
    ]
    (cell,) = plan_cells(rows, RATES)
    assert cell.case == Case(d_k=8)
    assert cell.measured == ("logit", "abs_logit")
    assert cell.factors == ()


def test_row_statistics_keep_each_factor_once():
    rows = [
        row(q, d_k=64, n_keys=4, scale=s)
        for q in ("entropy", "max_prob")
        for s in ("none", "sqrt-dk", "constant:8")
    ]
    (cell,) = plan_cells(rows, RATES)
    assert cell.factors == (1.0, 0.125)
    assert cell.measured == ("entropy", "max_prob")


def test_cells_come_in_the_order_of_their_first_row():
    rows = [row("std", d_k=d, **more) for d in (32, 8) for more in ({}, {"sigma_q": 2.0}, {})]
    cells = plan_cells(rows, RATES)
    drawn = [(c.case.d_k, c.case.sigma_q) for c in cells]
    assert drawn == [(32, 1), (32, 2), (8, 1), (8, 2)]


def test_draws_given_beat_the_plan_and_the_cap():
    (cell,) = plan_cells([row("std", d_k=8)], RATES, 12_345, 10.0)
    assert (cell.draws, cell.capped, cell.elements) == (12_345, False, 12_345 * 16)


def test_a_cell_that_the_cap_cuts_says_so():
    (cell,) = plan_cells([row("std", d_k=8)], RATES, None, 16_000.0)
    assert (cell.draws, cell.capped) == (1000, True)


def test_the_plan_counts_the_tests_of_the_whole_table():
    alone = plan_cells([row("std", d_k=8)], RATES)[0].draws
    among = plan_cells([row("std", d_k=d) for d in (8, 16, 32)], RATES)[0].draws
    z = [RATES.z_holm(m) + RATES.z_power for m in (1, 3)]
    assert abs(among / alone - (z[1] / z[0]) ** 2) < 2 / alone
