"""What is said under a table, to a reader who knows no statistics."""

import pytest
import verify_variance as vv
from verify_variance.reports.advice import advice
from verify_variance.reports.checked import RateOptions, checked
from verify_variance.reports.wording import WIDTH
from verify_variance.stats.planning import Rates
from verify_variance.stats.request import CaseOptions

DEFAULT = CaseOptions()


def test_a_match_says_how_many_what_would_have_been_seen_how_often_it_errs_and_the_seed(measured):
    result = measured(DEFAULT, rates=Rates(tolerance=0.01))
    assert result.summary == (
        "4 of 4 rows match: simulation agrees with theory. An error of 1 % in the standard "
        "deviation would have been reported with probability 0.999. A correct theory is reported "
        "wrong once in a million runs like this. Seed 0."
    )
    assert result.exit_code == 0


def test_one_row_is_singular(measured):
    assert measured(CaseOptions(dk=("64",))).summary.startswith("1 of 1 row matches: simulation")


def test_rates_are_those_that_were_asked_for(measured):
    said = measured(DEFAULT, rates=Rates(0.01, 0.9, 0.05)).summary
    assert "reported wrong once in 100 runs" in said
    assert "with probability 0.9." in said


@pytest.mark.parametrize(
    ("power", "tolerance", "said"),
    [
        (0.999, 0.01, "0.999"),
        (0.999, 0.05, "0.998"),  # CALIBRATION.md: 0.00157 are missed
        (0.999, 0.2, "0.995"),  # and 0.00467
        (0.9999, 0.001, "0.9999"),
    ],
)
def test_a_law_that_is_wider_is_missed_more_often(measured, power, tolerance, said):
    result = measured(CaseOptions(dk=("64",)), rates=Rates(1e-6, power, tolerance))
    assert f"would have been reported with probability {said}. A" in result.summary


@pytest.mark.parametrize("draws", [2_000, 100_000])
def test_the_error_that_is_promised_is_never_below_what_the_draws_detect(measured, draws):
    result = measured(CaseOptions(dk=("64",)), draws=draws, rates=Rates(tolerance=1e-4))
    detectable = result.record["rows"][0]["detectable"]
    assert f"An error of {100 * detectable:.2g} % in the standard deviation" in result.summary


def test_too_few_draws_promise_nothing_and_say_how_many_would_do(measured):
    result = measured(CaseOptions(dk=("16", "32")), draws=3)
    assert result.exit_code == 3
    assert result.summary.startswith("2 of 2 rows are undecided. A correct theory")
    assert "variance at d_k = 16, 32: undecided; --samples 400000 would see a gap of 0.01" in (
        result.text().replace("\n", " ")
    )


def test_the_draws_advised_do_suffice(measured):
    undecided = measured(CaseOptions(dk=("64",)), draws=90)
    words = undecided.words().split()
    draws = int(words[words.index("--samples") + 1])
    row = measured(CaseOptions(dk=("64",)), draws=draws).record["rows"][0]
    assert row["detectable"] <= 0.01
    assert row["verdict"] == "match"


def test_a_gap_between_match_and_mismatch_has_a_way_out(measured):
    result = measured(CaseOptions(dk=("64",)), factor=1.01, rates=Rates(tolerance=0.005))
    assert result.verdict == "undecided"
    assert "--samples 1400000 would see a gap of 0.005" in result.text()
    result.record["rows"][0]["detectable"] = 0.004
    assert "--samples 1600000 halve the error, or allow more than 0.005" in (
        result.words().replace("\n", " ")
    )


def test_a_row_judged_below_the_usual_tolerance_is_offered_it(measured):
    result = measured(CaseOptions(dk=("64",)), draws=10**7, factor=1.02)
    result.record["rows"][0] |= {"verdict": "undecided"}
    said = "variance at d_k = 64: undecided; these draws see gaps below 0.01: --tolerance 0.01"
    assert said in result.words().replace("\n", " ")


@pytest.mark.parametrize(
    ("factor", "cause"),
    [
        (64.0, "sqrt(d_k) = 8 too large: a divisor sqrt(d_k) that is missing?"),
        (1 / 64, "sqrt(d_k) = 8 too small"),
        (1.5, "are the laws, sigmas and means as assumed?"),
    ],
)
def test_a_mismatch_names_the_likely_cause(measured, factor, cause):
    result = measured(CaseOptions(dk=("64",)), factor=factor)
    assert result.exit_code == 1
    assert result.summary.startswith("1 of 1 row differs from theory. ")
    said = result.text().replace("\n", " ")
    assert f"variance at d_k = 64: measured {64 * factor:g} where theory says 64" in said
    assert cause in said


def test_every_failure_has_its_advice(measured):
    cases = CaseOptions(dk=("8", "16"), quantities=("logits",))
    for factor, draws in ((1.5, 10**6), (1.0, 3), (1.0, 10**6)):
        result = measured(cases, factor=factor, draws=draws)
        for row in result.record["rows"]:
            if row["verdict"] in ("mismatch", "undecided"):
                assert f"{row['quantity']} at d_k = " in result.words()


def test_in_a_file_more_draws_are_more_replicates():
    logits = [4.0, -4.0, 1.0, 0.5] * 3
    said = checked(logits, CaseOptions(dk=("4",)), RateOptions()).words()
    assert "replicates in the file would see" in said
    assert "--samples" not in said


def test_within_promises_an_error_beyond_the_tolerance(measured):
    result = measured(CaseOptions(dk=("64",)), rates=Rates(tolerance=0.05, within=True))
    detectable = result.record["rows"][0]["detectable"]
    assert f"{100 * detectable:.2g} % in the standard deviation beyond the tol" in result.summary


def test_rounding_that_theory_leaves_out_is_allowed_and_said(measured):
    rates = Rates(tolerance=0.02)
    half = CaseOptions(dk=("64",), dtype=("float16",), quantities=("mean",))
    result = measured(half, rates=rates)
    said = "z counts only what a gap is beyond the tolerance, here 2 % of a standard deviation in"
    assert result.record["rows"][0]["z"] == 0.0
    assert said in result.summary
    others = (
        CaseOptions(dk=("64",), quantities=("mean",)),
        CaseOptions(dk=("64",), quantities=("mean",), dtype_softmax=("bfloat16",)),
        CaseOptions(dk=("64",), quantities=("overflow",), dtype=("float16",), sigma=("40",)),
    )
    for plain in others:
        assert "z counts" not in measured(plain, rates=rates).summary


def test_no_rate_is_promised_below_the_floor(measured):
    skewed = CaseOptions(dk=("16",), quantities=("kurtosis", "mean"))
    said = measured(skewed, draws=20_000, rates=Rates()).words().replace("\n", " ")
    assert "kurtosis at d_k = 16: below the floor of " in said
    assert "These rates are not promised of the row below its floor of draws, where " in said
    both = CaseOptions(dk=("16", "32"), quantities=("kurtosis", "mean"))
    said = measured(both, draws=20_000, rates=Rates()).summary
    assert "These rates are not promised of the 2 rows below their floor of draws" in said
    assert "promised" not in measured(both, draws=10**7, rates=Rates()).summary


def test_a_tolerance_as_large_as_the_value_is_named():
    rare = vv.verify(
        dk=[16, 64], n_keys=10, scale="sqrt-dk", quantities="saturated", samples=20_000
    )
    assert rare.verdict == "match"
    assert "saturated at d_k = 16, 64; n_keys = 10: a value of 0 would match" in rare.words()
    two = vv.verify(dk=16, n_keys=10, scale=["none", "dk"], quantities="saturated", samples=2e4)
    assert advice(two.record) == [
        "saturated at d_k = 16; n_keys = 10; scale = dk: a value of 0 would match as well"
    ]
    often = vv.verify(dk=64, n_keys=10, scale="none", quantities=["saturated", "mean"], samples=2e4)
    assert "would match" not in often.words()


def test_notes_name_the_transform_and_stand_together():
    asked = {"quantities": ["max_prob", "entropy", "sum_p2"], "scale": "sqrt-dk", "samples": 2000}
    stacks = ["none", "alibi", "softmax1", "top-k:8"]
    result = vv.verify(dk=[16, 64], n_keys=32, transform=stacks, **asked)
    assert [line for line in advice(result.record) if "no formula" in line] == [
        "max_prob at d_k = 16, 64; n_keys = 32; transform = alibi:0.5, softmax1: "
        "no formula for the ordered probabilities of unlike keys",
        "max_prob, entropy, sum_p2 at d_k = 16, 64; n_keys = 32; transform = top-k:8: "
        "no formula for the rows of the largest logits",
    ]


def test_rows_that_are_no_product_stand_apart():
    result = vv.verify(dk=[16, 64], quantities=["mean", "std"], samples=2e4)
    rows = result.record["rows"]
    for row, note in zip(rows, ("a", "b", "a", "a"), strict=True):
        row["note"] = note
    assert advice(result.record) == [
        "mean at d_k = 16, and std at d_k = 16, 64: a",
        "mean at d_k = 64: b",
    ]


def test_sentences_are_wrapped(measured):
    result = measured(CaseOptions(dk=("8", "16"), quantities=("logits",)), factor=1.5)
    assert max(map(len, result.words().splitlines())) <= WIDTH


def test_html_is_escaped_and_says_the_summary(measured):
    result = measured(CaseOptions(dk=("8",)))
    assert result.summary in result._repr_html_()
    assert result._repr_html_().startswith("<table>")
    assert str(result) == result.text()
