"""The likely cause is named from the ratio of standard deviations, or not at all."""

import math

import pytest
from scipy.stats import truncnorm
from verify_variance.stats.causes import likely_cause


@pytest.mark.parametrize(
    ("ratio", "d_k", "size"),
    [
        (8.0, 64, "sqrt(d_k) = 8 too large"),
        (1 / 8, 64, "sqrt(d_k) = 8 too small"),
        (64.0, 64, "d_k = 64 too large"),
        (1 / 64, 64, "d_k = 64 too small"),
        (math.sqrt(2), 64, "sqrt(2) = 1.414 too large"),
        (math.sqrt(0.5), None, "sqrt(2) = 1.414 too small"),
    ],
)
def test_named_causes(ratio, d_k, size):
    for measured in (ratio, ratio * 1.005):
        assert likely_cause(measured, d_k).startswith(f"{size}: ")
        assert likely_cause(measured, d_k).endswith("?")


@pytest.mark.parametrize(
    ("ratio", "d_k"),
    [(1.0, 64), (1.0, 1), (1.2, 64), (8.0, None), (8.0, 16), (0.0, 64), (-1.0, 64), (math.nan, 64),
     (math.inf, 64)],
)  # fmt: skip
def test_no_cause_is_named_without_a_reason(ratio, d_k):
    assert likely_cause(ratio, d_k) == ""


def test_the_cut_normal_is_that_of_scipy():
    std = float(truncnorm(-2, 2).std())
    assert "one normal" in likely_cause(std, 64)
    assert "two normals" in likely_cause(std**2, 64)


@pytest.mark.parametrize("d_k", [3, 5, 16, 64, 128, 2**20])
def test_candidates_are_told_apart(d_k):
    named = [likely_cause(r, d_k) for r in (math.sqrt(d_k), d_k**-0.5, d_k, 1 / d_k, math.sqrt(2))]
    assert len(set(named)) == len(named)
    assert all(named)
