"""The record is the contract: exactly these keys, null where absent, plain JSON."""

import json
import math
from dataclasses import replace

import pytest
import verify_variance as vv
from verify_variance.reports.checked import RateOptions, checked
from verify_variance.reports.record import make_record, resolved
from verify_variance.reports.theory import planned, predicted
from verify_variance.stats.request import CaseOptions, DecisionOptions


def words(text):
    return text.split()


TOP = words("schema_version command verdict request design provenance rows")
DESIGN = words("false_alarm power tolerance tests")
PROVENANCE = words(
    "seed prng version jax jaxlib numpy python platform devices started wall_seconds "
    "processes elements elements_per_second resumed_blocks"
)
ROW = words(
    "quantity d_k n_keys elements weights ensemble scale transform dtype parameters draws theory "
    "theory_kind formula estimate mcse gap z p_value p_adjusted ci_low ci_high tolerance "
    "detectable verdict note"
)
CASES = CaseOptions(dk=("4", "8"), sigma=("2",), quantities=("variance", "kurtosis"))


def assert_schema(record, more_row=(), more_design=()):
    assert list(record) == TOP
    assert list(record["design"]) == [*DESIGN, *more_design]
    assert list(record["provenance"]) == PROVENANCE
    assert record["schema_version"] == 1
    for row in record["rows"]:
        assert list(row) == [*ROW, *more_row]
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_run_has_the_schema_and_its_options_as_resolved():
    record = vv.verify(dk="4:8:x2", sigma=2, quantities="logits", samples="1e3", seed=7).record
    assert_schema(record)
    assert record["command"] == "run"
    assert None not in record["provenance"].values()
    request = record["request"]
    assert request["dk"] == [4, 8]
    assert request["samples"] == 1000
    assert request["seed"] == record["provenance"]["seed"] == 7
    assert request["quantities"] == [*dict.fromkeys(row["quantity"] for row in record["rows"])]
    assert record["rows"][0]["parameters"] == {"sigma_q": 2.0, "sigma_k": 2.0}


def test_the_request_asks_for_the_same_rows_again():
    record = vv.verify(dk=[4, 8], scale=["dk", "power:0.3"], samples=1000, seed="random").record
    again = vv.verify(**record["request"]).record
    assert again["rows"] == record["rows"]
    assert again["request"] == record["request"]


def test_predict_plan_and_check_have_the_schema():
    record = predicted(CASES).record
    assert_schema(record, ["replicate_sd"])
    assert {record["verdict"], *record["design"].values()} == {None}
    record = planned(CASES, DecisionOptions()).record
    assert_schema(record, ["replicate_sd", "elements_drawn"], ["seconds"])
    assert record["verdict"] is None
    logits = [2.0, -2.0, 1.0, -1.0] * 100
    record = checked(logits, CaseOptions(dk=("4",)), RateOptions(), file="x.npy").record
    assert_schema(record)
    assert record["request"]["file"] == "x.npy"
    assert record["provenance"]["version"] == vv.__version__
    assert record["provenance"]["seed"] is None


def test_what_is_infinite_is_null():
    rows = predicted(CaseOptions(dk=("4",), elements=("student-t:3",))).record["rows"]
    assert (rows[0]["theory"], rows[0]["replicate_sd"]) == (4.0, None)
    case = vv.Case(d_k=4)
    row = vv.Row(case, "mean", vv.predict(case, "mean"), z=math.inf, p_value=math.nan)
    bracket = vv.Reference((0.0, math.inf), 1.0, None, None, "bracket", "")
    record = make_record("run", {}, [row, replace(row, reference=bracket)], vv.Rates())
    assert_schema(record)
    assert (record["rows"][0]["z"], record["rows"][0]["p_value"]) == (None, None)
    assert record["rows"][1]["theory"] == [0.0, None]


def test_mcse_interval_and_gap_agree(measured):
    for row in measured(CASES, factor=1.004).record["rows"]:
        half = 0.5 * (row["ci_high"] - row["ci_low"])
        assert half == pytest.approx(3.0902323 * row["mcse"], rel=1e-6)  # Phi^-1(0.999)
        unit = 2 * row["theory"] if row["quantity"] == "variance" else 1.0
        assert row["gap"] == pytest.approx((row["estimate"] - row["theory"]) / unit, rel=1e-9)


def test_resolved_keeps_names_and_parses_numbers():
    request = resolved(CaseOptions(dk=("2:8:+3",), elements=("student-t:9",), sigma=("1e3",)))
    assert (request["dk"], request["sigma"]) == ([2, 5, 8], [1000.0])
    assert request["elements"] == ["student-t:9"]
    assert request["n_keys"] == []


def test_full_precision():
    estimate = vv.verify(dk=[4], samples=1000).record["rows"][0]["estimate"]
    assert json.loads(json.dumps(estimate)) == estimate
    assert math.frexp(estimate)[0] * 2**24 % 1 != 0  # more digits than a float32 holds
