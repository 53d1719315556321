"""Numbers as shown, held against the decimal arithmetic of their definition."""

import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from verify_variance.reports import numbers

VALUES = st.floats(-1e30, 1e30).filter(lambda x: x == 0 or abs(x) > 1e-30)
ERRORS = st.floats(1e-20, 1e20)
SHOWN = re.compile(r"(-?\d+)(?:\.(\d+))?\((\d{1,2})\)(?:e([+-]\d\d+))?")


def parts(text: str) -> tuple[Decimal, Decimal, int]:
    """Value, error and power of ten of the last digit of `12.34(5)e+06`."""
    match = SHOWN.fullmatch(text)
    assert match, text
    whole, decimals, error, exponent = match.groups()
    place = int(exponent or 0) - len(decimals or "")
    last = Decimal(10) ** place
    return Decimal(whole + (decimals or "")) * last, int(error) * last, place


PAIRS = st.tuples(VALUES, ERRORS).filter(lambda pair: pair[1] > 1e-11 * abs(pair[0]))


@given(PAIRS)
@example((0.0, 0.5))
@example((1e-7, 1e-3))
@example((9.9999, 0.95))
@example((99999.96, 123.0))
@example((-0.04, 0.5))
@example((5.0, 9.96))
@example((999999999.0, 0.2))
@example((1e-29, 1e20))
def test_value_and_error_read_back_to_half_a_unit_of_the_last_digit(pair):
    value, error = pair
    shown, shown_error, place = parts(numbers.with_error(value, error))
    half = Decimal(10) ** place * Decimal("0.5000001")
    assert abs(shown - Decimal(value)) <= half + abs(Decimal(value)) * Decimal("1e-15")
    assert abs(shown_error - Decimal(error)) <= max(half, Decimal(error) * Decimal("0.0501"))


@given(PAIRS)
def test_no_digit_stands_below_the_error(pair):
    value, error = pair
    _, shown_error, place = parts(numbers.with_error(value, error))
    units = int(shown_error / Decimal(10) ** place)
    assert 2 <= units <= 20
    assert units >= 10 or not 1 <= error / 10.0**place < 1.95


@given(PAIRS)
def test_a_value_shown_as_zero_has_no_sign(pair):
    shown, *_ = parts(numbers.with_error(*pair))
    assert shown != 0 or not numbers.with_error(*pair).startswith("-")


@given(VALUES, st.floats(1e-300, 1e300))
def test_the_width_is_bounded(value, error):
    assert len(numbers.with_error(value, error)) <= 23


@given(st.floats(-9.9, 9.9), st.floats(1e-6, 1.0))
def test_a_gap_has_no_digit_below_its_error(gap, error):
    text = numbers.percent(gap, error)
    decimals = len(text.partition(".")[2])
    assert decimals <= 2
    assert decimals == 0 or 10.0**-decimals >= 0.05 * 100 * error
    assert decimals in (0, 2) or 10.0**-decimals <= 100 * error
    assert float(text) == pytest.approx(100 * gap, abs=0.5000001 * 10.0**-decimals)


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (63.9712, 0.0912, "63.97(9)"),
        (63.9712, 0.112, "63.97(11)"),
        (1024.0, 14.0, "1024(14)"),
        (1024.0, 25.0, "1.02(2)e+03"),
        (3.0e-8, 4.0e-10, "3.00(4)e-08"),
        (1e-7, 1e-3, "0.0000(10)"),
        (-0.0001, 0.5, "0.0(5)"),
        (1 / 3, 1e-20, "0.333333333333"),
        (4.0, None, "4"),
        (4.0, 0.0, "4"),
        (None, 1.0, ""),
    ],
)
def test_examples(value, error, shown):
    assert numbers.with_error(value, error) == shown


@given(st.integers(0, 10**18))
def test_counts_keep_within_nine_characters(count):
    assert len(numbers.whole(count)) <= 9
