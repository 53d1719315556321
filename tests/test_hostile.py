"""Hostile input, by hypothesis: no traceback, no hang, no unbounded memory, no stray file.

Whatever comes in, a command ends with 0, 1, 2 or 3, and 2 with one line of printable text.
`HOSTILE_EXAMPLES=2000 pytest tests/test_hostile.py` looks for longer, at random.
"""

import contextlib
import io
import json
import os
import re
import resource
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import verify_variance as vv
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from verify_variance.__main__ import app, main

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 20  # of this process's own time; a line of these is a second at most
GROWTH = 2**20  # KiB that one line may add to the peak memory: JAX compiles, nothing is unbounded
EXAMPLES = int(os.environ.get("HOSTILE_EXAMPLES", "0"))


def examples(n):
    """Fixed examples, or many at random where they are asked for."""
    return settings(
        max_examples=EXAMPLES or n,
        derandomize=not EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


class Hang(BaseException):
    """What no handler of ours may swallow."""


def _hang(*_):
    raise Hang


def outcome(tokens, files=(), environment=()):
    """Code, stdout, stderr of a line in an empty folder that holds these files and no more after.

    `--output` may name `out.txt` there.
    """
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    out, err, home = io.StringIO(), io.StringIO(), os.getcwd()
    kept, argv = dict(os.environ), sys.argv
    signal.signal(signal.SIGPROF, _hang)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files:
            (Path(folder) / name).write_bytes(data)
        os.chdir(folder)
        os.environ.update(environment)
        sys.argv = ["verify-variance", *tokens]
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                main()
        except SystemExit as ended:
            code = ended.code
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            sys.argv = argv
            os.chdir(home)
            os.environ.clear()
            os.environ.update(kept)
        left = {p.relative_to(folder).as_posix() for p in Path(folder).rglob("*")}
    said = (code, out.getvalue(), err.getvalue())
    assert left <= {name for name, _ in files} | {"out.txt"}, left
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH
    assert code in (0, 1, 2, 3), said
    assert "Traceback" not in said[2]
    if code == 2:
        assert said[2].startswith("verify-variance: "), said
        assert said[2].count("\n") == 1, said
        assert said[2].removesuffix("\n").isprintable(), said
    return said


WORDS = (
    *("", " ", "-", "--", "=", "0", "-0", "-1", "1", "2", "3", "8", "0.5", "1.5", "nan", "inf"),
    *("-inf", "1e400", "1e-400", "1e308", "9" * 400, "0x10", "1_0", "٣", "½", "1e1e1", "none"),
    *("1:8:x2", "1:8:x1", "1:8:x0", "1:8:+0", "8:1:+1", "1:2:x1e300", "::", "1:8:+-1", "a:b:c"),
    *("normal", "uniform", "student-t:9", "student-t:2", "student-t:nan", "sphere", "sparse:0.5"),
    *("lognormal:1e9", "truncated-normal:0", "normal:", ":normal", "normal:1:2:3", "tied:t5", "t5"),
    *("sqrt-dk", "power:1e308", "constant:0", "constant:-1", "log-n:1:2", "mscale:0", "sqrt-dv"),
    *("rope", "rope+rope", "+", "causal+top-k:3", "top-k:0", "softcap:inf", "gqa:3", "rope:nan"),
    *("float16", "bfloat16", "float64", "naive", "variance", "std", "law", "entropy", "max_prob"),
    *("../../x", "/", "/dev/full", "/dev/stdin", "out.txt", "x" * 5000, "<script>", "%s%n", "{}"),
    *("\u202eabc", "\x1b[31m", "a\nb", "\x00", "\ud800", "$(id)", "'; x", "*", "True", "[]", "{"),
)
LISTED = ("predict", "plan", "catalogue", "check", "claims", "report", "run", "calibrate")
FEW = {"run": ["--samples", "60"], "calibrate": ["--samples", "60", "--runs", "3"]}
NOT_FUZZED = {"--samples", "--runs", "--help", "--version", "--output", "--junit", "--resume"}


def option_names(command):
    found = app[command].assemble_argument_collection()
    names = {n for argument in found for n in argument.names if n.startswith("--")}
    return sorted(n for n in names if n not in NOT_FUZZED and not n.startswith("--no-"))


OPTIONS = {command: option_names(command) for command in LISTED}


@st.composite
def command_lines(draw):
    command = draw(st.sampled_from(LISTED))
    tokens = [command, *FEW.get(command, [])]
    if command in ("check", "claims", "report"):
        tokens += draw(st.lists(st.sampled_from([*WORDS, "logits.npy", "example"]), max_size=2))
    if command in FEW:
        tokens += ["--dk", draw(st.sampled_from(("1", "4", "8", "-3", "2:8:x2")))]
    for name in draw(st.lists(st.sampled_from(OPTIONS[command]), unique=True, max_size=4)):
        if name != "--dk":
            words = st.sampled_from(WORDS) | st.text(max_size=8)
            tokens += [name, *draw(st.lists(words, max_size=3))]
    return tokens


NPY = io.BytesIO()
np.save(NPY, np.linspace(-3, 3, 500))


@examples(60)
@given(command_lines())
def test_no_command_line_is_too_much(tokens):
    outcome(tokens, [("logits.npy", NPY.getvalue())])


SCALARS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(WORDS), st.text()),
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def places(tree, path=()):
    """Every place in a tree of lists and dictionaries."""
    yield path
    listed = dict(enumerate(tree)) if isinstance(tree, list) else tree
    if isinstance(listed, dict):
        for key, value in listed.items():
            yield from places(value, (*path, key))


def changed(tree, path, value):
    if not path:
        return value
    copy = tree.copy()
    copy[path[0]] = changed(tree[path[0]], path[1:], value)
    return copy


RECORD = vv.verify(dk=[2, 4], samples=100, quantities=["std", "kurtosis"]).record
CLAIMS = vv.check_claims("example").record
PLACES = [path for path in places(RECORD) if path]


@examples(40)
@given(st.lists(st.tuples(st.sampled_from(PLACES), TREES), min_size=1, max_size=3))
def test_no_record_is_too_much_for_a_report(changes):
    record = RECORD
    for path, value in changes:
        with contextlib.suppress(KeyError, IndexError, TypeError, AttributeError):
            record = changed(record, path, value)
    data = json.dumps(record).encode()
    for more in ([], ["--figure", "gap", "--output", "out.txt"], ["--format", "latex"]):
        outcome(["report", "r.json", *more], [("r.json", data)])


@examples(40)
@given(st.lists(st.tuples(st.sampled_from([p for p in places(CLAIMS) if p]), TREES), max_size=3))
def test_no_record_with_rows_of_its_own_is_too_much(changes):
    record = CLAIMS
    for path, value in changes:
        with contextlib.suppress(KeyError, IndexError, TypeError, AttributeError):
            record = changed(record, path, value)
    data = json.dumps(record).encode()
    for more in ([], ["--format", "plain"], ["--format", "pipe"]):
        outcome(["report", "r.json", *more], [("r.json", data)])


EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'--></style>javascript:{{7*7}}"
TEXTS = [
    path
    for path in PLACES
    if (path[0] in ("rows", "request", "provenance"))
    and path[-1] not in ("quantity", "verdict")
    and len(path) > 1
]


@examples(25)
@given(st.sets(st.sampled_from(TEXTS), min_size=1, max_size=4))
def test_hostile_words_are_inert_on_the_page(paths):
    record = RECORD
    for path in paths:
        with contextlib.suppress(KeyError, IndexError, TypeError):
            record = changed(record, path, EVIL)
    code, page, _ = outcome(["report", "r.json"], [("r.json", json.dumps(record).encode())])
    if code == 0:
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "8641969" not in page  # no template runs what it shows
        scripts = re.findall(r"(?s)<script[^>]*>(.*?)</script>", page)
        assert not any("alert(1)</" in script for script in scripts)


EXAMPLE = (ROOT / "stats" / "claims" / "example.toml").read_text()
SWEEP = '[[sweep]]\ndk = [2, 4]\nelements = ["normal", "uniform"]\nsigma = 2\n'
SETTINGS = 'dk = [2, 4]\ntolerance = 0.1\nelements = "normal"\nseed = 3\n'


def broken(text):
    """A text with a piece of it replaced, left out, or doubled."""
    pieces = re.split(r"(\W)", text)
    edit = st.tuples(
        st.integers(0, len(pieces) - 1), st.integers(0, 4), st.sampled_from(WORDS) | st.text()
    )

    def apply(edits):
        parts = list(pieces)
        for at, length, new in edits:
            parts[at : at + length] = [new]
        return "".join(parts).encode(errors="surrogatepass")

    return st.lists(edit, min_size=1, max_size=3).map(apply)


@examples(80)
@given(broken(EXAMPLE))
def test_no_claim_file_is_too_much(data):
    outcome(["claims", "c.toml", "--check"], [("c.toml", data)])


@examples(80)
@given(broken(SWEEP))
def test_no_sweep_is_too_much(data):
    outcome(["predict", "--sweep", "s.toml"], [("s.toml", data)])


@examples(80)
@given(broken(SETTINGS), st.booleans())
def test_no_settings_are_too_much(data, own):
    table = b"" if own else b"[tool.verify-variance]\n"
    outcome(["predict"], [("verify-variance.toml" if own else "pyproject.toml", table + data)])


@examples(80)
@given(
    st.sampled_from([n.removeprefix("--").upper().replace("-", "_") for n in OPTIONS["predict"]]),
    st.sampled_from([word for word in WORDS if "\0" not in word and word.isprintable()]),
)
def test_no_environment_is_too_much(name, value):
    outcome(["predict", "--dk", "4"], environment=[(f"VERIFY_VARIANCE_{name}", value)])


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


ARRAYS = [
    *(np.zeros(0), np.zeros((2, 2)), np.zeros((2, 0, 3)), np.full(9, np.nan), np.array(3.0)),
    *(np.array([1e308, -1e308] * 9), np.array([5e-324] * 9), np.ones(100), np.arange(9) > 3),
    *(np.array(["a", "b"]), np.array([{}, []], object), np.array([1j, 2]), np.zeros((2,) * 5)),
    *(np.array([2**63 - 1, -(2**63)]), np.array([1, 2], "datetime64[s]"), np.ones(9, ">f4")),
    np.zeros(3, [("a", "f4")]),
]


@st.composite
def array_files(draw):
    """A file of numbers, some of its bytes changed or cut off."""
    data = npy(draw(st.sampled_from(ARRAYS)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data) - 1))
        data = data[:at] + draw(st.binary(max_size=3)) + data[at + draw(st.integers(0, 3)) :]
    name = draw(st.sampled_from(("a.npy", "a.npz", "a.csv")))
    text = st.text(alphabet="0123456789.,eE+-nainf\n\r\"'# ;\t\x00ä", max_size=40)
    return name, draw(text).encode() if name == "a.csv" else data


@examples(150)
@given(array_files())
def test_no_array_is_too_much(file):
    outcome(["check", file[0], "--dk", "4"], [file])


@pytest.mark.parametrize("shape", ["(99999999999,)", "(1000000, 1000000, 9)"])
def test_an_array_that_only_says_it_is_large_costs_nothing(shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    code, _, _ = outcome(["check", "a.npy", "--dk", "4"], [("a.npy", data + b"\0" * 64)])
    assert code == 2


def test_a_hang_a_crash_and_a_stray_file_are_found(monkeypatch):
    """Faults that the checks above are for, planted into a command."""
    from verify_variance import __main__ as command_line

    def for_ever():
        while True:
            pass

    def planted(work):
        monkeypatch.setattr(command_line, "app", lambda *_, **__: work())
        monkeypatch.setattr(sys.modules[__name__], "SECONDS", 1)
        return lambda: outcome(["predict"])

    with pytest.raises(Hang):
        planted(for_ever)()
    with pytest.raises(AssertionError):
        planted(lambda: 1 / 0)()
    with pytest.raises(AssertionError, match=r"stray"):
        planted(lambda: Path("stray").write_text("x") and 0)()
