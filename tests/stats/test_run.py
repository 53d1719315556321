"""A run before and after its draws, with draws made here in NumPy."""

import math
import subprocess
import sys

import numpy as np
import pytest
from verify_variance.stats.checks import InputError
from verify_variance.stats.moments import Moments
from verify_variance.stats.planning import predicted_seconds
from verify_variance.stats.request import CaseOptions, DecisionOptions, options_from
from verify_variance.stats.run import Run, estimate_of


def planned(**given):
    return Run.planned(*options_from(given))


def logits(cell, seed=0):
    """A cell's Moments from exact normal dot products."""
    rng = np.random.default_rng(seed)
    x = np.sqrt(rng.chisquare(cell.case.d_k, cell.draws)) * rng.standard_normal(cell.draws)
    return {("logit", None): Moments.of(x, 8), ("abs_logit", None): Moments.of(np.abs(x), 8)}


def test_a_right_sampler_matches_in_every_quantity_and_scale():
    """False alarm 1e-6; undecided cannot be, but with the miss rate of the planner's 1 - power."""
    run = planned(dk=[16, 64], quantities="logits", scale=["none", "sqrt-dk"], samples=50_000)
    rows = run.decided([logits(cell, seed) for seed, cell in enumerate(run.cells)])
    assert len(rows) == 2 * 6 * 2
    assert {row.verdict for row in rows} == {"match"}
    by_scale = {scale: [r for r in rows if r.case.scale == scale] for scale in ("none", "sqrt-dk")}
    for one, other in zip(*by_scale.values(), strict=True):
        assert one.quantity == other.quantity
        assert one.z == pytest.approx(other.z, rel=1e-6, abs=1e-9)
        assert one.p_adjusted == pytest.approx(other.p_adjusted, rel=1e-6)


def test_samples_alone_and_with_a_tolerance():
    assert planned(dk=8, samples=100).samples_only
    assert not planned(dk=8, samples=100, tolerance=0.1).samples_only
    assert not planned(dk=8).samples_only
    assert [cell.draws for cell in planned(dk=[8, 16], samples="1e3").cells] == [1000, 1000]


def test_a_capped_run_is_judged_at_what_it_detects():
    run = planned(dk=16, quantities="std", max_elements=32 * 20_000)
    (row,) = run.decided([logits(cell) for cell in run.cells])
    assert row.estimate.draws == 20_000
    assert row.tolerance == row.detectable > 0.01
    assert row.note == "judged at the gap its draws detect"
    assert row.verdict == "match"


def test_a_capped_run_below_its_skew_floor_says_both():
    run = planned(dk=1, quantities="std", max_elements=2 * 20_000)
    (row,) = run.decided([logits(cell) for cell in run.cells])
    # theory.md 3.3: 62 thousand for one two-sided 1e-6 test at d = 1
    assert row.note.startswith("judged at the gap its draws detect; below the floor of 6.19e+04")


def test_estimates_are_scaled_exactly():
    names = ["variance", "mean_abs", "kurtosis"]
    run = planned(dk=16, quantities=names, scale=["none", "dk"], samples=1000)
    moments = logits(run.cells[0])
    got = {(r.quantity, r.case.scale): estimate_of(r, moments).value for r in run.rows}
    for quantity, power in (("variance", 2), ("mean_abs", 1), ("kurtosis", 0)):
        wanted = got[quantity, "none"] / 16**power
        assert got[quantity, "dk"] == pytest.approx(wanted, rel=1e-14)


def test_elements_and_seconds():
    run = planned(dk=[8, 16], samples=1000)
    assert run.elements == 2 * (8 + 16) * 1000
    assert run.seconds == predicted_seconds(run.elements)


@pytest.mark.parametrize(
    "given", [{"samples": "1e16"}, {"max_elements": 1e30, "tolerance": 1e-9}], ids=str
)
def test_a_run_of_more_than_thirty_days_is_refused(given):
    with pytest.raises(InputError, match=r"^a run may take 30 days, got .* draws that take about "):
        planned(dk=64, **given)


def test_an_impossible_verdict_is_refused_before_anything_is_drawn():
    with pytest.raises(InputError, match="finite moments of order 8, got student-t:8"):
        planned(dk=64, elements="student-t:8")
    with pytest.raises(InputError, match="finite moments of order 16, got student-t:16"):
        planned(dk=64, elements="student-t:16", quantities="kurtosis")


def test_within_is_carried_into_the_verdict():
    options = CaseOptions(dk=("64",), quantities=("std",))
    run = Run.planned(options, DecisionOptions(samples="3e6", tolerance=0.01, within=True))
    assert run.rates.within
    x = Moments.of(1.004 * np.random.default_rng(1).standard_normal(3_000_000) * 8, 8)
    (row,) = run.decided([{("logit", None): x}])
    # 0.4 % at a standard error of 0.042 %: significant, and far inside 1 %
    assert (row.verdict, row.p_value) == ("match", 1.0)
    assert row.note == "differs from the theory, by less than the tolerance"


def test_planning_loads_no_jax():
    code = (
        "import sys; from verify_variance.stats.run import Run; "
        "from verify_variance.stats.request import CaseOptions, DecisionOptions; "
        "Run.planned(CaseOptions(), DecisionOptions()); "
        "print([m for m in ('jax', 'pandas', 'matplotlib', 'scipy.stats') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_plan_holds_its_tolerance_in_every_row():
    run = planned(dk=[1, 4, 16], quantities=["std", "mean", "mean_abs"])
    rows = run.decided([logits(cell, seed) for seed, cell in enumerate(run.cells)])
    assert all(row.detectable <= 0.01 * (1 + 1e-9) for row in rows)
    assert all(row.tolerance == 0.01 for row in rows)
    assert math.isclose(max(row.detectable for row in rows), 0.01, rel_tol=1e-5)
