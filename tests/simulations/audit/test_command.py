"""The command `audit` from outside: targets, exit codes, records, and errors in one line."""

import json
import os
import subprocess
import sys
from typing import NamedTuple

import pytest
from verify_variance.__main__ import main

ATTENTION = """
import numpy as np
print("imported")

def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def my_attention(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)) @ v

def unscaled(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2)) @ v

def silent(q, k, v):
    return v

class Attention:
    @staticmethod
    def apply(q, k, v):
        return my_attention(q, k, v)

number = 3
"""


class Outcome(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def folder(tmp_path):
    package = tmp_path / "mypkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "attn.py").write_text(ATTENTION)
    (package / "broken.py").write_text("import sys\nsys.exit(7)\n")
    (package / "needs.py").write_text("import not_there_at_all\n")
    (package / "wrong.py").write_text("def f(:\n")
    return tmp_path


@pytest.fixture
def audit(folder, monkeypatch, capfd):
    """Run the command in this process, in a folder with a package of the user's."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    for name in [name for name in os.environ if name.startswith("VERIFY_VARIANCE_")]:
        monkeypatch.delenv(name)

    def call(*arguments):
        for name in [n for n in sys.modules if n.partition(".")[0] == "mypkg"]:
            del sys.modules[name]
        monkeypatch.setattr(sys, "argv", ["verify-variance", "audit", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return Outcome(ended.value.code, *capfd.readouterr())

    return call


def test_an_installed_command_finds_the_current_folder(folder):
    line = [sys.executable, "-m", "verify_variance", "audit", "mypkg.attn:my_attention"]
    env = os.environ | {"PYTHONSAFEPATH": "1"}
    more = ["--dk", "48", "--dtype", "float32"]
    ended = subprocess.run([*line, *more], cwd=folder, env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_a_function_of_the_current_folder_is_sound(audit):
    ended = audit("mypkg.attn:my_attention", "--dk", "48", "64")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("mypkg.attn:my_attention: callable; ")
    assert "it divides by 8.0000: 1/sqrt(d_k), as in most models." in ended.stdout
    assert "Sound: " in ended.stdout
    assert "imported" in ended.stderr  # what it prints is no part of the result
    assert max(map(len, ended.stdout.splitlines())) <= 100


def test_a_defect_exits_1_and_says_what_it_is(audit):
    ended = audit("mypkg.attn:unscaled", "--dk", "48", "64")
    assert ended.returncode == 1
    said = " ".join(ended.stdout.split())
    assert "it leaves q.k unscaled where sqrt-dk divides by 8.0000" in said
    assert "logits are 8 times too large, the softmax too peaked" in said
    assert "as in T5 and GPT-Neo" in said
    assert audit("mypkg.attn:unscaled", "--expected", "none").returncode == 0


def test_what_cannot_be_told_exits_3(audit):
    ended = audit("mypkg.attn:silent")
    assert ended.returncode == 3
    assert "Cannot tell: " in ended.stdout


def test_the_record_is_whole_and_at_full_precision(audit):
    ended = audit("mypkg.attn:Attention.apply", "--dk", "40", "--format", "json")
    assert ended.returncode == 0, ended.stderr
    record = json.loads(ended.stdout)
    assert (record["command"], record["verdict"]) == ("audit", "match")
    assert record["target"] == "mypkg.attn:Attention.apply"
    assert record["facts"]["layout"].startswith("bhld ")
    assert record["request"]["dk"] == ["40"]
    for row in record["rows"]:
        assert {"check", "where", "cause", "said", "theory", "estimate", "verdict"} <= set(row)
    factor = next(row for row in record["rows"] if row["check"] == "factor")
    assert factor["theory"] == pytest.approx(40**-0.5, rel=1e-12)
    assert factor["d_k"] == 40
    csv = audit("mypkg.attn:my_attention", "--dk", "40", "--format", "csv").stdout
    assert csv.startswith("check,where,cause,said,")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("mypkg.attn:my_atention", "has no 'my_atention'; did you mean my_attention or Attention?"),
        ("mypkg.attm:my_attention", "no module 'mypkg.attm'; did you mean attn?"),
        ("mypkgg.attn:f", "no module 'mypkgg'; did you mean mypkg?"),
        ("mypkg.needs:f", "import of mypkg.needs failed: no module 'not_there_at_all'"),
        ("mypkg.broken:f", "import of mypkg.broken failed: SystemExit: 7"),
        ("mypkg.wrong:f", "import of mypkg.wrong failed: SyntaxError"),
        ("mypkg.attn:number", "must be a function of (q, k, v) or a module, got int"),
        ("mypkg.attn", "target must be pkg.mod:attr, hf:NAME or the path of a checkpoint"),
        (":f", "target must be pkg.mod:attr"),
    ],
)
def test_a_wrong_target_is_one_line_and_exit_2(audit, target, said):
    ended = audit(target)
    assert ended.returncode == 2, ended.stdout
    assert ended.stdout == ""
    (line,) = [one for one in ended.stderr.splitlines() if one != "imported"]
    assert line.startswith("verify-variance: ")
    assert said in line


def test_a_wrong_option_is_refused_before_anything_is_imported(audit):
    ended = audit("mypkg.attn:my_attention", "--expected", "sqrt")
    assert ended.returncode == 2
    assert "unknown scale 'sqrt'; did you mean" in ended.stderr
    assert "imported" not in ended.stderr


def test_continuous_integration_reads_it(audit, folder):
    ended = audit("mypkg.attn:unscaled", "--dk", "64", "--junit", "audit.xml")
    assert ended.returncode == 1
    text = (folder / "audit.xml").read_text()
    assert 'classname="verify_variance.audit.factor" name="factor d_k = 64"' in text
    assert "leaves q.k unscaled" in text
