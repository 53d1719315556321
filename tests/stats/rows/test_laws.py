"""From a case to its row's law and reference."""

import math

import pytest
from verify_variance.stats.cases import Case
from verify_variance.stats.rows.laws import NO_VALUE, row_law, row_reference
from verify_variance.stats.rows.logit_laws import RowLaw
from verify_variance.stats.rows.moments import row_moments
from verify_variance.stats.rows.references import ROW_STATISTICS

EIGHTH = 0.125  # 1/sqrt(64)


def law_of(case: Case, factor: float = EIGHTH) -> RowLaw:
    found = row_law(case, factor)
    assert not isinstance(found, str)
    return found[0]


def row(**given: object) -> Case:
    return Case(n_keys=10, **given)  # type: ignore[arg-type]


def test_laws_of_cases() -> None:
    assert law_of(row()) == RowLaw(1.0, (64,))
    assert law_of(row(sigma_q=2.0, sigma_k=3.0)) == RowLaw(6.0, (64,))
    assert law_of(row(), -EIGHTH) == RowLaw(1.0, (64,))
    assert law_of(row(elements_q="rademacher")) == RowLaw(1.0)
    assert law_of(row(elements_q="sphere")) == RowLaw(1.0)
    assert law_of(row(elements_k="sphere")) == RowLaw(1.0, (64,), "sphere", 64)
    both = {"elements_q": "rademacher", "elements_k": "rademacher"}
    assert law_of(row(**both)) == RowLaw(1.0, (), "rademacher", 64)
    assert law_of(Case(d_k=None, n_keys=10, logit_std=3.0), 2.0) == RowLaw(6.0)


def test_what_all_keys_share_drops_out() -> None:
    assert law_of(row(mean_k=5.0)) == law_of(row())
    assert law_of(row(correlation=0.6)) == RowLaw(pytest.approx(0.8), (64,))
    assert law_of(row(mean_q=0.5, sigma_q=2.0)) == RowLaw(2.0, (64,), shift=4.0)


@pytest.mark.parametrize(
    "case",
    [
        row(elements_q="laplace"),
        row(elements_k="uniform"),
        row(elements_q="sphere", elements_k="rademacher"),
        row(elements_q="rademacher", mean_q=1.0),
        row(elements_k="student-t:9"),
    ],
)
def test_no_exact_law_means_no_value(case: Case) -> None:
    reference = row_reference(case, "sum_p2", EIGHTH)
    assert (reference.value, reference.kind) == (None, "none")
    assert reference.assumptions.startswith("no exact law")
    if not case.mean_q:
        normal = row_reference(row(), "sum_p2", EIGHTH).value
        assert reference.approximation == normal


@pytest.mark.parametrize("quantity", ROW_STATISTICS)
@pytest.mark.parametrize("n", [2, 3, 10])
def test_every_quantity_has_a_reference(quantity: str, n: int) -> None:
    r = row_reference(Case(n_keys=n), quantity, EIGHTH)
    assert r.unit > 0
    assert r.formula
    assert r.assumptions
    assert r.replicate_sd is not None
    assert r.replicate_sd >= 0
    if isinstance(r.value, tuple):
        assert r.kind == "bracket"
        assert 0 < r.value[0] <= r.value[1]
        assert r.value[0] <= r.unit <= r.value[1]
    else:
        assert r.kind == ("closed form" if (n, quantity) == (2, "third_prob") else "quadrature")


def test_units_and_spreads() -> None:
    case = Case(n_keys=10)
    assert row_reference(case, "entropy", EIGHTH).unit == math.log(10)
    saturated = row_reference(case, "saturated", 1.0)
    share = saturated.value
    assert isinstance(share, float)
    assert saturated.unit == 1.0
    assert saturated.replicate_sd == pytest.approx(math.sqrt(share * (1 - share)))
    trace, sum_p2 = (row_reference(case, name, EIGHTH) for name in ("jacobian_trace", "sum_p2"))
    assert trace.replicate_sd == sum_p2.replicate_sd
    assert trace.replicate_skew == pytest.approx(-(sum_p2.replicate_skew or 0.0))
    # second moments mix over |q|, not spreads: the mean of the sds is smaller
    m = row_moments(RowLaw(1.0, (64,)), 10)
    assert sum_p2.replicate_sd == pytest.approx(math.sqrt(m["spread^2"] - m["spread"] ** 2))
    alone = row_reference(Case(d_k=None, logit_std=1.0, n_keys=10), "sum_p2", 1.0)
    assert alone.replicate_sd is not None
    assert sum_p2.replicate_sd is not None
    assert sum_p2.replicate_sd > 1.02 * alone.replicate_sd


def test_two_keys_make_both_norms_the_trace() -> None:
    references = [
        row_reference(Case(n_keys=2), name, EIGHTH)
        for name in ("jacobian_trace", "jacobian_frobenius", "jacobian_spectral")
    ]
    assert len({r.value for r in references}) == 1
    assert {r.kind for r in references} == {"quadrature"}


def test_one_key_is_decided() -> None:
    for quantity in ROW_STATISTICS:
        r = row_reference(Case(n_keys=1), quantity, EIGHTH)
        assert r.kind == "closed form"
        assert r.replicate_sd == 0.0
        assert r.value == (1.0 if quantity in ("max_prob", "sum_p2", "saturated") else 0.0)


@pytest.mark.parametrize("d_k", [2**20])
def test_far_cases_stay_finite_or_say_why(d_k: int) -> None:
    for quantity in ROW_STATISTICS:
        value = row_reference(Case(d_k=d_k, n_keys=10), quantity, 1.0).value
        assert value is not None
        assert all(map(math.isfinite, value if isinstance(value, tuple) else [value]))
    tiny = row_reference(Case(d_k=64, n_keys=10, sigma_q=1e-9), "max_prob", 1.0)
    assert tiny.value == pytest.approx(0.1, rel=1e-7)
    assert tiny.replicate_sd == pytest.approx(0.1 * 8e-9 * 0.5127, rel=0.02)
    beyond = row_reference(Case(d_k=d_k, n_keys=10, sigma_q=100.0), "max_prob", 1.0)
    assert beyond.kind == "none"
    assert "one-hot" in beyond.assumptions


def test_refusals_name_the_way_out() -> None:
    with pytest.raises(ValueError, match="needs --n-keys"):
        row_reference(Case(), "sum_p2", 1.0)
    with pytest.raises(ValueError, match="quantity"):
        row_reference(Case(n_keys=10), "sum_p4", 1.0)
    with pytest.raises(ValueError, match="give --dk or --logit-std"):
        row_reference(Case(d_k=None, n_keys=10), "sum_p2", 1.0)
    assert row_reference(Case(n_keys=10), NO_VALUE[0], 1.0).kind == "none"
