"""Runs that stop when all is decided: the same bits as at fixed draws, and nothing drawn twice."""

import json
import sys
from dataclasses import replace

import pytest
import verify_variance as vv
from verify_variance.__main__ import main
from verify_variance.stats import run as runs_of

BLOCK = 65536


def ran(capsys, monkeypatch, line):
    monkeypatch.setattr(sys, "argv", ["verify-variance", *line.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, *capsys.readouterr()


@pytest.mark.parametrize(
    "options",
    [
        {"dk": [2, 16], "quantities": ["std", "mean"], "tolerance": 0.006},
        {"dk": 4, "n_keys": 4, "quantities": ["max_prob", "jacobian_frobenius_median"]},
    ],
)
def test_a_row_is_what_its_draws_give(options):
    drawn = []
    record = vv.verify(**options, until_decided=True, progress=lambda *at: drawn.append(at)).record
    assert record["verdict"] == "match"
    for row in record["rows"]:
        fixed = vv.verify(**options, samples=row["draws"]).record["rows"]
        same = ("quantity", "d_k", "scale")
        (alone,) = [each for each in fixed if all(each[n] == row[n] for n in same)]
        assert (row["estimate"], row["z"]) == (alone["estimate"], alone["z"])
        assert row["verdict"] in ("match", "measured")
        assert 1 <= row["look"] <= len(record["design"]["looks"])
    if "n_keys" not in options:
        elements = sum(2 * d * max(r["draws"] for r in record["rows"] if r["d_k"] == d)
                       for d in options["dk"])  # fmt: skip
        assert drawn[-1][0] == elements  # each element once
        assert all(row["draws"] % BLOCK == 0 for row in record["rows"])
    first = record["design"]["looks"][0]
    assert first == {"look": 1, "false_alarm": 5e-7, "power": 0.9995}


def wrong_by(factor, monkeypatch):
    exact = runs_of.predict

    def wrong(case, quantity, *more):
        reference = exact(case, quantity, *more)
        sizes = {n: getattr(reference, n) * factor for n in ("value", "unit", "replicate_sd")}
        return replace(reference, **sizes)

    monkeypatch.setattr(runs_of, "predict", wrong)


def test_a_wrong_theory_is_called_at_the_first_look(monkeypatch):
    wrong_by(1.2, monkeypatch)
    record = vv.verify(dk=16, until_decided=True).record
    (row,) = record["rows"]
    assert (row["verdict"], row["look"], row["draws"]) == ("mismatch", 1, BLOCK)
    assert row["p_adjusted"] == min(1, 2 * row["p_value"])


def test_what_stays_open_is_undecided(capsys, monkeypatch):
    line = "--dk 16 --tolerance 0.001 --until-decided --max-samples 1e5"
    code, out, _ = ran(capsys, monkeypatch, line)
    assert code == 3
    assert "1 of 1 row is undecided" in out
    code, out, _ = ran(capsys, monkeypatch, f"{line} --format json")
    record = json.loads(out)
    assert record["rows"][0]["draws"] == 100_000
    assert record["design"]["draws_made"] == 100_000
    assert vv.verify(**record["request"]).record["rows"] == record["rows"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--max-samples 1e5", "max-samples needs --until-decided"),
        ("--until-decided --max-samples 1", "max_samples must be"),
        ("--until-decided --max-samples 1e17", "fewer --max-samples"),
        ("plan --until-decided", "plan is of fixed draws"),
        ("--until-decided --dk 8 --quantities tails", "give --tolerance"),
        ("--until-decided --dk 8 --n-keys 9 --quantities jacobian_frobenius_median", "nothing to"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(capsys, monkeypatch, line, said):
    code, out, err = ran(capsys, monkeypatch, line)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_the_looks_can_be_calibrated():
    options = {"dk": 2, "runs": 30, "tolerance": 0.02, "until_decided": True, "gaps": [5]}
    rows = vv.calibrate(**options).record["rows"]
    by_name = {(row["check"], row["planted"]): row for row in rows}
    assert by_name["false alarm", None]["theory"] == pytest.approx([0.005, 0.01])
    assert by_name["gap called", 5.0]["count"] == 30
    first = by_name["draws over plan", 5.0]
    assert first["verdict"] == "measured"
    assert first["estimate"] == pytest.approx(first["ci_low"])  # the first look, in every run
    assert by_name["draws over plan", None]["estimate"] >= first["estimate"]
    assert not any("z" in row["check"] for row in rows)
