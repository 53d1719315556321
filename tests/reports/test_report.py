"""The command report: saved records or a fresh run in, one page, figure or table out."""

import json
import subprocess
import sys

import pytest
from verify_variance import audit, calibrate, check_claims
from verify_variance.reports.figures.catalogue import FIGURES
from verify_variance.reports.result import Result
from verify_variance.reports.table import FORMATS
from verify_variance.reports.theory import planned, predicted
from verify_variance.stats.request import CaseOptions, DecisionOptions

from .conftest import fabricate


def command(*line):
    arguments = [sys.executable, "-m", "verify_variance", *map(str, line)]
    return subprocess.run(arguments, capture_output=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "run.json"
    path.write_text(json.dumps(fabricate(CaseOptions(dk=("8", "16")), factor=1.2).record))
    return path


def test_a_page_is_written_and_that_is_success_whatever_the_verdict(saved, tmp_path):
    path = tmp_path / "report.html"
    ended = command("report", saved, saved, "--output", path)
    assert ended.returncode == 0, ended.stderr
    assert path.read_text().count('class="command"') == 2
    assert "Mismatch" in path.read_text()
    assert command("report", saved).stdout.startswith(b"<!doctype html>")


def test_half_a_character_in_a_record_is_no_end(saved, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(saved.read_text().replace('"note": null', '"note": "\\ud800"'))
    ended = command("report", path, "-o", tmp_path / "a.html")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("name", "start"), [("a.svg", b"<?xml"), ("a.png", b"\x89PNG"), ("a.pdf", b"%PDF")]
)
def test_a_figure_is_written_as_its_name_says(saved, tmp_path, name, start):
    path = tmp_path / name
    ended = command("report", saved, "--figure", "variance", "--style", "paper", "-o", path)
    assert ended.returncode == 0, ended.stderr
    assert path.read_bytes().startswith(start)


def test_without_files_the_report_is_of_a_fresh_run(tmp_path):
    ended = command("report", "--dk", "8", "--samples", "10000", "--quiet", "--figure", "gap")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(b"<?xml")
    assert not ended.stderr


@pytest.mark.parametrize("form", FORMATS)
def test_a_saved_record_is_the_table_that_its_command_printed(saved, form):
    result = Result(json.loads(saved.read_text()))
    ended = command("report", saved, "--format", form)
    assert ended.returncode == 0, ended.stderr
    shown = result.text() if form == "plain" else result.table(form)
    assert ended.stdout.decode() == f"{shown}\n"
    assert ended.stderr.decode().strip() == ("" if form == "plain" else result.words())


def test_a_table_of_a_saved_record_has_caption_label_and_groups(saved, tmp_path):
    path = tmp_path / "a.tex"
    line = ("--caption", "C", "--label", "tab:c", "--group-by", "d_k", "--quiet")
    ended = command("report", saved, "-o", path, *line)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    text = path.read_text()
    assert text.startswith(
        "\\begin{table}\n\\centering\n\\caption{C}\n\\label{tab:c}\n\\textbf{$d_k$ 8}"
    )


OTHERS = {
    "plan": lambda: planned(CaseOptions(dk=("8",)), DecisionOptions()),
    "predict": lambda: predicted(CaseOptions(dk=("8",))),
    "claims": lambda: check_claims("example"),
    "audit": lambda: audit("math:sqrt"),
    "calibrate": lambda: calibrate(dk=2, runs=20, samples=5_000),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_record_of_any_command_becomes_tables_and_a_page(name, tmp_path):
    result, path = OTHERS[name](), tmp_path / "run.json"
    path.write_text(result.table("json"))
    for form in ("plain", "latex", "csv"):
        ended = command("report", path, "--format", form)
        assert ended.returncode == 0, ended.stderr
        shown = result.text() if form == "plain" else result.table(form)
        assert ended.stdout.decode() == f"{shown}\n"
    assert command("report", path).stdout.startswith(b"<!doctype html>")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("--dk", "3"), "a report of saved records takes no --dk"),
        (("--tolerance=0.1",), "a report of saved records takes no --tolerance"),
        (("--figure", "varianc"), "did you mean variance?"),
        (("--figure", "softmax"), "figure softmax needs rows of max_prob or entropy, got none"),
        (("-o", "a.docx"), "output must end in .md, .tex, .htm, .txt, .plain, .pipe, .rst, .html"),
        (("-o", "a.png"), "output .png is of a figure; name it with --figure"),
        (
            ("--caption", "a"),
            "caption is of a table, got a page; drop --caption, or name a --format",
        ),
        (("--figure", "gap", "--format", "latex"), "format is of a table, got a figure"),
        (("run.json", "--format", "latex"), "a table is of one record, got 2"),
        (("--figure", "gap", "-o", "a.gif"), "must end in .svg, .png or .pdf, got a.gif"),
        (("--style", "poster"), "unknown style 'poster'"),
        (("-o", "/nowhere/a.html"), "output's folder must exist, got /nowhere"),
        (("missing.json",), "record missing.json cannot be read: No such file"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(saved, line, said):
    line = [saved if word == "run.json" else word for word in line]
    ended = command("report", saved, *line)
    assert ended.returncode == 2
    assert said in ended.stderr.decode()
    assert ended.stderr.decode().count("\n") == 1


def test_figures_in_the_help_are_those_there_are():
    said = " ".join(command("report", "--help").stdout.decode().replace("│", " ").split())
    *most, last = FIGURES
    assert f"{', '.join(most)} or {last}" in said


LOADED = """
import sys
from verify_variance.__main__ import main
sys.argv = ["verify-variance", *sys.argv[1:]]
try:
    main()
finally:
    print(*sorted({"jax", "matplotlib.pyplot", "scipy.stats"} & set(sys.modules)), file=sys.stderr)
"""


def test_saved_records_need_no_jax(saved):
    line = [sys.executable, "-c", LOADED, "report", str(saved)]
    ended = subprocess.run(line, capture_output=True, text=True)
    assert ended.returncode == 0
    assert ended.stderr.strip() == ""
