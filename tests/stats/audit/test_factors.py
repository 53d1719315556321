"""Factors are named from their values at several sizes, curves from logits at several products."""

import math

import numpy as np
import pytest
from verify_variance.stats.audit.arguments import role_of
from verify_variance.stats.audit.curves import curve_of
from verify_variance.stats.audit.factors import exponent, named_factor
from verify_variance.stats.audit.known import KNOWN, Point
from verify_variance.stats.cases import Case
from verify_variance.stats.conventions import scale_factor

SIZES = [(d, 4, 16) for d in (16, 40, 48, 64, 72, 80, 96, 128)] + [(64, 3, 16), (64, 4, 272)]
RTOL = 2e-5


def points_of(factor):
    return [Point(*size, factor(Point(*size, 0.0))) for size in SIZES]


@pytest.mark.parametrize("known", KNOWN, ids=[f"{k.slug} {k.formula}" for k in KNOWN])
def test_each_formula_is_named_alone_from_its_own_values(known):
    named = named_factor(points_of(known.factor), RTOL)
    if known.formula == "1/sqrt(d_k padded to a multiple of 8)":
        assert named[0].slug == "sqrt-dk"  # these sizes are multiples of 8
    elif known.formula == "1/sqrt(d_k padded to a multiple of 128)":
        assert [one.slug for one in named] == ["constant", "padded-dk"]
    else:
        assert [one.formula for one in named] == [known.formula]
    off = [Point(p.d_k, p.n_heads, p.n_keys, 1.001 * p.factor) for p in points_of(known.factor)]
    assert known.formula not in [one.formula for one in named_factor(off, RTOL)]


@pytest.mark.parametrize("name", ["sqrt-dk", "none", "dk", "sqrt-half-dk", "mscale:40"])
def test_conventions_have_the_names_of_the_catalogue(name):
    """The catalogue of scales is the outside truth: same name, same factor."""
    named = named_factor(points_of(lambda p: scale_factor(Case(p.d_k, scale=name))), RTOL)
    assert named[0].slug == name.partition(":")[0]


@pytest.mark.parametrize(
    ("factor", "slug", "formula"),
    [
        (lambda p: 0.0, "zero", "0"),
        (lambda p: -(p.d_k**-0.5), "negative", "-1/sqrt(d_k)"),
        (lambda p: 1 / 8, "constant", "1/8"),
        (lambda p: 144**-0.5, "constant", "1/12"),
        (lambda p: 0.3, "constant", "0.3"),
        (lambda p: (8 * p.d_k) ** -0.5, "sqrt-dmodel", "1/sqrt(8 d_k)"),
        (lambda p: p.d_k**-0.5 / 7, "inverse-layer", "1/(7 sqrt(d_k))"),
        (lambda p: 12 * p.d_k**-0.5, "layer-multiplied", "12/sqrt(d_k)"),
        (lambda p: 10 / p.d_k, "cosine", "10/d_k"),
        (lambda p: 2 * p.d_k**-0.7, "power", "2 d_k^(-0.7)"),
        (lambda p: 0.77 * p.d_k**-0.5, "scaled-root", "0.77/sqrt(d_k)"),
    ],
)
def test_what_is_fitted_where_no_formula_is_right(factor, slug, formula):
    named = named_factor(points_of(factor), RTOL)
    assert (named[0].slug, named[0].formula) == (slug, formula)


def test_what_is_no_power_of_d_k_has_no_name():
    assert named_factor(points_of(lambda p: math.log(p.d_k) / p.d_k), RTOL) == []
    assert exponent(points_of(lambda p: math.log(p.d_k) / p.d_k))[1] > 1e-3
    assert exponent([Point(64, 1, 16, 0.125)]) is None
    assert exponent(points_of(lambda p: -1.0)) is None


x = -((np.arange(1, 16) / 15) ** 2) * 480


@pytest.mark.parametrize("bound", [0.5, 3.0, 30.0, 50.0, 1000.0])
def test_bounds_are_estimated_under_rounding(bound):
    """A thousandth is asked where float32 rounding of logits up to 60 leaves less than that."""
    rng = np.random.default_rng(0)
    exact = bound * np.tanh(x / 8 / bound)
    y = exact + 2.0**-24 * (1 + np.abs(exact)) * rng.uniform(-8, 8, x.size)
    curve = curve_of(x, y, 2.0**-24)
    assert curve.shape == "softcap"
    assert curve.bound == pytest.approx(bound, rel=1e-3)
    assert curve.factor == pytest.approx(1 / 8, rel=1e-3)


def test_curves_of_other_shapes():
    assert curve_of(x, x / 8, 2.0**-24).shape == "linear"
    assert curve_of(x, -x / 8, 2.0**-24).factor == -1 / 8
    assert curve_of(x, np.clip(x / 8, -20, 20), 2.0**-24).bound == 20
    assert curve_of(x, 20 * np.arctan(x / 160), 2.0**-24).shape == "unknown"
    assert curve_of(x, x / 8 + 1e-2, 2.0**-24).shape == "unknown"


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("scale", "scale"),
        ("sm_scale", "scale"),
        ("scaling", "scale"),
        ("attn_logits_soft_cap", "softcap"),
        ("softcap", "softcap"),
        ("attn_logit_softcapping", "softcap"),
        ("attn_mask", "mask"),
        ("mask", "mask"),
        ("bias", "bias"),
        ("attn_bias", "bias"),
        ("temperature", "divisor"),
        ("q_scale", "learned"),
        ("value_scale", "values"),
        ("dropout_p", None),
        ("is_causal", "causal"),
        ("sliding_window", "window"),
        ("alibi", "bias"),
        ("precision", None),
        ("enable_gqa", None),
        ("implementation", None),
        ("maskless", None),
    ],
)
def test_roles_of_arguments(name, role):
    assert role_of(name) == role
