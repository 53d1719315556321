"""Many runs of a table: the same bits as alone, and a verdict on ourselves that can be no."""

import json
from dataclasses import replace

import pytest
import verify_variance as vv
from verify_variance.__main__ import main
from verify_variance.simulations.devices import use_platform
from verify_variance.simulations.runs import measure_runs
from verify_variance.stats import run as runs_of
from verify_variance.stats.calibration.options import seed_of_run
from verify_variance.stats.pivots import clopper_pearson
from verify_variance.stats.request import options_from
from verify_variance.stats.run import Run

SMALL = {"dk": 4, "runs": 400, "tolerance": 0.2}  # some 500 draws a run


@pytest.mark.parametrize(
    "options",
    [
        {"dk": [4, 16], "samples": 3000, "quantities": "logits"},
        {"dk": 2, "samples": 70_000, "quantities": ["std", "kurtosis"]},  # two blocks
        {"dk": 4, "samples": 500, "quantities": ["std", "above_3"]},
        {"dk": 4, "samples": 500, "quantities": ["std", "max_prob"], "n_keys": 4},
        {"dk": 4, "samples": 500, "weights": "lecun-normal", "d_model": 8},
        {"dk": 4, "samples": 500, "dtype": "float16", "quantities": ["std", "overflow"]},
        {"dk": 8, "samples": 500, "transform": "rope"},
    ],
)
def test_each_run_has_the_bits_that_it_has_alone(options):
    cases, decision = options_from(options)
    run = Run.planned(cases, decision)
    seeds = [seed_of_run(1, i) for i in range(3)]
    several = [run.decided(found) for found in measure_runs(run.cells, seeds, use_platform("cpu"))]
    assert len(several) == 3
    for seed, rows in zip(seeds, several, strict=True):
        alone = vv.verify(**options, seed=seed).record["rows"]
        assert [row.estimate.value for row in rows] == [row["estimate"] for row in alone]
        assert [row.p_value for row in rows] == [row["p_value"] for row in alone]
    assert several[0][0].estimate.value != several[1][0].estimate.value


def test_a_calibration_says_what_it_counted():
    record = vv.calibrate(**SMALL).record
    assert record["verdict"] == "match"
    assert record["command"] == "calibrate"
    assert [row["check"] for row in record["rows"][:3]] == ["false alarm", "undecided", "mean of z"]
    for row in record["rows"]:
        if row["count"] is None:
            continue
        assert row["runs"] == 400
        assert row["estimate"] == row["count"] / 400
        exact = clopper_pearson(row["estimate"], 400, 0.025)
        assert row["interval"] == pytest.approx(exact, rel=1e-12)
    first, second = record["computed"]
    assert (first["false_alarm"], second["false_alarm"]) == (0.01, 1e-6)
    assert first["ratio"] == pytest.approx(1, abs=0.1)  # tiny runs: theory.md has 5.5 at d_k = 1


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_a_standard_error_that_is_wrong_is_caught_either_way(monkeypatch, factor):
    """A planted fault of ours: the theory's replicate_sd; every error bar is off by a factor."""
    exact = runs_of.predict

    def wrong(case, quantity, *more):
        reference = exact(case, quantity, *more)
        return replace(reference, replicate_sd=reference.replicate_sd * factor)

    monkeypatch.setattr(runs_of, "predict", wrong)
    rows = vv.calibrate(**SMALL).record["rows"]
    failed = {row["check"] for row in rows if row["verdict"] == "mismatch"}
    assert "spread of z" in failed
    assert vv.calibrate(**SMALL).exit_code == 1


def test_a_planted_gap_is_called_as_often_as_is_said():
    """Half the tolerance is called in about half the runs (Phi((2.58 + 3.09) / 2 - 2.58) = 0.6)."""
    rows = vv.calibrate(**SMALL, gaps=[0.5, 2]).record["rows"]
    called = {row["planted"]: row for row in rows if row["check"] == "gap called"}
    assert called[2.0]["estimate"] == 1.0
    # standard error 0.025; to first order the gap moves the deviate by itself, 0.1 of it
    assert 0.4 < called[0.5]["estimate"] < 0.8
    assert called[0.5]["verdict"] == "measured"


def calibrate_command(capsys, *line):
    with pytest.raises(SystemExit) as ended:
        main_with(line)
    out, err = capsys.readouterr()
    return ended.value.code, out, err


def main_with(line):
    import sys

    sys.argv = ["verify-variance", "calibrate", *line]
    main()


def test_the_command_prints_and_exits(capsys):
    code, out, _ = calibrate_command(capsys, *["--dk", "4", "--runs", "400", "--tolerance", "0.2"])
    assert code == 0
    assert "Calibrated: 8 of 8 checks hold." in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 100
    code, out, _ = calibrate_command(
        capsys, *["--dk", "4", "--runs", "20", "--tolerance", "0.2", "--format", "json"]
    )
    assert code == 3  # twenty runs show nothing
    assert json.loads(out)["verdict"] == "undecided"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--runs 0", "runs must be"),
        ("--gaps -1", "gaps"),
        ("--dk 8 --n-keys 4 --quantities jacobian_frobenius_median", "nothing to calibrate"),
    ],
)
def test_what_cannot_be_calibrated_is_one_line(capsys, line, said):
    code, out, err = calibrate_command(capsys, *line.split())
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
