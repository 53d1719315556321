"""Sweeps: tables of options, one row for each combination, in order, none twice."""

import itertools

import pytest
from verify_variance.stats.checks import InputError
from verify_variance.stats.request import CaseOptions
from verify_variance.stats.sweeps import asked_rows, sweep_of

BASE = CaseOptions(dk=("8", "16"), scale=("sqrt-dk",))


def test_rows_are_the_products_of_each_table_in_turn():
    tables = [
        {"elements": ["uniform", "laplace"], "scale": ["none", "dk"]},
        {"dk": 4, "sigma": [1, 2], "quantities": ["std", "mean"]},
    ]
    got = [
        (q, c.elements, c.sigma_q, c.scale, c.d_k) for c, q in asked_rows(sweep_of(tables, BASE))
    ]
    assert got == [
        *(("variance", e, 1.0, s, d) for e, s, d in
          itertools.product(("uniform", "laplace"), ("none", "dk"), (8, 16))),
        *((q, "normal", s, "sqrt-dk", 4) for s, q in itertools.product((1.0, 2.0),
                                                                       ("std", "mean"))),
    ]  # fmt: skip


def test_options_alone_are_asked_as_ever():
    assert len(asked_rows(BASE)) == 2


@pytest.mark.parametrize(
    ("tables", "complaint"),
    [
        ([], "at least one table"),
        ([{"elemnts": "normal"}], "unknown option 'elemnts'; did you mean elements"),
        ([{"samples": 100}], "unknown option 'samples'"),
        ([{}, {"dk": [16, 32]}], "sweep tables 1 and 2 both ask for the variance of .*16"),
        ([{"sigma": [1, 1]}], "sigma lists 1 twice"),
    ],
)
def test_what_is_wrong_is_refused(tables, complaint):
    with pytest.raises(InputError, match=complaint):
        asked_rows(sweep_of(tables, BASE))
