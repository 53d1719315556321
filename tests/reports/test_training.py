"""A training experiment as a record, tables, figures and page; the command from end to end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from verify_variance.reports.figures.catalogue import TRAINING, figure_data
from verify_variance.reports.page.html import page
from verify_variance.reports.result import Result
from verify_variance.reports.saved import checked_record
from verify_variance.reports.table import FORMATS
from verify_variance.reports.training.claims import shipped_training
from verify_variance.reports.training.journal import Journal
from verify_variance.reports.training.records import table_of, training_record
from verify_variance.stats.checks import InputError
from verify_variance.stats.training.finals import BY_HEAD
from verify_variance.stats.training.presets import Experiment, fixed_runs

TINY = Experiment("d_k 64", ("sqrt-dk", "none"), n_heads=2, steps=20, every=10, replicates=3)


def log(run, **more) -> dict:
    worse = 0.2 * (run.arm == "none") + 0.01 * run.replicate
    kept = {"map": [[[[1.0, 0.0], [0.25, 0.75]]] * 2]} if run.replicate == 0 else {}
    return kept | {
        "experiment": run.experiment, "arm": run.arm, "rate": run.rate, "replicate": run.replicate,
        "steps": [0, 10, 20], "validation_loss": [5.0, 3.0, 2.5 + worse],
        "training_loss": [None, 3.0, 2.0], "accuracy": [0.0, 0.2, 0.3],
        "largest_rise": 0.1 * run.replicate, "lost_steps": 0, "lost_scores": 0, "lost_gradients": 0,
        **{name: [[[0.5 + worse, 0.5]]] * 3 for name in BY_HEAD},
    } | more  # fmt: skip


@pytest.fixture(scope="module")
def record() -> dict:
    logs = [log(run) for run in fixed_runs(TINY)]
    return training_record(logs, [TINY], {"preset": "quick"}, {"seed": 3})


def test_rows_have_means_and_paired_differences(record):
    scaled, none = record["rows"]
    assert (scaled["arm"], none["arm"]) == ("sqrt-dk", "none")
    assert scaled["estimate"] == pytest.approx(2.51)
    assert none["difference"] == pytest.approx(0.2)
    assert none["ci_high"] - none["ci_low"] < 1e-9  # the replicates' own part is the same in both
    assert (none["against"], scaled["against"]) == ("worse", "")
    assert {row["verdict"] for row in record["rows"]} == {"measured"}


def test_a_record_is_json_and_is_read_again(record):
    again = json.loads(json.dumps(record, allow_nan=False))
    assert checked_record(again, "train.json") == again
    assert table_of(again).values("d_k 64", "none", "validation_loss") == [2.7, 2.71, 2.72]
    for lacking in ("curves", "maps", "statements", "experiments"):
        with pytest.raises(InputError, match="must be a whole record of train"):
            checked_record({k: v for k, v in again.items() if k != lacking}, "train.json")


def test_every_format_says_who_is_worse_and_what_was_not_tested(record):
    for form in FORMATS:
        text = Result(record).table(form)
        assert "none" in text
        assert "worse" in text or "+0.200" in text
    plain = Result(record).text()
    assert max(map(len, plain.splitlines())) <= 100
    assert "C13  refuted" in plain
    assert "not tested: whether a map is noise" in plain
    assert "nothing here speaks of convergence" in plain.replace("\n", " ")


def test_a_run_that_was_lost_is_said_to_be_lost():
    losses = {"sqrt-dk": {}, "none": {"validation_loss": [5.0, 3.0, None], "lost_steps": 4}}
    logs = [log(run, **losses[run.arm]) for run in fixed_runs(TINY)]
    lost = training_record(logs, [TINY], {}, {"seed": 0})
    _, none = lost["rows"]
    assert (none["estimate"], none["lost_steps"]) == (None, 12)
    line = next(x for x in Result(lost).table().splitlines() if x.startswith("none"))
    assert "lost" in line
    assert json.dumps(lost, allow_nan=False)


def test_figures_show_what_the_record_has(record):
    (losses,) = figure_data("training", [record]).panels
    _, none = losses.lines
    assert (none.label, none.x, none.y) == ("none", (10.0, 20.0), (3.0, 2.71))
    (band, _) = losses.bands
    assert band.low[-1] == pytest.approx(2.51 - 0.01)
    spread, _ = figure_data("attention", [record]).panels
    assert spread.lines[0].y == pytest.approx((0.505,) * 3)
    scaled_map, unscaled_map = figure_data("maps", [record]).panels
    assert scaled_map.map.values == ((1.0, 0.0), (0.25, 0.75))
    assert unscaled_map.title == "d_k 64: none"
    with pytest.raises(InputError, match="figure maps needs a record of train, got none"):
        figure_data("maps", [])


def test_no_two_arms_of_a_panel_have_one_colour():
    for data in (figure_data(name, [shipped_training()]) for name in TRAINING):
        for panel in data.panels:
            colours = [line.colour for line in panel.lines]
            assert len(set(colours)) == len(colours)


def test_the_page_has_statements_arms_and_every_figure(record):
    html = page([record])
    assert "Training, scaled against unscaled" in html
    assert "+0.200 ± 0.000" in html
    for name in TRAINING:
        assert f'id="figure-{name}"' in html
    assert 'id="rows"' not in html
    assert page([record]) == html


def test_a_journal_of_another_experiment_is_refused(tmp_path):
    path = str(tmp_path / "train.journal")
    journal = Journal(path, {"seed": 0})
    journal.logs["a"] = {"steps": [0]}
    journal.save()
    assert Journal(path, {"seed": 0}).logs == journal.logs
    with pytest.raises(InputError, match="its seed is 0, not 1; name another file"):
        Journal(path, {"seed": 1})
    Path(path).write_text("{}")
    with pytest.raises(InputError, match="resume must be a file that train --resume wrote"):
        Journal(path, {"seed": 0})


def command(*arguments: str, python: str = "") -> subprocess.CompletedProcess[str]:
    code = f"{python}\nfrom verify_variance.__main__ import main; main()"
    line = [sys.executable, "-c", code, "train", *arguments]
    return subprocess.run(line, capture_output=True, text=True)


def test_the_absent_extra_is_one_line():
    ended = command("--quick", python="import sys; sys.modules['optax'] = None")
    assert ended.returncode == 2
    assert ended.stderr == (
        "verify-variance: train needs optax, which is not installed; "
        "pip install 'verify-variance[train]'\n"
    )


def test_the_command_trains_resumes_and_prints_the_same(tmp_path):
    pytest.importorskip("optax", reason="training needs the extra `train`")
    few = ("--quick", "--steps", "4", "--replicates", "2", "--arms", "sqrt-dk", "none")
    journal, record = tmp_path / "train.journal", tmp_path / "train.json"
    first = command(*few, "--resume", str(journal))
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("d_k 64: next character; 1 layer of 2 heads, d_k 64; 4 steps")
    assert command(*few, "--resume", str(journal), "-o", str(record)).returncode == 0
    kept = json.loads(record.read_text())
    assert kept["provenance"]["resumed_blocks"] == 4
    assert first.stdout.rstrip() == Result(kept).text()
    other = command(*few, "--resume", str(journal), "--seed", "1")
    assert other.returncode == 2
    assert "is of another experiment: its seed is 0, not 1" in other.stderr
