"""Scale conventions: their factors as the sources state them."""

import math

import pytest
from verify_variance.stats.cases import Case
from verify_variance.stats.checks import InputError
from verify_variance.stats.conventions import SCALES, parse_scale, scale_factor


@pytest.mark.parametrize(
    ("scale", "wanted"),
    [
        ("none", 1.0),
        ("sqrt-dk", 1 / 8),
        ("dk", 1 / 64),
        ("constant:4", 0.25),
        ("power:0", 1.0),
        ("power:0.5", 1 / 8),
        ("power:1", 1 / 64),
        ("power:-0.25", math.sqrt(8)),
    ],
)
def test_factors_at_64_dimensions(scale, wanted):
    assert scale_factor(Case(d_k=64, scale=scale)) == pytest.approx(wanted, rel=1e-15)


def test_every_scale_says_its_formula_and_source():
    assert all(entry.formula and entry.source for entry in SCALES.values())
    assert {name for name, entry in SCALES.items() if "d_k" in entry.needs} == {
        "sqrt-dk", "dk", "power",
    }  # fmt: skip


def test_scales_without_parameter_have_none():
    assert math.isnan(parse_scale("dk")[1])


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ("constant", "scale constant needs its parameter (C > 0, the divisor); write constant:2"),
        ("constant:", "scale constant's parameter must be a positive number, got ''"),
        ("constant:0", "scale constant's parameter must be a positive number, got 0"),
        (
            "constant:1e-320",
            "scale constant's parameter must be from 1e-09 to 1e+09, got 1e-320; rescale",
        ),
        ("power:5", "scale power's exponent must be from -4 to 4, got 5"),
        ("power:x", "scale power's exponent must be from -4 to 4, got 'x'"),
        ("none:1", "scale none takes no parameter, got 'none:1'; write none"),
    ],
)  # fmt: skip
def test_a_bad_scale_is_one_line(scale, message):
    with pytest.raises(InputError) as caught:
        scale_factor(Case(scale=scale))
    assert str(caught.value) == message


def test_extreme_scales_leave_room_for_eighth_powers():
    for scale in ("power:4", "power:-4", "constant:1e9", "constant:1e-9"):
        std = scale_factor(Case(d_k=2**20, scale=scale)) * math.sqrt(2**20)
        assert 0 < std**8 < math.inf
