"""Stated moments against draws: right ones pass at the stated rate, wrong ones do not."""

import math

import numpy as np
import pytest
from verify_variance.stats.checks import InputError
from verify_variance.stats.laws.own_laws import CHECKED_DRAWS, check_draws, own_law

NORMAL = [0, 1, 0, 3, 0, 15, 0, 105, 0, 945, 0, 10395]
SKEWED = [0, 1, 2, 9, 44, 265, 1854, 14833]  # exponential - 1: derangement numbers


def test_a_law_has_the_moments_stated_and_no_others():
    law = own_law("mine", "1.2", NORMAL[:8])
    assert law.name == "mine@1.2"
    assert [law.moment(r, None) for r in range(9)] == [1, *NORMAL[:8]]
    assert law.finite_below(None) == 9.0
    assert law.moment(10, None) == math.inf
    assert math.isnan(law.moment(9, None))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"name": "My law"}, "the name of a law must be lower-case"),
        ({"name": "a:b"}, "the name of a law must be lower-case"),
        ({"version": ""}, "the version of a law must be"),
        ({"version": "1@2"}, "the version of a law must be"),
        ({"moments": [0, 1, 0]}, "at least 4 finite numbers"),
        ({"moments": [0, 1, 0, math.inf]}, "at least 4 finite numbers"),
        ({"moments": [0.1, 1, 0, 3]}, r"must begin with 0, 1.*draw \(e - mean\) / sd instead"),
        ({"moments": [0, 2, 0, 12]}, "must begin with 0, 1"),
        ({"moments": [0, 1, 2, 4]}, "Hankel matrix"),  # kurtosis below 1 + skewness^2
        ({"moments": [0, 1, 0, 3, 0, 8]}, "Hankel matrix"),
    ],
)
def test_what_cannot_be_a_law_is_refused(options, complaint):
    with pytest.raises(InputError, match=complaint):
        own_law(**({"name": "mine", "version": 1, "moments": NORMAL} | options))


@pytest.mark.parametrize("moments", [NORMAL, NORMAL[:4], SKEWED, [0, 1] * 6])
def test_right_moments_pass(moments):
    rng = np.random.default_rng()
    draw = {
        tuple(SKEWED): lambda: rng.exponential(size=CHECKED_DRAWS) - 1,
        tuple([0, 1] * 6): lambda: rng.choice([-1.0, 1.0], CHECKED_DRAWS),
    }.get(tuple(moments), lambda: rng.standard_normal(CHECKED_DRAWS))
    check_draws(own_law("mine", 1, moments), draw())


@pytest.mark.parametrize(
    ("fault", "moment"),
    [
        (lambda x: x + 0.02, 1),
        (lambda x: 1.01 * x, 2),
        (lambda x: (x + 0.02 * (x * x - 1)) / np.sqrt(1 + 2 * 0.02**2), 3),
        (lambda x: np.clip(x, -2.5, 2.5) / np.clip(x, -2.5, 2.5).std(), 4),
        (lambda x: np.where(np.arange(x.size) == 5, np.nan, x), "finite"),
    ],
)
def test_draws_of_another_law_are_refused(fault, moment):
    draws = fault(np.random.default_rng().standard_normal(CHECKED_DRAWS))
    said = "must be finite, got 1" if moment == "finite" else rf"moment {moment} of mine@1 .* z = "
    with pytest.raises(InputError, match=said):
        check_draws(own_law("mine", 1, NORMAL), draws)


def test_a_constant_square_must_be_met():
    law = own_law("signs", 1, [0, 1, 0, 1])
    with pytest.raises(InputError, match="moment 2 of signs@1"):
        check_draws(law, 1.01 * np.random.default_rng().choice([-1.0, 1.0], CHECKED_DRAWS))
