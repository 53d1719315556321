"""Docs cannot rot: docstring examples, the README's commands with their output, and --help.

In a Markdown file, a fence of the language `console` shows commands behind `$ ` with their output
below, byte for byte; a line `...` stands for any lines. Indented lines that start with
`verify-variance` are commands without output: they must parse. A `python` fence must run.
`python tests/test_docs.py` writes what the commands print into the README.
"""

import ast
import doctest
import importlib
import math
import pkgutil
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import verify_variance
from verify_variance.__main__ import app
from verify_variance.reports.numbers import with_error
from verify_variance.stats.quantities import GROUPS, QUANTITIES, expand_quantities

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(
    found.name
    for found in pkgutil.walk_packages(verify_variance.__path__, "verify_variance.")
    if found.name.split(".")[1] in ("stats", "simulations", "reports")
)
EXTRAS = {"dispatch": "torch", "tensors": "torch"}  # modules of taps that need one
TABLE = re.compile(r"^\| d_k \| scale \|.*\n(?:\|.*\n)+", re.MULTILINE)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md") if path.exists()]


def fences(text: str, language: str) -> list[str]:
    return [body for name, body in FENCE.findall(text) if name == language]


def sessions(text: str) -> Iterator[tuple[str, str]]:
    """Each command of the `console` fences, with the output shown below it."""
    for body in fences(text, "console"):
        for block in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, shown = block.partition("\n")
            yield command, shown


def bare_commands(text: str) -> list[str]:
    """Indented commands, without the comment that may follow them."""
    lines = re.findall(r"^    (verify-variance.*)$", text, re.MULTILINE)
    return [line.split(" #")[0].strip() for line in lines]


def printed(command: str, folder: Path) -> str:
    """What a documented command prints; its exit code may be any verdict."""
    program, *arguments = shlex.split(command)
    assert program == "verify-variance", f"{program} cannot be checked: show it without output"
    line = [sys.executable, "-m", "verify_variance", *arguments]
    ended = subprocess.run(line, cwd=folder, capture_output=True, text=True)
    assert ended.returncode in (0, 1, 3), ended.stderr
    return ended.stdout


def agrees(shown: str, got: str) -> bool:
    pattern = re.escape(shown.rstrip("\n")).replace(r"\.\.\.", "...")
    parts = re.split(r"^\.\.\.\n?", pattern.replace("\\\n", "\n"), flags=re.MULTILINE)
    return re.fullmatch(r"(?s:.*)".join(parts), got.rstrip("\n")) is not None


@pytest.mark.parametrize("name", ["verify_variance", *MODULES])
def test_docstring_examples_run(name):
    if extra := EXTRAS.get(name.rpartition("verify_variance.simulations.taps.")[2]):
        pytest.importorskip(extra, reason=f"this module needs {extra}")
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def test_the_walk_finds_every_module():
    files = {p for f in ("stats", "simulations", "reports") for p in (ROOT / f).rglob("*.py")}
    names = {p.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for p in files}
    assert {f"verify_variance.{n.removesuffix('.__init__')}" for n in names} == set(MODULES)


def test_public_functions_have_docstrings_and_central_ones_an_example():
    for name in verify_variance.__all__[1:]:
        assert getattr(verify_variance, name).__doc__, name
    for name in ("verify", "predict", "decide", "draws_needed", "detectable_gap", "Result"):
        assert ">>>" in getattr(verify_variance, name).__doc__, name


SHOWN = [(page.name, *session) for page in PAGES for session in sessions(page.read_text())]
BARE = [line for page in PAGES for line in bare_commands(page.read_text())]
PYTHON = [body for page in PAGES for body in fences(page.read_text(), "python")]


@pytest.mark.parametrize(("page", "command", "shown"), SHOWN, ids=[line for _, line, _ in SHOWN])
def test_the_output_shown_is_the_output(page, command, shown, tmp_path):
    assert agrees(shown, got := printed(command, tmp_path)), f"{page} shows otherwise:\n{got}"


@pytest.mark.parametrize("line", BARE)
def test_commands_without_output_parse(line):
    _, arguments, *_ = app.parse_args(shlex.split(line)[1:], exit_on_error=False, print_error=False)
    assert arguments is not None


@pytest.mark.parametrize("body", PYTHON)
def test_python_blocks_run_and_their_comments_are_true(body, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for line in body.splitlines():
        code, _, comment = line.partition("  # ")
        exec(code, scope)
        if re.fullmatch(r"['\d].*", comment.strip()):
            assert repr(eval(code, scope)) == comment.strip()


def test_the_readme_shows_the_main_command():
    assert "$ verify-variance --dk 16 32 64 128\n" in (ROOT / "README.md").read_text()


def scaling_table() -> list[str]:
    """What scaling does, as the README shows it: exact but for the median, which is measured."""
    heads = ["d_k", "scale", "max probability", "entropy", "effective keys", "rms Jacobian"]
    lines = ["| " + " | ".join([*heads, "median Jacobian"]) + " |", "|---:|---|" + "---:|" * 5]
    median = "jacobian_frobenius_median"
    measured = verify_variance.verify(
        dk=[16, 32, 64, 128], n_keys=10, quantities=median, samples=100_000
    )
    for row in measured.record["rows"]:
        case = verify_variance.Case(d_k=row["d_k"], n_keys=10, scale=row["scale"])
        top, entropy, square = (
            verify_variance.predict(case, name).value
            for name in ("max_prob", "entropy", "jacobian_frobenius_sq")
        )
        cells = [str(row["d_k"]), row["scale"]]
        cells += [f"{x:.3f}" for x in (top, entropy, math.exp(entropy), math.sqrt(square))]
        cells += [with_error(row["estimate"], row["mcse"])]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def test_the_readme_shows_what_scaling_does():
    text = (ROOT / "README.md").read_text()
    assert TABLE.search(text)[0] == "\n".join(scaling_table()) + "\n"


def test_a_planted_lie_is_found(tmp_path):
    text = "```console\n$ verify-variance predict --dk 4\n...\n    4         4  closed form\n```\n"
    ((command, shown),) = sessions(text)
    got = printed(command, tmp_path)
    assert not agrees(shown, got)
    assert agrees("...\n", got)
    assert agrees(got, got)
    assert not agrees(got.replace("4", "5"), got)
    assert not agrees(got + "more\n", got)
    first, *_, last = got.splitlines()
    assert agrees(f"{first}\n...\n{last}\n", got)
    with pytest.raises(AssertionError, match="cannot be checked"):
        printed("rm -rf .", tmp_path)


def commands() -> list[str]:
    return [name for name in app if not name.startswith("-")]


@pytest.mark.parametrize("name", [None, *commands()])
def test_help_names_every_option_and_says_what_it_is(name, capsys):
    tokens = [*filter(None, [name]), "--help"]
    app(tokens, exit_on_error=False, result_action="return_value")
    said = " ".join(re.sub(r"[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    command = app[name] if name else app
    for argument in command.assemble_argument_collection(parse_docstring=True):
        if argument.name.startswith("--"):
            assert argument.name in said
            assert argument.parameter.help, f"{argument.name} has no help"
            assert " ".join(argument.parameter.help.split())[:40] in said


def test_help_of_check_says_which_files(capsys):
    app(["check", "--help"], exit_on_error=False, result_action="return_value")
    assert "FILE" in (said := capsys.readouterr().out)
    assert "An npy, npz or csv file" in said


def test_help_lists_the_quantities_that_a_command_takes(capsys):
    def said(*tokens):
        app([*tokens, "--help"], exit_on_error=False, result_action="return_value")
        help_ = " ".join(re.sub(r"[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
        return help_[help_.index("--quantities ") : help_.index("--n-keys ")]

    assert {*re.findall(r"\w+", said("run"))} >= {*expand_quantities(["all"])}
    assert {*re.findall(r"\w+", said("check"))} & {*QUANTITIES} == {*GROUPS["logits"]}


def test_help_says_the_exit_codes_and_the_commands(capsys):
    app(["--help"], exit_on_error=False, result_action="return_value")
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "0 match, 1 mismatch, 2 usage or input error, 3 undecided" in said
    assert all(name in said for name in commands())


def test_sources_have_no_planted_example_output_by_hand():
    """Every module's docstring parses, and no example is switched off."""
    for path in (ROOT / f for f in ("reports", "stats", "simulations")):
        for source in path.rglob("*.py"):
            text = source.read_text()
            assert ast.get_docstring(ast.parse(text)), source.name
            assert "doctest: +SKIP" not in text, source.name


def rewritten(text: str, folder: Path) -> str:
    """A page with the output of its commands as they print it now; `...` blocks are kept."""

    def fresh(fence: re.Match[str]) -> str:
        if fence[1] != "console":
            return fence[0]
        said = [
            f"$ {command}\n{(shown if '...' in shown else printed(command, folder)).rstrip()}\n"
            for command, shown in sessions(fence[0])
        ]
        between = "\n" if "\n\n$ " in fence[2] else ""
        return f"```console\n{between.join(said)}```"

    return FENCE.sub(fresh, text)


if __name__ == "__main__":
    readme = ROOT / "README.md"
    with tempfile.TemporaryDirectory() as folder:  # of its own, as each test has
        text = rewritten(readme.read_text(), Path(folder))
    readme.write_text(TABLE.sub("\n".join(scaling_table()) + "\n", text))
