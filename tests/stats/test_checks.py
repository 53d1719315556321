"""Every bad value is one line: name, rule, got and, where the rule is not enough, a way out."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verify_variance.stats import checks
from verify_variance.stats.checks import InputError


def any_number(value):
    return checks.number("x", value, "a number", lambda v: True)


BAD = [
    (lambda: any_number("abc"), "x must be a number, got 'abc'"),
    (lambda: any_number(None), "x must be a number, got None"),
    (lambda: any_number("nan"), "x must be a number, got nan"),
    (lambda: any_number("inf"), "x must be a number, got inf"),
    (lambda: checks.positive("sigma", 0), "sigma must be a positive number, got 0"),
    (lambda: checks.positive("sigma", "-1"), "sigma must be a positive number, got -1"),
    (lambda: checks.non_negative("sd", -1), "sd must be a number of at least 0, got -1"),
    (
        lambda: checks.magnitude("sigma_q", "1e30"),
        "sigma_q must be from 1e-09 to 1e+09, got 1e30; rescale",
    ),
    (lambda: checks.fraction("power", 1), "power must be a number between 0 and 1, got 1"),
    (
        lambda: checks.fraction("rate", 0.5, below=0.5),
        "rate must be a number between 0 and 0.5, got 0.5",
    ),
    (lambda: checks.count("d_k", 0), "d_k must be a positive integer, got 0"),
    (lambda: checks.count("d_k", "1.5"), "d_k must be a positive integer, got 1.5"),
    (lambda: checks.count("d_k", True), "d_k must be a positive integer, got True"),
    (lambda: checks.count("d_k", "many"), "d_k must be a positive integer, got 'many'"),
    (lambda: checks.count("d_k", 9, most=8), "d_k must be at most 8, got 9"),
    (
        lambda: checks.count("samples", 1, least=2),
        "samples must be an integer of at least 2, got 1",
    ),
    (lambda: checks.no_duplicates("dk", [8, 8]), "dk lists 8 twice; give each value once"),
    (
        lambda: checks.choice("scale", "sqrtdk", ["none", "sqrt-dk"]),
        "unknown scale 'sqrtdk'; did you mean sqrt-dk? known: none, sqrt-dk",
    ),
    (lambda: checks.choice("scale", "zzz", ["none"]), "unknown scale 'zzz'; known: none"),
    (
        lambda: checks.named("scale", "none:2", ["none"], lambda _: None),
        "scale none takes no parameter, got 'none:2'; write none",
    ),
    (
        lambda: checks.integer_range("d_k", [], most=99),
        "d_k needs at least one value, got none; for example 16 32 64 128",
    ),
    (
        lambda: checks.integer_range("d_k", ["1:9"], most=99),
        "d_k ranges are start:stop:xFACTOR or start:stop:+STEP, got 1:9",
    ),
    (
        lambda: checks.integer_range("d_k", ["1:9:3"], most=99),
        "d_k ranges are start:stop:xFACTOR or start:stop:+STEP, got 1:9:3",
    ),
    (
        lambda: checks.integer_range("d_k", ["9:1:+1"], most=99),
        "d_k ranges are start:stop:xFACTOR or start:stop:+STEP, got 9:1:+1; "
        "start must not exceed stop",
    ),
    (
        lambda: checks.integer_range("d_k", ["1:9:x1"], most=99),
        "d_k range step must be an integer of at least 2, got 1",
    ),
    (
        lambda: checks.integer_range("d_k", ["1:9:+0"], most=99),
        "d_k range step must be a positive integer, got 0",
    ),
    (
        lambda: checks.integer_range("d_k", [":9:+1"], most=99),
        "d_k must be a positive integer, got ''",
    ),
    (lambda: checks.integer_range("d_k", ["1:100:+1"], most=99), "d_k must be at most 99, got 100"),
    (
        lambda: checks.integer_range("d_k", ["1:100000:+1"], most=10**6),
        "d_k range 1:100000:+1 has more than 10000 values; take a larger step",
    ),
    (
        lambda: checks.integer_range("d_k", ["2:8:x2", 4], most=99),
        "d_k lists 4 twice; give each value once",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_value_is_one_line(bad, message):
    with pytest.raises(InputError) as caught:
        bad()
    assert str(caught.value) == message


def test_an_input_error_is_a_value_error_of_one_line_whatever_it_quotes():
    assert issubclass(InputError, ValueError)
    with pytest.raises(InputError) as caught:
        checks.positive("sigma", "-1\n\n")
    assert str(caught.value) == "sigma must be a positive number, got -1"


@given(st.one_of(st.text(max_size=20), st.floats(), st.integers(), st.none(), st.booleans()))
@settings(max_examples=200, deadline=None)
def test_counts_are_whole_numbers_in_range_or_one_line(value):
    try:
        got = checks.count("n", value, least=2, most=10**6)
    except InputError as error:
        message = str(error)
        assert "\n" not in message
        assert message.startswith("n must be ")
        assert ", got " in message
    else:
        assert isinstance(got, int)
        assert 2 <= got <= 10**6


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("1e6", 10**6), (" 12 ", 12), (3.0, 3), (np.int64(7), 7), (str(2**60 + 1), 2**60 + 1)],
)
def test_counts_that_pass(value, wanted):
    assert checks.count("n", value) == wanted


def test_ranges():
    assert checks.integer_range("d_k", ["1:20:x3"], most=99) == (1, 3, 9)
    assert checks.integer_range("d_k", ["5:5:+1", "6:12:+3"], most=99) == (5, 6, 9, 12)
    assert checks.integer_range("d_k", ["1:1048576:x2"], most=checks.MAX_D_K)[-1] == 2**20


def test_names_with_parameters():
    needs = {"constant": "C"}.get
    assert checks.named("scale", "constant:8", ["constant"], needs) == ("constant", "8")
    assert checks.named("scale", "constant", ["constant"], needs) == ("constant", None)


@pytest.mark.parametrize("value", [1e-9, 1.0, 1e9])
def test_magnitudes_leave_room_for_eighth_powers(value):
    # the standard deviation of d = 2^20 products of two such numbers, divided by a third
    largest = checks.magnitude("sigma", value) ** 2 * math.sqrt(2**20)
    assert 0 < largest**8 < math.inf
