"""Verdicts on claims whose truth is known: right ones are not refuted, wrong ones not confirmed."""

import numpy as np
import pytest
from verify_variance.stats.cases import Case
from verify_variance.stats.checks import InputError
from verify_variance.stats.claims.claim import Trained
from verify_variance.stats.claims.files import parse_claims
from verify_variance.stats.claims.settings import cases_of, requests_of
from verify_variance.stats.claims.values import Measured, Measurements, query_variance, tail
from verify_variance.stats.claims.verdicts import Judged, judge_claims
from verify_variance.stats.request import CaseOptions, options_from
from verify_variance.stats.requested import requested_rows

STD64 = 'quantity = "std"\nsetting = {dk = 64}\n'
GRADIENT = (
    'quantity = "score_gradient"\nversus = {scale = "sqrt-dk"}\n'
    'setting = {dk = 8, n_keys = 4, weights = "lecun-normal", d_model = 16, tokens = "normal"}\n'
)


def claim(body: str, name: str = "x") -> str:
    return f'[[claim]]\nid = "{name}"\nstatement = "s"\n{body}\n'


def judged(text: str, measured: Measurements | None = None) -> list[Judged]:
    return judge_claims(parse_claims(text, "test").claims, measured)


def verdict(body: str, measured: Measurements | None = None) -> str:
    return judged(claim(body), measured)[0].verdict


@pytest.mark.parametrize(
    ("body", "right"),
    [
        (STD64 + "claimed = 8", True),
        (STD64 + "claimed = 8.0", True),
        (STD64 + "claimed = 8.1", False),
        (STD64 + "about = 8.1", True),
        (STD64 + "about = 8.2", False),
        (STD64 + "at_least = 8", True),
        (STD64 + "at_least = 8.01", False),
        (STD64 + "at_most = 8", True),
        (STD64 + "at_most = 7.99", False),
        (STD64 + "between = [7, 9]", True),
        (STD64 + "between = [8.5, 9]", False),
        (STD64 + "differs_from = 7.9", True),
        (STD64 + "differs_from = 8.0", False),
        (STD64 + 'versus = {scale = "sqrt-dk"}\nclaimed = 8.00', True),
        (STD64 + 'versus = {scale = "sqrt-dk"}\nclaimed = 8.01', False),
        ('quantity = "softmax([0, 1, 2])"\nclaimed = [0.09, 0.24, 0.67]', True),
        ('quantity = "softmax([0, 1, 2])"\nclaimed = [0.09, 0.25, 0.67]', False),
        ('quantity = "softmax([0, 10, 20])"\nclaimed = [0, 0.000045, 0.999955]', True),
        ('quantity = "softmax([0, 10, 20])"\nclaimed = [0.1, 0.000045, 0.999955]', False),
        ('quantity = "exp(24)"\nclaimed = 2.6e10', True),
        ('quantity = "exp(24)"\nclaimed = 2.7e10', False),
        ('quantity = "log(float32_max)"\nlimit = 88', True),
        ('quantity = "log(float32_max)"\nlimit = 89', True),
        ('quantity = "log(float32_max)"\nlimit = 90', False),
        ('quantity = "log(float32_max)"\nclaimed = 88', False),
        ('quantity = "exp(6)"\nabout = 400\ndigits = 1', True),
        ('quantity = "exp(6)"\nabout = 400', False),
        ('quantity = "100 * abs(7.97 / 8 - 1)"\nclaimed = 0.37', True),
        ('quantity = "100 * abs(7.97 / 8 - 1)"\nclaimed = 0.36', False),
        ('quantity = "coverage(12.5)"\nsetting = {dk = 32}\nclaimed = 0.9708', True),
        ('quantity = "coverage(12.5)"\nsetting = {dk = 32}\nclaimed = 0.9709', False),
        (
            'quantity="variance / d_k"\nsetting = {dk = [1, 9], elements = "laplace"}\nclaimed = 1',
            True,
        ),
        ('quantity = "std"\nsetting = {dk = [64, 65]}\nclaimed = 8.00', False),
        ('quantity = "max_prob"\nsetting = {dk = 64, n_keys = 10}\nclaimed = 0.865', True),
        ('quantity = "max_prob"\nsetting = {dk = 64, n_keys = 10}\nclaimed = 0.864', False),
    ],
)
def test_numbers_to_their_digits(body, right):
    assert verdict(body) == ("confirmed" if right else "refuted")


def test_a_direction_is_qualitative_or_refuted():
    body = STD64 + 'versus = {scale = "sqrt-dk"}\norder = "%s"'
    assert verdict(body % "greater") == "qualitative: holds"
    assert verdict(body % "less") == "refuted"
    assert verdict(STD64 + "at_least = 5\nqualitative = true") == "qualitative: holds"
    assert verdict(STD64 + "at_least = 9\nqualitative = true") == "refuted"


@pytest.mark.parametrize(
    ("d_k", "figure", "p"),
    # S^2 / sigma^2 as a gamma law of the same mean and variance: scipy.stats, two-sided
    [(16, 3.98, 0.52), (32, 5.64, 0.69), (64, 7.97, 0.61), (128, 11.26, 0.51)],
)
def test_a_simulated_table_is_confirmed_with_its_p_values(d_k, figure, p):
    body = f'quantity = "std"\nsetting = {{dk = {d_k}}}\nclaimed = {figure}\ndraws = 10000'
    one = judged(claim(body))[0]
    assert one.verdict == "confirmed"
    assert one.p_value == pytest.approx(p, abs=0.006)
    assert f"p = {p}" in one.why


def test_draws_do_not_excuse_a_gap_beyond_their_error():
    """The standard error at d_k = 16 is 0.0308 (R004): 3.98 is 0.65 of it away, 3.85 is 4.9."""
    body = 'quantity = "std"\nsetting = {dk = 16}\nclaimed = %s\ndraws = 10000'
    assert verdict(body % "3.91") == "confirmed"
    assert verdict(body % "3.85") == "refuted"
    assert verdict(body.replace("\ndraws = 10000", "") % "3.98") == "refuted"


def test_right_simulations_are_refuted_once_in_a_thousand_times():
    """500 tables of 400 draws: more than 8 refuted has a chance of 5e-8 at rate 1e-3."""
    rng = np.random.default_rng(11)
    q, k = rng.standard_normal((2, 500, 400, 16))
    found = (q * k).sum(-1).std(axis=1, ddof=1)
    body = 'quantity = "std"\nsetting = {{dk = 16}}\nclaimed = {:.5f}\ndraws = 400'
    text = "".join(claim(body.format(s), str(i)) for i, s in enumerate(found))
    assert sum(one.word == "refuted" for one in judged(text)) <= 8
    wrong = "".join(claim(body.format(1.5 * s), str(i)) for i, s in enumerate(found))
    assert {one.word for one in judged(wrong)} == {"refuted"}


READINGS = STD64 + "claimed = %s\n[claim.readings]\na = {sigma = 1}\nb = {sigma = 2}\n"


def test_readings():
    assert verdict(READINGS % "8.0") == "confirmed, 1 of 2 readings (post hoc)"
    assert verdict(READINGS % "9.0") == "refuted"
    assert verdict(READINGS.replace("sigma = 2", "sigma_q = 1.0") % "8.0") == "confirmed"
    assert verdict("universal = true\n" + READINGS % "8.0") == "refuted"
    why = judged(claim(READINGS % "8.0"))[0].why
    assert "a: 8; b: 32; picking the reading that fits is post hoc" in why


@pytest.mark.parametrize(
    ("quantity", "setting"),
    [
        ("std", {"dk": 64, "weights": ["normal:0.02", "t5"], "d_model": 768}),
        ("entropy", {"dk": [4, 8], "weights": "he-normal", "d_model": 64, "heads": 2}),
        ("max_prob", {"dk": 64}),
        ("max_prob", {"logit_std": [1, 2]}),
        ("variance", {"dk": 64, "n_keys": 16, "transform": ["none", "top-k:8"]}),
        ("entropy", {"dk": 64, "n_keys": 16, "transform": "causal+softcap:2"}),
        ("overflow", {"dk": 64, "sigma": 40, "dtype": "float16"}),
        ("broken_rows", {"dk": 64, "sigma_q": 40, "softmax": "naive"}),
    ],
)
def test_a_setting_has_the_command_lines_defaults(quantity, setting):
    cases, _ = options_from({"dk": CaseOptions.dk, **setting, "quantities": quantity})
    rows = [case for case, _ in requested_rows(cases)]
    kept = [case for case in rows if case.weights or case.scale == "none"]
    assert cases_of(setting, quantity) == kept


def test_a_claim_of_weights_is_judged_at_their_own_scale():
    setting = 'quantity = "std"\nsetting = {dk = 64, weights = "normal:0.02", d_model = 768'
    assert verdict(f"{setting}}}\nclaimed = 0.31") == "confirmed"
    assert verdict(f'{setting}, scale = "none"}}\nclaimed = 2.458') == "confirmed"


def test_all_tests_of_a_claim_must_hold():
    good, bad = '[[claim.tests]]\nquantity = "exp(0)"\nclaimed = %s\n' * 2 % (1, 1), "claimed = 2"
    assert verdict(good) == "confirmed"
    assert verdict(good.replace("claimed = 1", bad, 1)) == "refuted"


def test_what_contradicts_its_own_premise_is_inconsistent():
    premise = claim(STD64.replace("64}", "64, sigma = 0.125}") + "claimed = 0.125", "first")
    follows = 'quantity = "std"\nsetting = {dk = 64, sigma = 0.125, scale = "sqrt-dk"}\n'
    wrong = claim(follows + 'claimed = 1\npremise = "first"')
    assert judged(premise + wrong)[1].verdict == "inconsistent with first"
    right = claim(follows + 'claimed = 0.0156\npremise = "first"')
    assert judged(premise + right)[1].verdict == "confirmed"
    refuted = premise.replace("claimed = 0.125", "claimed = 0.126")
    assert judged(refuted + wrong)[1].verdict == "refuted"


def test_two_shares_that_no_scale_gives_are_inconsistent():
    """A normal law with 95.4 % within 2 has 68.3 % within 1, whatever its unit."""
    share = 'quantity = "coverage(%s)"\nsetting = {dk = 100000}\n%s = %s\n'
    first = claim(share % (632.4555, "about", 0.954), "wide")
    free = 'consistent = {with = "wide", parameter = "sigma", low = 0.2, high = 5}\n'
    same, other = (claim(share % (316.2278, "about", p) + free) for p in (0.683, 0.75))
    assert judged(first + same)[1].verdict == "confirmed"
    found = judged(first + other)[1]
    assert found.verdict == "inconsistent with wide"
    assert "no sigma satisfies both: x needs 0.9" in found.why


def test_what_cannot_be_decided_says_why():
    assert verdict('training = "a run"') == "needs training"
    one = judged(claim('missing = "the data"'))[0]
    assert (one.verdict, one.why) == ("not reproducible", "missing: the data")


def gradient(body: str, value: float, error: float) -> str:
    text = claim(GRADIENT + body)
    requests = requests_of(parse_claims(text, "test").claims)
    assert len(requests) == 1
    return judged(text, {requests[0]: Measured(value, error, 1000)})[0].verdict


def test_a_measured_value_has_an_error_bar():
    """The bar is 3.29 standard errors on either side."""
    assert gradient("claimed = 0.5", 0.503, 0.001) == "confirmed"
    assert gradient("claimed = 0.5", 0.7, 0.01) == "refuted"
    assert gradient("claimed = 0.5", 0.5, 0.1) == "not reproducible: within the error bar"
    assert gradient('order = "less"', 0.5, 0.1) == "qualitative: holds"
    assert gradient('order = "less"', 0.9, 0.1) == "not reproducible: within the error bar"
    assert gradient('order = "less"', 1.5, 0.1) == "refuted"
    assert gradient("at_most = 1", 0.9, 0.1) == "not reproducible: within the error bar"


def test_a_table_as_a_whole_is_an_exploratory_look():
    """Deviations of one standard error (0.0308, R004), with one sign."""
    row = 'quantity = "std"\nsetting = {dk = 16}\nclaimed = %s\ndraws = 10000'
    table = "".join(claim(row % x, x) for x in ("4.031", "4.0309", "4.0308"))
    joint = claim('joint = ["4.031", "4.0309", "4.0308"]')
    one = judged(table + joint)[3]
    assert one.verdict == "confirmed"
    assert one.p_value == pytest.approx(0.39, abs=0.02)  # chi-square 3 on 3
    assert "exploratory" in one.why
    assert "all 3 deviations have one sign (p = 0.25)" in one.why
    far = "".join(claim(row % x, x) for x in ("4.09", "4.091", "4.092"))
    assert judged(far + claim('joint = ["4.09", "4.091", "4.092"]'))[3].verdict == "refuted"


def test_a_near_quantity_is_named():
    why = judged(claim('quantity = "mean_abs"\nsetting = {dk = 64}\nclaimed = 8.2'))[0].why
    assert "8.2 is near the std, 8, not the mean_abs, 6.358" in why
    assert "none of 108 neighbours fits" in why


def test_the_search_finds_a_planted_factor_and_says_how_many_were_tried():
    why = judged(claim('quantity = "mean_abs"\nsetting = {dk = 64}\nclaimed = 8.992'))[0].why
    # Rademacher elements have the same E|x| where d_k is even
    assert "2 of 108 neighbours fit: mean_abs x sqrt(2), mean_abs x sqrt(2) of rademacher" in why
    twice = 'quantity = "max_prob"\nsetting = {logit_std = 1, n_keys = 2}\nclaimed = 0.8280'
    assert "of logits x 2" in judged(claim(twice))[0].why  # E max p at s = 2


def test_an_expectation_is_met_or_not():
    body = STD64 + 'claimed = %s\nexpect = "%s"'
    met = [
        judged(claim(body % pair))[0].as_expected
        for pair in (("8", "confirmed"), ("9", "confirmed"), ("9", "refuted"), ("8", "refuted"))
    ]
    assert met == [True, False, True, False]
    assert judged(claim(STD64 + "claimed = 9"))[0].as_expected is False
    assert judged(claim(body % ("9", "any")))[0].as_expected is None
    assert judged(claim('expect = "confirmed"\n' + READINGS % "8.0"))[0].as_expected is False


def test_what_has_no_exact_value_names_the_claim():
    body = (
        'quantity = "max_prob"\nsetting = {dk = 4, n_keys = 5, elements = "laplace"}\nclaimed = 1'
    )
    with pytest.raises(InputError, match="claim x: max_prob has no exact value"):
        judged(claim(body))
    with pytest.raises(InputError, match=r"claim x: .* has 3 values and the claim 1"):
        judged(claim('quantity = "softmax([0, 1, 2])"\nclaimed = 1'))


def test_shares_through_weights_against_draws():
    """|z| < 5 for 4e4 independent logits, and a planted law without the tokens' norms."""
    case = Case(d_k=8, weights="lecun-normal", d_model=4, tokens="normal", scale="none")
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 40_000, 4))
    norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1) / 4
    q, k = rng.standard_normal((2, 40_000, 8))
    share = float((np.abs((q * k).sum(-1) * norms) > 3).mean())
    error = np.sqrt(share * (1 - share) / 40_000)
    assert abs(share - tail(case, 3.0)) < 5 * error
    assert abs(share - tail(Case(d_k=8), 3.0)) > 5 * error


def test_the_variance_of_an_element_of_q():
    assert query_variance(Case(d_k=32, weights="xavier-head-normal", d_model=128)) == 1.6
    assert query_variance(Case(d_k=32, sigma_q=0.5)) == 0.25


def test_what_training_says_is_said_where_there_is_an_experiment():
    text = '[[claim]]\nid = "a"\nstatement = "s"\ntraining = "a run"\nexperiment = "C13"\n'
    claims = parse_claims(text, "x").claims
    found = Trained("refuted,", "0.9 (0.8..1)", "the loss falls")
    (one,) = judge_claims(claims, trained={"C13": found})
    assert (one.verdict, one.word) == ("refuted, by training", "refuted")
    assert (one.computed, one.why) == ("0.9 (0.8..1)", "the loss falls")
    (waiting,) = judge_claims(claims)
    assert waiting.verdict == "needs training"
    for wrong, said in (
        (text.replace("C13", "C31"), "unknown statement 'C31'"),
        (text.replace("training =", "missing ="), "experiment needs training"),
    ):
        with pytest.raises(InputError, match=said):
            parse_claims(wrong, "x")
