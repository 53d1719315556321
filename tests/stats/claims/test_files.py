"""Claim files: what is read, and complaints that name file, line, key and near key."""

from decimal import Decimal

import pytest
from verify_variance.stats.checks import InputError
from verify_variance.stats.claims.claim import Claim, last_digit
from verify_variance.stats.claims.files import parse_claims

HEAD = '[[claim]]\nid = "x"\nstatement = "s"\n'
GOOD = f'{HEAD}quantity = "std"\nsetting = {{dk = 64}}\nclaimed = 8.0\n'


def only(text: str) -> Claim:
    (claim,) = parse_claims(text, "mine.toml").claims
    return claim


def units(line: str) -> tuple[float, ...]:
    return only(f'{HEAD}quantity = "exp(1)"\n{line}').tests[0].figure.units


@pytest.mark.parametrize(
    ("written", "digits", "unit"),
    [
        ("3.98", None, 0.01),
        ("3.980", None, 0.001),
        ("2.6e10", None, 1e9),
        ("3.8e-11", None, 1e-12),
        ("8", None, 1.0),
        ("400", 1, 100.0),
        ("400", 2, 10.0),
        ("0.92", 1, 0.1),
    ],
)
def test_the_last_digit_is_the_one_that_was_written(written, digits, unit):
    assert last_digit(Decimal(written), digits) == pytest.approx(unit, rel=1e-12)
    line = f"claimed = {written}" + (f"\ndigits = {digits}" if digits else "")
    assert units(line) == pytest.approx((unit,), rel=1e-12)


def test_a_whole_number_in_a_list_takes_the_finest_digit_beside_it():
    assert units("claimed = [0, 0.000045, 0.999955]") == pytest.approx((1e-6,) * 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            GOOD.replace("claimed", "claimd"),
            "line 6: unknown key of a claim 'claimd'; did you",
        ),
        (GOOD.replace("{dk", "{dkk"), "line 5: unknown setting 'dkk'; did you mean dk"),
        (GOOD.replace('"std"', '"sdt"'), "line 4: unknown quantity 'sdt'; did you mean std"),
        (GOOD.replace("8.0", '"8"'), "line 6: claimed must be a number"),
        (GOOD.replace("8.0", "nan"), "line 6: claimed must be a number"),
        (GOOD + "about = 8\n", "line 7: what is claimed needs exactly one of"),
        (GOOD.replace("claimed = 8.0\n", ""), "line 4: what is claimed needs exactly one of"),
        (GOOD + "draws = 1\n", "line 7: draws must be an integer of at least 2, got 1"),
        (GOOD + 'expect = "right"\n', "line 7: unknown verdict 'right'"),
        (GOOD + 'readings = "xavier"\n', "line 7: unknown readings 'xavier'"),
        (GOOD + 'premise = "y"\n', "line 7: unknown claim 'y' in premise"),
        (GOOD + 'premise = "x"\n', "line 7: unknown claim 'x' in premise"),
        (GOOD + GOOD, "line 8: id x names two claims"),
        (HEAD + 'statement = "again"\n', "cannot be read as TOML: .*line 4"),
        (HEAD, "line 2: claim x needs a quantity"),
        ('[[claim]]\nid = "x"\n', "line 1: a claim needs statement"),
        ("[documents]\nA = 'a'\n", "line 1: a claim file needs claims"),
        ("[documents]\nA = 1\n" + GOOD, "line 1: documents must be a table of texts"),
        ("[documents]\nA = 'a'\n" + GOOD + 'source = "B"\n', "line 9: unknown source 'B'"),
        ("[reading.a]\n" + GOOD, "line 1: unknown key 'reading'; did you mean readings"),
        ("[readings.a]\nb = {dkk = 1}\n" + GOOD, "line 2: unknown setting 'dkk'"),
        (GOOD.replace("dk = 64", 'dk = 64, elements = "norml"'), "line 5: unknown element"),
        (GOOD.replace("dk = 64", 'dk = 64, scale = "sqrt"'), "line 5: unknown scale 'sqrt'"),
        (GOOD.replace("{dk = 64}", "{}"), "line 5: std needs a setting"),
        (GOOD.replace("claimed = 8.0", 'order = "more"'), "line 6: order must be greater or less"),
        (GOOD.replace("claimed = 8.0", "between = [1]"), "line 6: between must be \\[low, high\\]"),
        (GOOD.replace('"std"', '"std +"'), "line 4: expression 'std \\+' cannot be read"),
    ],
)
def test_a_complaint_names_file_line_key_and_way_out(text, said):
    with pytest.raises(InputError, match=said) as caught:
        parse_claims(text, "mine.toml")
    assert str(caught.value).startswith("mine.toml")
    assert "\n" not in str(caught.value)


def test_the_line_is_that_of_the_second_claim_and_of_its_second_test():
    text = GOOD + '[[claim]]\nid = "y"\nstatement = "s"\n'
    text += '[[claim.tests]]\nquantity = "exp(1)"\nclaimed = 2.7\n'
    text += '[[claim.tests]]\nquantity = "exp(1)"\nclaimd = 2.7\n'
    with pytest.raises(InputError, match="line 15: unknown key of a test 'claimd'"):
        parse_claims(text, "mine.toml")


def test_either_one_test_or_a_list():
    text = GOOD + '[[claim.tests]]\nquantity = "exp(1)"\nclaimed = 2.7\n'
    with pytest.raises(InputError, match="either one test or a list of tests"):
        parse_claims(text, "mine.toml")
