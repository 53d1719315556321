"""Every view says what the record says, and fits where it is read."""

import io
import json
import math
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from verify_variance.reports.audit.records import audit_record
from verify_variance.reports.markup import tabulated
from verify_variance.reports.record import Record
from verify_variance.reports.result import Result
from verify_variance.reports.table import FORMATS, WIDTH, render
from verify_variance.reports.theory import planned, predicted
from verify_variance.stats.audit.findings import Audit, Finding
from verify_variance.stats.planning import Rates
from verify_variance.stats.request import CaseOptions, DecisionOptions

LAWS = ("normal", "truncated-normal-raw:2.125")
WIDE = CaseOptions(
    dk=("8", "1048576"),
    quantities=("variance", "kurtosis"),
    scale=("none", "constant:123.456"),
    elements_q=LAWS,
    elements_k=("student-t:16.0625",),
    sigma_q=("0.123456789", "3"),
    mean_k=("1.23456789",),
    dtype=("float32", "float64"),
)


def longest(text: str) -> int:
    return max(map(len, text.splitlines()))


@pytest.mark.parametrize("factor", [1.0, 1.3, 1e-9])
@pytest.mark.parametrize("draws", [3, 400_000, 10**15])
def test_plain_fits_whatever_varies(measured, draws, factor):
    assert longest(measured(WIDE, draws=draws, factor=factor).text()) <= WIDTH


OPTIONS = {
    "quantities": ((), ("variance", "std")),
    "scale": ((), ("sqrt-dk", "constant:1234.5678")),
    "elements": (("normal",), LAWS),
    "sigma": (("1",), ("0.12345678", "9.87654321")),
    "dtype": (("float64",), ("float32", "float64")),
}


def test_plain_fits_for_every_combination_of_options(measured):
    for values in product(*OPTIONS.values()):
        cases = CaseOptions(dk=("16", "1048576"), **dict(zip(OPTIONS, values, strict=True)))
        for result in (measured(cases), predicted(cases), planned(cases, DecisionOptions())):
            assert longest(result.text()) <= WIDTH, values


NUMBERS = st.one_of(st.none(), st.floats(-1e300, 1e300).map(float))
COUNTS = st.one_of(st.none(), st.integers(1, 10**15))
CHANGED = st.fixed_dictionaries(
    dict.fromkeys(("gap", "z", "p_value", "p_adjusted", "ci_low", "ci_high"), NUMBERS)
    | {
        "estimate": NUMBERS,
        "mcse": st.one_of(st.none(), st.floats(0, 1e300)),
        "theory": st.one_of(NUMBERS, st.lists(st.floats(0, 1e3), min_size=2, max_size=2)),
        "draws": COUNTS,
        "n_keys": st.one_of(st.none(), st.integers(1, 10**6)),
        "detectable": st.one_of(st.none(), st.floats(1e-9, 1e9)),
        "note": st.one_of(st.none(), st.text(alphabet="ab |&<%_\\", min_size=1)),
    }
)


@given(changes=st.lists(CHANGED, min_size=2, max_size=2))
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@pytest.mark.parametrize("quantity", ["mean", "entropy", "variance"])
def test_any_numbers_fit_and_read_back(quantity, changes, measured):
    record = measured(CaseOptions(dk=("8", "16"), quantities=("mean",))).record
    for row, change in zip(record["rows"], changes, strict=True):
        row |= change | {"quantity": quantity}
        if quantity == "variance" and row["theory"] is not None:
            row["theory"] = abs(np.ravel(row["theory"])[0].item())
    assert longest(render(record, "plain")) <= WIDTH
    for form, separator in (("csv", ","), ("tsv", "\t")):
        assert_reads_back(render(record, form), separator, record)
    assert json.loads(render(record, "json")) == record


def assert_reads_back(text: str, separator: str, record: Record) -> None:
    table = pd.read_csv(io.StringIO(text), sep=separator, dtype=str)
    assert list(table) == list(record["rows"][0])
    for name in table:
        for shown, row in zip(table[name], record["rows"], strict=True):
            value = row[name]
            if value is None:
                assert pd.isna(shown), name
            elif isinstance(value, (dict, list)):
                assert json.loads(shown) == value, name
            elif isinstance(value, (int, float)):
                assert float(shown) == value, name
                assert math.copysign(1, float(shown)) == math.copysign(1, value)


def test_csv_gives_the_same_float64s_and_whole_counts(measured):
    cases = CaseOptions(dk=("8", "16"), quantities=("logits",), scale=("power:0.3",))
    record = measured(cases, factor=1 / 3).record
    assert_reads_back(render(record, "csv"), ",", record)
    lines = render(record, "csv").splitlines()
    assert len(lines) == 1 + len(record["rows"])
    assert ",400000," in lines[1]


def test_frame_keeps_counts_whole(measured):
    result = measured(CaseOptions(dk=("8", "16")))
    assert list(result.frame["d_k"]) == [8, 16]
    result.record["rows"][0]["d_k"] = None
    assert result.frame["d_k"].tolist()[1] == 16
    assert "16.0" not in result.table("csv").splitlines()[2].split(",")[1]


def test_json_is_the_record(measured):
    result = measured(WIDE)
    assert json.loads(result.table("json")) == result.record


HOSTILE = [["a|b", "<b>&", "x_y 5 % #{$"]]


def test_cells_are_escaped():
    headers, texts = ["d_k", "|", "<"], [True] * 3
    pipe = tabulated(HOSTILE, headers, "pipe", texts)
    assert pipe.splitlines()[2].count("|") - pipe.splitlines()[2].count("\\|") == 4
    assert "a\\|b" in pipe
    latex = tabulated(HOSTILE, headers, "latex", texts)
    assert "x\\_y 5 \\% \\#\\{\\$" in latex
    assert "\\toprule" in latex
    assert "\\bottomrule" in latex

    class Cells(HTMLParser):
        def handle_data(self, data):
            found.append(data.strip())

    found: list[str] = []
    Cells().feed(tabulated(HOSTILE, headers, "html", texts))
    assert [cell for cell in found if cell][-3:] == HOSTILE[0]


def test_headers_are_escaped_too():
    pipe = tabulated(HOSTILE, ["|", "b", "c"], "pipe", [True] * 3)
    assert pipe.splitlines()[0].startswith("| \\|")


@pytest.mark.parametrize("form", [f for f in FORMATS if f not in ("plain", "csv", "tsv", "json")])
def test_every_row_names_its_quantity(measured, form):
    result = measured(CaseOptions(dk=("8",), quantities=("mean", "kurtosis")))
    assert all(name in result.table(form) for name in ("mean", "kurtosis"))
    assert "kurtosis" in measured(CaseOptions(dk=("8",), quantities=("kurtosis",))).table(form)


def test_what_is_not_at_its_default_is_shown(measured):
    said = measured(CaseOptions(dk=("8",), sigma=("2",), elements=("laplace",))).table()
    assert said.startswith("elements laplace; sigma_q=2, sigma_k=2\n")


def test_what_is_at_its_default_is_named_beside_what_is_not(measured):
    options = CaseOptions(dk=("16",), transform=("none", "softcap:2"), quantities=("std",))
    assert " none " in render(measured(options).record, "pipe")
    options = CaseOptions(
        dk=("16",), softmax=("stable", "naive"), quantities=("max_prob",), scale=("sqrt-dk",)
    )
    assert "stable" in render(measured(options).record, "plain")


def test_headings_say_what_and_in_which_unit(measured):
    cases = CaseOptions(dk=("8",), quantities=("mean", "kurtosis", "std"))
    said = measured(cases).table()
    assert "mean: E x, mean of the logit; gap in % of the std\n" in said
    assert "0 for the normal law; gap in 1/100\n" in said
    assert "gap in" not in predicted(cases).table()


def test_a_column_that_says_nothing_is_left_out(measured):
    result = measured(CaseOptions(dk=("8",), quantities=("mean", "kurtosis")))
    result.record["rows"][0] |= {"n_keys": 10, "z": None}
    mean, kurtosis = result.table().split("\n\n")
    assert "keys" in mean
    assert "  z  " not in mean
    assert "keys" not in kurtosis
    assert "  z  " in kurtosis


def test_default_table_is_as_documented(measured):
    said = measured(CaseOptions(dk=("64",)), factor=1.002).table().splitlines()
    assert said[0].split("  ")[0:2] == ["", "d_k"]
    assert " ".join(said[2].split()) == "64 400000 64 64.13(15) 8 8.008(9) +0.10 +0.87 match"


def test_within_is_shown_by_its_note(measured):
    rates = Rates(tolerance=0.05, within=True)
    result = measured(CaseOptions(dk=("64",)), factor=1.04, rates=rates)
    assert result.verdict == "match"
    assert "differs from the theory, by less than the tolerance" in result.text()


def test_unknown_format_names_the_known():
    with pytest.raises(ValueError, match="did you mean csv"):
        Result({}).table("csw")


def test_headings_of_a_paper_are_mathematics_and_unlike_each_other(measured):
    head = measured(CaseOptions(dk=("16",))).table("latex").splitlines()[2].split(" & ")
    assert head[0] == "$d_k$"
    assert "$z$" in head
    assert len(set(head)) == len(head)
    head = measured(CaseOptions(dk=("16",))).table("pipe").splitlines()[0].split("|")[1:-1]
    assert len(set(head)) == len(head)


def test_numbers_of_a_paper_have_a_minus_and_a_power_of_ten():
    rows = [["-0.15", "5(5)e-06", "x-1"]]
    text = tabulated(rows, ["z", "b", "sigma_q"], "latex", [False, False, True])
    assert r"$-0.15$ & $5(5)\times 10^{-6}$ & x-1 \\" in text
    assert r"$z$ & b & $\sigma_q$ \\" in text


@pytest.mark.parametrize(
    ("form", "heading"),
    [
        ("pipe", "**scale none**\n\n| "),
        ("rst", "**scale sqrt-dk**\n\n="),
        ("html", "<p><b>scale none</b></p>\n<table>"),
        ("latex", "\\textbf{scale sqrt-dk}\\par\n\\begin{tabular}"),
    ],
)
def test_groups_stand_under_headings_in_every_markup(measured, form, heading):
    cases = CaseOptions(dk=("8", "16"), scale=("none", "sqrt-dk"), quantities=("std",))
    text = measured(cases).grouped(["scale"]).table(form)
    assert heading in text
    assert text.count("sqrt-dk") == 1  # in its heading, not in every row


def test_what_has_no_transform_is_a_group_with_a_name(measured):
    cases = CaseOptions(dk=("8",), transform=("none", "softcap:2"), quantities=("std",))
    assert "**transform none**" in measured(cases).grouped(["transform"]).table("pipe")


@pytest.mark.parametrize("form", ["plain", "pipe"])
def test_findings_are_grouped_too(form):
    findings = [Finding(check, "", "match", measured=1.0) for check in ("factor", "lengths")]
    result = Result(audit_record(Audit("attend", "callable", tuple(findings))))
    text = result.grouped(["check"]).table(form)
    assert text.index("check factor") < text.index("check lengths")


@pytest.mark.parametrize("form", [f for f in FORMATS if f not in ("csv", "tsv", "json")])
def test_what_a_terminal_acts_upon_is_spelled_out(form):
    finding = Finding("factor", "a", "match", measured=1.0)
    record = audit_record(Audit("attend", "callable", (finding,)))
    record["rows"][0]["where"] = "\x1b[31m\ud800"
    text = render(record, form)
    assert "\x1b" not in text
    assert "\ud800" not in text
