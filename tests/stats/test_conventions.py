"""Scale conventions: their factors as the sources state them."""

import math

import pytest
from verify_variance.stats.cases import Case
from verify_variance.stats.checks import InputError
from verify_variance.stats.conventions import parse_scale, scale_factor
from verify_variance.stats.scales import SCALES


@pytest.mark.parametrize(
    ("scale", "wanted"),
    [
        ("none", 1.0),
        ("sqrt-dk", 1 / 8),
        ("dk", 1 / 64),
        ("constant:4", 0.25),
        ("multiplier:0.0078125", 1 / 128),
        ("power:0", 1.0),
        ("power:0.5", 1 / 8),
        ("power:1", 1 / 64),
        ("power:-0.25", math.sqrt(8)),
        ("query-only", 1 / 8),
        ("fourth-root", 64**-0.25 * 64**-0.25),
        ("sqrt-half-dk", 1 / math.sqrt(32)),
        ("sqrt-dmodel", 1 / math.sqrt(512)),
        ("sqrt-dv", 1 / 4),
        ("inverse-layer:0", 1 / 8),
        ("inverse-layer:11", 1 / 96),
        ("query-pre-attn-scalar:144", 1 / 12),
        ("deberta:3", 1 / math.sqrt(192)),
        ("yarn:1", 1 / 8),
        ("yarn:40", (0.1 * math.log(40) + 1) ** 2 / 8),
        ("mscale:0.5:1", 1 / 8),
        ("longrope:8:4096", 1.25 / 8),
        ("log-n", math.log(10) / 8),
        ("log-n:0.43:1024", 0.43 * 10 * math.log(2) / 8),
        ("log-n-position:8192", 1 / 8),
        ("log-n-position:1024:2048", 1.1 / 8),
        ("cosine", 10 / 64),
        ("cosine:8", 1 / 8),
        ("logit-scale", 10 / 64),
        ("logit-scale:0", 1 / 64),
        ("logit-scale:6", 100 / 64),
    ],
)
def test_factors_at_64_dimensions_and_10_keys(scale, wanted):
    """The closed values; clamp: exp(6) = 403 becomes 100 (Swin-V2)."""
    case = Case(d_k=64, n_keys=10, d_model=512, d_v=16, scale=scale)
    assert scale_factor(case) == pytest.approx(wanted, rel=1e-15)


@pytest.mark.parametrize(
    ("scale", "other", "ratio"),
    [
        ("mscale:40:0.707", "sqrt-dk", 1.58963),  # DeepSeek-V2
        ("mscale:40", "sqrt-dk", 1.87385),  # DeepSeek-V3
        ("query-pre-attn-scalar:224", "query-pre-attn-scalar:256", 1.0690),  # Gemma 2, 9B
        ("sqrt-dk", "query-pre-attn-scalar:144", 1.0607),  # Gemma 2, 27B: 1 / 0.9428
        ("query-pre-attn-scalar:168", "sqrt-dk", 0.8729),  # Gemma 3, 27B
        ("sqrt-dmodel", "sqrt-dk", 0.3536),  # 8 heads
    ],
)
def test_ratios_of_published_models(scale, other, ratio):
    """Digits as reported, so half a unit of the last is allowed."""
    one, two = (scale_factor(Case(d_k=128, d_model=1024, scale=s)) for s in (scale, other))
    assert one / two == pytest.approx(ratio, abs=0.5 * 10.0 ** -(len(str(ratio)) - 2))


def test_every_scale_says_its_formula_and_source_and_has_a_factor():
    for name, entry in SCALES.items():
        assert entry.formula
        assert entry.source
        written = ":".join([name, *("2" for _ in entry.parameters)])
        case = Case(d_k=64, n_keys=10, d_model=512, d_v=16, scale=written)
        assert 0 < scale_factor(case) < math.inf


def test_the_place_changes_no_factor():
    places = {entry.place for entry in SCALES.values()}
    assert places == {"product", "query", "both"}
    factors = {scale_factor(Case(scale=s)) for s in ("sqrt-dk", "query-only", "fourth-root")}
    assert factors == {1 / 8}


def test_scales_without_parameter_have_none():
    assert parse_scale("dk")[1] == ()


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
        ("mscale", "scale mscale needs its factor (FACTOR by which the context is stretched); "
         "write mscale:FACTOR:M"),
        ("mscale:0", "scale mscale's factor must be a positive number, got 0"),
        ("mscale:2:3:4", "scale mscale takes mscale:FACTOR:M, got 'mscale:2:3:4'"),
        ("inverse-layer:-1",
         "scale inverse-layer's layer must be an integer of at least 0, got -1"),
        ("inverse-layer:1.5",
         "scale inverse-layer's layer must be an integer of at least 0, got 1.5"),
        ("sqrt-dmodel", "scale sqrt-dmodel needs d_model, which this case has not; give --d-model"),
        ("sqrt-dv", "scale sqrt-dv needs d_v, which this case has not; give --d-v"),
        ("log-n", "scale log-n needs n_keys, which logit moments have not; write the length after "
         "the other parameter, as in log-n:1:1024, or give --n-keys"),
        ("log-n:1:1", "scale log-n's length must be an integer of at least 2, got 1"),
        ("logit-scale:30", "scale logit-scale's parameter must be from -20 to 20, got 30"),
        ("deberta:4", "scale deberta's parameter must be from 1 to 3, got 4"),
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
