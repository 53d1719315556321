"""JUnit, step summaries and annotations, read back by parsers that are not ours."""

import json
import os
import re
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path

import pytest
from verify_variance.reports.ci import (
    MOST_ANNOTATIONS,
    SUMMARY_BYTES,
    ci_exit_code,
    described,
    junit,
    publish,
    step_summary,
    workflow_commands,
)
from verify_variance.stats.request import CaseOptions

from .conftest import fabricate

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = '<a> & "b" | `c`\n::error::x % \x00\x1b ]]> @team ![i](http://x) <!-- --> é'


@pytest.fixture
def record():
    """A match, a mismatch, an undecided row and a measured one."""
    cases = CaseOptions(dk=("8", "16", "32"), quantities=("variance",))
    record = json.loads(json.dumps(fabricate(cases).record))
    record["rows"][1] |= {"verdict": "mismatch", "gap": 0.2, "z": 40.0, "estimate": 23.0}
    record["rows"][2] |= {"verdict": "undecided", "gap": 0.009}
    record["rows"].append(record["rows"][0] | {"verdict": "measured", "theory": None, "gap": None})
    record["verdict"] = "mismatch"
    return record


def suites(text):
    document = xml.dom.minidom.parseString(text.encode())
    (suite,) = document.getElementsByTagName("testsuite")
    return document.documentElement, suite, document.getElementsByTagName("testcase")


def kinds(case):
    return [n.tagName for n in case.childNodes if n.nodeType == n.ELEMENT_NODE]


@pytest.mark.parametrize(("undecided", "failures", "skipped"), [("fail", 2, 1), ("pass", 1, 2)])
def test_junit_has_a_case_a_row_and_counts_that_add_up(record, undecided, failures, skipped):
    root, suite, cases = suites(junit(record, undecided))
    for element in (root, suite):
        assert element.getAttribute("tests") == "4"
        assert element.getAttribute("failures") == str(failures)
        assert element.getAttribute("skipped") == str(skipped)
        assert element.getAttribute("errors") == "0"
    third = ["failure"] if undecided == "fail" else ["skipped"]
    assert [kinds(case) for case in cases] == [[], ["failure"], third, ["skipped"]]
    failure = cases[1].getElementsByTagName("failure")[0]
    assert failure.getAttribute("type") == "mismatch"
    assert "expected 16, measured 23" in failure.getAttribute("message")
    names = [(c.getAttribute("classname"), c.getAttribute("name")) for c in cases]
    assert len(set(names)) == 4


def test_junit_is_read_by_a_junit_library(record, tmp_path):
    junitparser = pytest.importorskip("junitparser", reason="pip install junitparser to run this")
    path = tmp_path / "junit.xml"
    path.write_text(junit(record))
    read = junitparser.JUnitXml.fromfile(str(path))
    assert (read.tests, read.failures, read.skipped) == (4, 2, 1)


def test_hostile_names_stay_inside_their_attributes(record):
    for row in record["rows"]:
        row |= {"elements": HOSTILE, "note": HOSTILE}
    _, _, cases = suites(junit(record))
    assert len(cases) == 4
    message = cases[1].getElementsByTagName("failure")[0].getAttribute("message")
    assert '<a> & "b" | `c`' in message
    assert "\x00" not in message


def test_exit_codes_of_undecided():
    assert ci_exit_code({"verdict": "undecided"}, "fail") == 3
    assert ci_exit_code({"verdict": "undecided"}, "pass") == 0
    assert ci_exit_code({"verdict": "mismatch"}, "pass") == 1
    assert ci_exit_code({"verdict": "match"}, "fail") == 0


def test_the_step_summary_says_the_verdict_and_shows_failures_first(record):
    text = step_summary(record)
    assert text.startswith("### verify-variance: mismatch\n")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert "mismatch" in table[2]
    assert "undecided" in table[3]
    assert len(table) == 2 + 4


def test_the_step_summary_is_inert(record):
    for row in record["rows"]:
        row |= {"elements": HOSTILE.replace("\n", " "), "note": HOSTILE}
    text = step_summary(record)
    assert "<a>" not in text
    assert "<!--" not in text
    assert "@team" not in text
    assert "![i](" not in text
    assert "`" not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    bars = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
    assert len(bars) == 1  # a bar in a cell starts no column


@pytest.mark.parametrize("room", [SUMMARY_BYTES, 20_000, 3_000])
def test_the_step_summary_keeps_within_its_room(record, room):
    record["rows"] = record["rows"] * (5_000 if room == SUMMARY_BYTES else 200)
    for number, row in enumerate(record["rows"]):
        record["rows"][number] = row | {"elements": f"law-{number}-" + "é" * 100}
    text = step_summary(record, room)
    assert len(text.encode()) <= room
    assert re.search(r"\d+ more rows did not fit\.", text)


def test_annotations_are_one_line_each_and_escaped(record):
    record["rows"][1] |= {"note": HOSTILE, "scale": "a,b:c"}
    error, undecided = workflow_commands(record)
    assert error.startswith("::error title=variance d_k=16 scale=a%2Cb%3Ac::expected 16")
    assert "\n" not in error
    assert "%0A%3A" not in error.split("::", 2)[2]  # in a message colons stand as they are
    assert " %25 " in error
    assert undecided.startswith("::error title=variance d_k=32")
    assert workflow_commands(record, "pass")[1].startswith("::warning ")


@pytest.mark.parametrize("verdict", ["mismatch", "undecided"])
def test_annotations_are_ten_of_a_kind_at_most(record, verdict):
    record["rows"] = [record["rows"][1] | {"verdict": verdict}] * 50
    lines = workflow_commands(record, "pass")
    assert len(lines) == MOST_ANNOTATIONS
    assert "41 more rows" in lines[-1]
    record["rows"] = record["rows"] + [record["rows"][0] | {"verdict": "undecided"}] * 3
    assert len(workflow_commands(record, "fail")) <= MOST_ANNOTATIONS


def test_a_row_is_described_in_a_line(record):
    assert described(record["rows"][0]).endswith(": match")
    assert described(record["rows"][3]).endswith(": measured")
    bracket = record["rows"][0] | {"theory": [1.0, 2.0]}
    assert described(bracket).startswith("expected 1..2")


def test_publishing_happens_where_it_is_asked_for(record, tmp_path, monkeypatch):
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    assert publish(record, None, "fail") == []
    target, path = tmp_path / "summary.md", tmp_path / "junit.xml"
    target.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(target))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert publish(record, str(path), "fail") == workflow_commands(record)
    assert target.read_text() == f"before\n{step_summary(record)}"
    assert path.read_text() == f"{junit(record)}\n"


def command(*line, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")}
    return subprocess.run(
        [sys.executable, "-m", "verify_variance", *line],
        capture_output=True, text=True, env=clean | env,
    )  # fmt: skip


def test_the_command_writes_all_three_and_lets_undecided_pass(tmp_path):
    path, target = tmp_path / "junit.xml", tmp_path / "summary.md"
    line = ("--dk", "8", "--samples", "10", "--junit", str(path), "--undecided", "pass")
    ended = command(*line, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(target))
    assert ended.returncode == 0, ended.stderr
    assert "::warning title=variance d_k=8" in ended.stderr
    assert "::" not in ended.stdout
    _, suite, _ = suites(path.read_text())
    assert suite.getAttribute("skipped") == "1"
    assert "### verify-variance: undecided" in target.read_text()
    assert command(*line[:-2]).returncode == 3


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("--undecided", "maybe"), "unknown undecided 'maybe'"),
        (("--junit", "/nowhere/junit.xml"), "junit's folder must exist, got /nowhere"),
    ],
)
def test_wrong_options_are_refused_before_the_run(line, said):
    ended = command("--dk", "8", *line)
    assert ended.returncode == 2
    assert said in ended.stderr


def steps():
    """The shell steps of action.yml, each with what it needs from its inputs."""
    text = (ROOT / "action.yml").read_text()
    found = re.findall(r"( +)run: \|\n((?:\1  .*\n|\n)+)", text)
    return [re.sub(rf"(?m)^{indent}  ", "", body) for indent, body in found]


def test_the_action_never_pastes_an_input_into_a_shell():
    text = (ROOT / "action.yml").read_text()
    assert "using: composite" in text
    assert steps()
    assert not any("${{" in step for step in steps())
    described_inputs = re.findall(r"(?m)^  ([\w-]+):\n    description:", text)
    used = set(re.findall(r"\$\{\{ inputs\.([\w-]+) \}\}", text))
    assert used == set(described_inputs)


def test_the_action_makes_a_report_of_an_audit_too(tmp_path):
    (tmp_path / "own.py").write_text(
        "import numpy as np\n"
        "def attend(q, k, v):\n"
        "    p = np.exp(q @ k.swapaxes(-1, -2))\n"
        "    return p / p.sum(-1, keepdims=True) @ v\n"
    )
    env = {"COMMAND": "audit own:attend", "ARGS": "", "JUNIT": "", "REPORT": "found"}
    ended = last_step(env, tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert "Defect" in ended.stderr
    assert '<section class="own">' in (tmp_path / "found.html").read_text()
    assert json.loads((tmp_path / "found.json").read_text())["verdict"] == "mismatch"


def last_step(env, folder):
    """The action's last step in a folder."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", steps()[-1]],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), "UNDECIDED": "fail"} | env,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("args", "code"), [("--dk 8 --samples 20000", 0), ("--dk 8 --samples 10", 3)]
)
def test_the_actions_last_step_runs_and_quotes_its_inputs(args, code, tmp_path):
    evil = tmp_path / "a b;touch evil.xml"
    env = {"COMMAND": "run", "ARGS": args, "JUNIT": str(evil), "REPORT": ""}
    ended = last_step(env, tmp_path)
    assert ended.returncode == code, ended.stderr
    assert [p.name for p in tmp_path.iterdir() if "xml" in p.name] == [evil.name]
