"""The language of quantities: against softmax by hand, and closed to everything else."""

import math

import numpy as np
import pytest
from verify_variance.stats.checks import InputError
from verify_variance.stats.claims.expressions import check_expression, evaluate

# exp(0), exp(1), exp(2) over their sum, to 12 digits (mpmath, 30 digits)
SOFTMAX_012 = [0.090030573170, 0.244728471055, 0.665240955775]


def value(text: str) -> float:
    return float(evaluate(text, {}))


def test_softmax_to_twelve_digits():
    assert evaluate("softmax([0, 1, 2])", {}) == pytest.approx(SOFTMAX_012, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("exp(24)", 26489122129.843472),
        ("log(float32_max)", 88.72283905206835),
        ("log(float16_max)", 11.089866488461016),
        ("2 + 3 * 4 ** 2 / -6", -6.0),
        ("sum([1, 2, 3]) - average([1, 2, 3])", 4.0),
        ("max(abs([-3, 2]))", 3.0),
        ("rope_kurtosis(64, 13)", 0.09375),
        ("entry(jacobian([0, 0]), 0, 1)", -0.25),
    ],
)
def test_values(text, truth):
    assert value(text) == pytest.approx(truth, rel=1e-14)


def test_jacobian_against_differences_and_a_planted_sign():
    x = "[0.5, -1, 2]"
    gap = f"max(abs(jacobian({x}) {{}} jacobian_by_differences({x})))"
    assert value(gap.format("-")) < 1e-9
    assert value(gap.format("+")) > 0.1


def test_softmax_of_large_logits_does_not_overflow():
    assert evaluate("softmax([1000, 1001])", {}) == pytest.approx(
        [1 / (1 + math.e), math.e / (1 + math.e)]
    )


def test_softmax1_is_softmax_with_a_logit_of_zero():
    x = np.array([0.3, -1.2, 2.0])
    by_hand = np.exp(x) / (1 + np.exp(x).sum())
    assert evaluate("softmax1([0.3, -1.2, 2])", {}) == pytest.approx(by_hand, rel=1e-14)


def test_layer_norm_with_its_epsilon():
    x = np.array([0.3, -8.0, 2.0, 5.0, 11.0])
    by_hand = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
    assert evaluate("layer_norm([0.3, -8, 2, 5, 11])", {}) == pytest.approx(by_hand, rel=1e-14)


def test_temperature_undoes_a_factor():
    assert value("max(abs(softmax([5, -3] / 8) - temper(softmax([5, -3]), 8)))") < 1e-15
    assert value("max(abs(softmax([5, -3] / 8) - temper(softmax([5, -3]), 4)))") > 0.01


def test_given_names_are_listed_in_order_and_called_where_they_are_functions():
    names = {"p": 0.25, "twice": lambda x: 2 * x}
    assert check_expression("twice(p) + p", names) == ["twice", "p"]
    assert evaluate("twice(p) + p", names) == 0.75


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("__import__('os')", "hold numbers|unknown name"),
        ("exp.__class__", "arithmetic and calls, got attribute"),
        ("(lambda: 1)()", "name|arithmetic"),
        ("[x for x in [1]]", "arithmetic and calls, got listcomp"),
        ("1 if 2 else 3", "arithmetic and calls, got ifexp"),
        ("'a'", "hold numbers, got 'a'"),
        ("True", "hold numbers, got True"),
        ("softmx([1])", "did you mean softmax"),
        ("exp(", "cannot be read"),
        ("exp(x=1)", "name\\(value"),
        ("pi(3)", "is a value, not a function"),
        ("entry([1], 5)", "has no value"),
        ("softmax()", "has no value"),
        ("1 + " * 200 + "1", "500 characters"),
    ],
)
def test_everything_else_is_refused_in_one_line(text, said):
    with pytest.raises(InputError, match=said) as caught:
        evaluate(text, {})
    assert "\n" not in str(caught.value)


def test_a_power_that_overflows_ends_at_once():
    assert value("9 ** 9 ** 9") == math.inf
