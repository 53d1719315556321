"""The likely cause is named from the ratio of standard deviations, or not at all."""

import math

import pytest
from scipy.stats import truncnorm
from verify_variance.stats.causes import factor_causes, likely_cause, likely_causes, written


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


@pytest.mark.parametrize("n_heads", [2, 5, 7, 12, 96])
def test_d_model_of_any_number_of_heads_is_told_from_an_exact_factor(n_heads):
    first, *_ = factor_causes(n_heads**-0.5, 80, scale="sqrt-dk", n_heads=n_heads)
    assert first.why == f"d_model = {80 * n_heads} ({n_heads} heads) where d_k = 80 was meant"
    assert first.ratio == pytest.approx(n_heads**-0.5)


@pytest.mark.parametrize(
    ("ratio", "why"),
    [
        (math.sqrt(80 / 96), "the head dimension padded from 80 to 96"),
        (80**0.25, "d_k^(-1/4) applied to q or k alone"),
        (80**-1.5, "a default scale divided out as d_k, not as d_k^(-1/2)"),
        (math.sqrt(80 / 224), "224 where d_k = 80 was meant"),
        (1 / 1.58963, "YaRN's mscale^2 missing (0.707 at factor 40)"),
        (1 / 1.87385, "YaRN's mscale^2 missing (1.0 at factor 40)"),
    ],
)
def test_a_probed_factor_names_what_an_implementation_does(ratio, why):
    assert factor_causes(ratio, 80, scale="sqrt-dk")[0].why == why
    assert all(cause.why != why for cause in factor_causes(ratio * 1.001, 80, scale="sqrt-dk"))


def test_no_factor_and_a_negative_one():
    assert "scale of 0" in factor_causes(0.0, 80)[0].why
    assert "minus sign" in factor_causes(-1.0, 80)[0].why


def test_what_only_the_law_of_q_and_k_can_do_is_no_cause_of_a_factor():
    assert "half the variance" in [cause.why for cause in likely_causes(math.sqrt(0.5), 80)]
    for ratio in (math.sqrt(0.5), 0.5, 1 / 3, 2.0, 0.7737413):
        for cause in factor_causes(ratio, 80, scale="sqrt-dk"):
            assert not {"Xavier", "init", "variance", "cut"} & set(cause.why.split())


def test_equal_ratios_are_ranked_by_how_common_their_cause_is():
    # sqrt(64) heads and sqrt(d_k) twice are one ratio at d_k = 64
    first, second = likely_causes(1 / 8, 64, scale="sqrt-dk")
    assert "twice" in first.why
    assert "4096 (64 heads)" in second.why
    # a candidate that is nearer comes first, however rare
    assert "exp2" in likely_causes(math.log(2), 64)[0].why
    assert "half the variance" in likely_causes(math.sqrt(0.5), 64)[0].why


def test_what_was_expected_words_the_cause():
    assert "already" in likely_causes(1 / 8, 64, scale="none")[0].why
    assert "where none was meant" in likely_causes(512**-0.5, 64, scale="none")[0].why
    assert "once more than expected" in likely_causes(1 / 8, 64)[0].why


@pytest.mark.parametrize(
    ("factor", "form"),
    [(1.0, "1"), (8.0, "8"), (1 / 64, "1/64"), (512**-0.5, "1/sqrt(512)"), (0.3, ""), (-0.125, ""),
     (0.0, ""), (20_000.5**-0.5, "")],
)  # fmt: skip
def test_a_factor_is_written_as_people_write_it(factor, form):
    assert written(factor) == form
