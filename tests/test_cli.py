"""The command line from outside: stdout, stderr, exit code and files, for good and bad input."""

import importlib.util
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import verify_variance as vv
from verify_variance.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
COMMAND = [sys.executable, "-m", "verify_variance"]


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """An empty folder, and no settings in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("VERIFY_VARIANCE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def command(monkeypatch, capfd):
    """Run a command line in this process."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["verify-variance", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return Outcome(ended.value.code, *capfd.readouterr())

    return call


def assert_refused(outcome, *said):
    """One line on stderr that says all of `said`, nothing on stdout, exit 2."""
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith("verify-variance: ")
    for words in said:
        assert words in outcome.err


REFUSED = [
    ("--dk 0", "d_k must be a positive integer, got 0"),
    ("--dk -3", "d_k must be a positive integer, got -3"),
    ("--dk 1.5", "d_k must be a positive integer, got 1.5"),
    ("--dk abc", "d_k must be a positive integer, got 'abc'"),
    ("--dk nan", "d_k must be a positive integer"),
    ("--dk", "--dk needs at least one value, got none"),
    ("--dk --samples 10", "--dk needs at least one value, got none"),
    ("--dk 16 32 16", "d_k lists 16 twice"),
    ("--dk 16 16:64:x2", "d_k lists 16 twice"),
    ("--dk 1e9", "d_k must be at most 1048576, got 1e9"),
    ("--dk 4:64:/2", "start:stop:xFACTOR"),
    ("--dk 64:4:x2", "start must not exceed stop"),
    ("--dk 16,32", "d_k must be a positive integer, got '16,32'"),
    ("--elements nromal", "unknown elements 'nromal'; did you mean normal?"),
    ("--elements student-t:2", "above 2"),
    ("--elements student-t:8", "8"),
    ("--elements normal:3", "takes no parameter"),
    ("--scale sqrt-dkk", "unknown scale 'sqrt-dkk'; did you mean sqrt-dk"),
    ("--scale constant", "needs its parameter"),
    ("--scale constant:0", "positive"),
    ("--quantities varience", "unknown quantity 'varience'; did you mean variance"),
    ("--quantities std std", "std twice"),
    ("--samlpes 3", "unknown option --samlpes; did you mean --samples"),
    ("run --samlpes 3", "unknown option --samlpes; did you mean --samples"),
    ("predict --samples 3", "unknown option --samples"),
    ("check x.npy --seed 3", "unknown option --seed"),
    ("predictt", "unknown command or stray word 'predictt'; did you mean predict?"),
    ("predictt --dk 3", "did you mean predict?"),
    ("run 16", "stray word '16'"),
    ("plan 16", "stray word '16'"),
    ("--sigma 0", "must be a positive number, got 0"),
    ("--sigma -1", "must be a positive number, got -1"),
    ("--sigma nan", "must be a positive number, got nan"),
    ("--sigma inf", "must be a positive number, got inf"),
    ("--sigma 1e30", "got 1e30; "),
    ("--sigma-q 1e-30", "got 1e-30; "),
    ("--mean-q inf", "mean_q must be"),
    ("--correlation 1.5", "correlation must be between -1 and 1"),
    ("--correlation 0.5 --elements laplace", "correlation needs normal elements"),
    ("--mean-k 1 --elements sphere", "mean_k must be 0"),
    ("--dtype float33", "unknown dtype 'float33'; did you mean float32"),
    ("--samples 0", "samples must be an integer of at least 2, got 0"),
    ("--samples 1", "samples must be an integer of at least 2, got 1"),
    ("--samples 2.5", "samples must be"),
    ("--samples abc", "samples must be"),
    ("--samples 1e18", ",000 years"),
    ("--samples", "--samples requires an argument"),
    ("--tolerance 0", "tolerance must be a positive number, got 0"),
    ("--tolerance -1", "tolerance must be a positive number"),
    ("--tolerance abc", '--tolerance: unable to convert "abc" into float'),
    ("--false-alarm 0", "false_alarm must be a number between 0 and 0.5"),
    ("--false-alarm 0.7", "false_alarm must be a number between 0 and 0.5"),
    ("--power 1", "power must be a number between 0 and 1"),
    ("--power 0.4", "power must be at least 0.5"),
    ("--seed -1", "seed must be an integer of at least 0, got -1"),
    ("--seed abc", "seed must be an integer of at least 0, got 'abc'"),
    ("--platform cuda", "unknown platform 'cuda'; "),
    ("--format markdown", "unknown format 'markdown'; "),
    ("--output no/table.md", "output's folder must exist"),
    ("--output .", "output must be a file"),
    ("--output table.xlsx", "output must end in .md, .tex,"),
    ("--quantities", "--quantities needs at least one value, got none"),
    ("--dk 16 --scale --n-keys 4", "--scale needs at least one value, got none"),
    ("predict --n-keys", "--n-keys needs at least one value, got none"),
    ("--logit-std 1 --dk 8", "logit_std describes logits that have no d_k, got --dk 8"),
    ("--output=", "output must be a file"),
    ("--output /dev/null", "output must be an ordinary file"),
    ("predict --dk 0", "d_k must be a positive integer, got 0"),
    ("predict --format xlsx", "unknown format"),
    ("plan --samples 1", "samples must be an integer of at least 2"),
    ("catalogue --format xlsx", "unknown format"),
    ("doctor --platform cuda", "unknown platform"),
    ("check", "check needs a file of logits, or both --q and --k"),
    ("check missing.npy --dk 64", "file must exist, got missing.npy"),
    ("check . --dk 64", "file must exist, got ."),
]


@pytest.mark.parametrize(("line", "said"), REFUSED, ids=[line for line, _ in REFUSED])
def test_bad_input_is_refused_in_one_line(command, line, said):
    assert_refused(command(*line.split()), said)
    assert os.listdir() == []


def test_a_platform_that_is_not_there_is_named_with_those_that_are(command):
    import jax

    here = {device.platform for device in jax.local_devices()}
    absent = next(name for name in ("tpu", "gpu") if name not in here)
    said = f"platform {absent} is not on this machine, which has {', '.join(sorted(here))}"
    assert_refused(command("--platform", absent, "--samples", 10), said)


def test_an_unreachable_tolerance_is_cut_by_the_cap_and_says_so(command):
    outcome = command("--dk", 16, "--tolerance", "1e-9", "--max-elements", "1e6")
    assert outcome.code == 0
    assert "variance at d_k = 16: judged at the gap its draws detect" in outcome.out
    row = json.loads(
        command(
            *("--dk", 16, "--tolerance", "1e-9", "--max-elements", "1e6", "--format", "json")
        ).out
    )["rows"][0]
    assert row["tolerance"] == row["detectable"] > 0.01
    promised = float(outcome.out.replace("\n", " ").split("An error of ")[1].split(" %")[0])
    assert promised == pytest.approx(100 * row["detectable"], rel=0.05)
    planned = command("plan", "--dk", 16, "--tolerance", "1e-9")
    assert "variance at d_k = 16: cut by --max-elements" in planned.out


def test_the_default_table(command):
    outcome = command("--dk", 16, 32, "--samples", 20_000)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].split()[:2] == ["d_k", "draws"]
    assert [line.split()[0] for line in lines[2:4]] == ["16", "32"]
    assert "2 of 2 rows match: simulation agrees with theory." in outcome.out
    assert "Seed 0." in outcome.out


def test_the_same_table_twice_is_the_same_bytes(command):
    for form in ("plain", "csv", "latex"):
        line = ("--dk", 16, "--samples", 3000, "--format", form)
        assert command(*line) == command(*line)


def test_a_random_seed_is_printed_and_reproduces(command):
    line = ("--dk", 16, "--samples", 3000)
    first = command(*line, "--seed", "random")
    seed = first.out.split("Seed ")[1].split(".")[0]
    assert command(*line, "--seed", seed) == first
    assert command(*line, "--seed", "random").out != first.out


def test_python_gives_the_same_numbers(command):
    outcome = command("--dk", "8:32:x2", "--scale", "sqrt-dk", "--samples", "2e3", "--format=json")
    record = json.loads(outcome.out)
    result = vv.verify(dk=[8, 16, 32], scale="sqrt-dk", samples=2000)
    assert result.record["rows"] == record["rows"]
    assert result.exit_code == outcome.code
    assert vv.verify(**record["request"]).record["rows"] == record["rows"]


@pytest.mark.parametrize("wrong", [{"dkk": 3}, {"samples": 0}, {"dk": []}, {"dk": 0}])
def test_python_refuses_what_the_command_refuses(wrong):
    with pytest.raises(vv.InputError):
        vv.verify(**wrong)


def test_undecided_exits_3_and_says_what_to_do(command):
    outcome = command("--dk", 16, "--samples", 3)
    assert outcome.code == 3
    assert "undecided; --samples 380000 would see a gap of 0.01" in outcome.out


def test_other_formats_keep_stdout_for_the_table(command):
    outcome = command("--dk", 16, "--samples", 3, "--format", "csv")
    assert len(outcome.out.splitlines()) == 2
    assert "undecided; --samples" in outcome.err
    assert "Seed 0." in outcome.err


def test_quiet_prints_the_table_alone(command):
    outcome = command("--dk", 16, "--samples", 3, "--quiet")
    assert outcome.code == 3
    assert (len(outcome.out.splitlines()), outcome.err) == (3, "")
    assert command("--dk", 16, "--samples", 3, "--quiet", "--format", "json").err == ""


@pytest.mark.parametrize(
    ("name", "start"), [("t.md", "|"), ("t.tex", "\\begin"), ("t.html", "<table>"), ("t", "  d_k")]
)
def test_output_goes_to_a_file_in_the_format_that_its_name_says(command, name, start):
    outcome = command("--dk", 16, "--samples", 20_000, "--output", name)
    assert (outcome.code, outcome.out) == (0, "")
    assert Path(name).read_text().startswith(start)
    assert "1 of 1 row matches" in outcome.err
    assert os.listdir() == [name]


def test_other_commands_print(command):
    assert "1.4142" in command("predict", "--dk", 2, "--quantities", "std").out
    assert command("plan", "--dk", 64).out.split("\n")[3].split()[:2] == ["64", "333484"]
    assert "student-t:NU" in command("catalogue").out
    assert command("--version").out == f"{vv.__version__}\n"
    assert "gives its known answers" in command("doctor").out


def test_plan_with_samples_gives_the_gap_that_they_detect(command):
    row = json.loads(command("plan", "--dk", 64, "--samples", 10_000, "--format", "json").out)
    assert row["rows"][0]["tolerance"] == row["rows"][0]["detectable"]
    assert row["rows"][0]["draws"] == 10_000


# -- check


@pytest.fixture
def logits():
    """Logits of d_k = 16; their checks fail by chance once in a million seeds."""
    draws = np.random.default_rng(0).standard_normal((2, 20_000, 16))
    return (draws[0] * draws[1]).sum(-1)


def test_check_agrees_with_right_logits_and_finds_a_planted_sigma(command, logits):
    np.save("logits.npy", logits)
    right = command("check", "logits.npy", "--dk", 16)
    assert right.code == 0
    assert "1 of 1 row matches" in right.out
    assert "Seed" not in right.out
    planted = command("check", "logits.npy", "--dk", 16, "--sigma", 1.1)
    assert planted.code == 1
    assert "1 of 1 row differs from theory" in planted.out
    assert "the standard deviation is 0.8" in planted.out.replace("\n", " ")
    assert command("check", "logits.npy", "--dk", 16, "--scale", "sqrt-dk").code == 1


def test_check_reads_csv_npz_and_matrices(command, logits):
    np.savetxt("logits.csv", logits)
    np.savez("logits.npz", scaled=logits / 4, raw=logits)
    assert command("check", "logits.csv", "--dk", 16).code == 0
    assert command("check", "logits.npz", "--array", "scaled", "--dk=16", "--scale=dk").code == 1
    line = ("check", "logits.npz", "--array", "scaled", "--dk", 16, "--scale", "sqrt-dk")
    assert command(*line).code == 0
    rng = np.random.default_rng(1)
    q, k = rng.standard_normal((2, 2000, 5, 16))
    np.save("matrices.npy", q @ k.transpose(0, 2, 1))
    assert command("check", "matrices.npy", "--dk", 16).code == 0


def test_check_refuses_what_it_cannot_judge(command, logits):
    np.save("logits.npy", logits)
    np.save("nan.npy", [1.0, np.nan, np.inf])
    np.save("square.npy", np.ones((4, 4)))
    np.save("complex.npy", np.ones(4, complex))
    np.save("none.npy", np.ones(0))
    np.save("objects.npy", np.array([1, None], dtype=object), allow_pickle=True)
    np.savez("two.npz", q=logits, k=logits)
    Path("words.csv").write_text("1\nlogit\n")
    Path("named.csv").write_text("\ufefflogit\n1\n")
    Path("empty.csv").touch()
    for line, said in (
        ("nan.npy --dk 16", "2 nan or inf of 3"),
        ("square.npy --dk 16", "which axis is the replicate?"),
        ("complex.npy --dk 16", "real numbers, got dtype complex128"),
        ("none.npy --dk 16", "at least 2 replicates"),
        ("objects.npy --dk 16", "cannot be read as numbers"),
        ("two.npz --dk 16", "has 2 arrays (q, k); name one with --array"),
        ("words.csv --dk 16", "cannot be read as numbers"),
        ("named.csv --dk 16", "at least 2 replicates"),
        ("empty.csv --dk 16", "is empty"),
        ("logits.npy", "check needs one --dk, got 0"),
        ("logits.npy --dk 16 32", "check needs one --dk, got 2"),
        ("logits.npy --dk 16:32:x2", "check needs one --dk, got 2"),
        ("logits.npy --dk 16 --quantities entropy", "entropy"),
        ("logits.npy --dk 16 --samples 3", "unknown option --samples"),
    ):
        assert_refused(command("check", *line.split()), said)


# -- settings


def test_flag_beats_environment_beats_files(command, monkeypatch):
    def d_ks(*line):
        record = json.loads(command("predict", "--format", "json", *line).out)
        return [row["d_k"] for row in record["rows"]]

    assert d_ks() == [16, 32, 64, 128]
    Path("pyproject.toml").write_text("[tool.verify-variance]\ndk = [2, 3]\n[tool.ruff]\nx = 1\n")
    assert d_ks() == [2, 3]
    Path("verify-variance.toml").write_text('dk = "4:8:x2"\n')
    assert d_ks() == [4, 8]
    monkeypatch.setenv("VERIFY_VARIANCE_DK", "5 6")
    assert d_ks() == [5, 6]
    assert d_ks("--dk", "7") == [7]


def test_a_key_of_another_command_does_not_disturb(command):
    np.save("logits.npy", [2.0, -2.0, 1.0, -1.0] * 10)
    Path("pyproject.toml").write_text(
        "[tool.verify-variance]\ndk = [16]\nsamples = 1e3\nseed = 3\narray = 'a'\nsigma = 2\n"
        "quiet = true\nfalse_alarm = 1e-4\nn_keys = 4\nquantities = ['variance']\nplatform='cpu'\n"
    )
    for line in ("", "run", "predict", "plan", "catalogue", "doctor", "check logits.npy"):
        outcome = command(*line.split())
        assert outcome.code != 2, outcome
        assert outcome.err == ""
    record = json.loads(command("--format", "json").out)
    assert (record["rows"][0]["draws"], record["provenance"]["seed"]) == (1000, 3)
    assert record["rows"][0]["parameters"] == {"sigma_q": 2.0, "sigma_k": 2.0}
    assert record["design"]["false_alarm"] == 1e-4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("samlpes = 3", "unknown setting samlpes in verify-variance.toml; did you mean samples"),
        ("plan = 3", "unknown setting plan in verify-variance.toml"),
        ("dk = {a = 3}", "dk in verify-variance.toml must be a value or a list"),
        ("[verify-variance]\ndk = 3", "unknown setting verify-variance in verify-variance.toml"),
        ("dk = = 3", "verify-variance.toml cannot be read as TOML"),
        ("dk = [0]", "d_k must be a positive integer, got 0"),
        ("dk = [1.5]", "d_k must be a positive integer, got 1.5"),
        ("samples = [1, 2]", "verify-variance.toml"),
        ("quiet = 'perhaps'", "verify-variance.toml"),
    ],
)
@pytest.mark.parametrize("line", ["run", "plan"])
def test_a_wrong_file_is_an_error_that_names_file_and_key(command, line, text, said):
    Path("verify-variance.toml").write_text(text)
    assert_refused(command(line), said)


def test_a_wrong_variable_is_an_error(command, monkeypatch):
    monkeypatch.setenv("VERIFY_VARIANCE_SAMLPES", "3")
    said = "unknown setting VERIFY_VARIANCE_SAMLPES in the environment; did you mean samples"
    assert_refused(command("plan"), said)


# -- ways to end


def test_an_internal_error_is_one_line_and_exits_70(command, monkeypatch):
    def fail(**options):
        raise RuntimeError("boom\nand more")

    monkeypatch.setattr(vv, "verify", fail)
    outcome = command("--dk", 16)
    said = "verify-variance: internal error: RuntimeError: boom (VERIFY_VARIANCE_DEBUG=1 shows"
    assert (outcome.code, outcome.out) == (70, "")
    assert outcome.err.startswith(said)
    assert outcome.err.count("\n") == 1
    monkeypatch.setenv("VERIFY_VARIANCE_DEBUG", "1")
    assert "Traceback" in command("--dk", 16).err


LOADING = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "cyclopts":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["verify-variance"]
import verify_variance.__main__
"""


def test_an_interruption_while_modules_load_is_no_traceback():
    command = [sys.executable, "-c", LOADING]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    said = "verify-variance: interrupted; nothing was written\n"
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (130, "", said)


LONG = ["--dk", "1024", "--samples", "1e8", "--output", "table.md"]


@pytest.mark.parametrize(
    ("sent", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_long_run_says_so_first_and_ends_without_a_file(sent, code):
    def as_from_a_terminal() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background inherits SIG_IGN

    with subprocess.Popen(
        [*COMMAND, *LONG], stderr=subprocess.PIPE, text=True, preexec_fn=as_from_a_terminal
    ) as run:
        assert run.stderr is not None
        first = run.stderr.readline()
        run.send_signal(sent)
        said = run.stderr.read()
    assert re.match(r"about [\d.]+ (s|minutes) on two cores; ", first)
    assert run.returncode == code
    assert os.listdir() == []
    if sent == signal.SIGINT:
        assert said == "verify-variance: interrupted; nothing was written\n"


@pytest.mark.parametrize("quiet", [False, True])
def test_quiet_does_not_say_that_it_is_long(command, monkeypatch, quiet):
    def verify(progress, **options):
        progress(0, 10**12)
        raise KeyboardInterrupt

    monkeypatch.setattr(vv, "verify", verify)
    said = command("--quiet").err if quiet else command().err
    assert said.startswith("about") != quiet
    assert said.endswith("verify-variance: interrupted; nothing was written\n")


PROGRESS = """
from verify_variance.reports import progress
from verify_variance.simulations import sweep
from verify_variance.__main__ import main
progress._PROMPT_SECONDS, sweep.BATCH_ELEMENTS = 0, 1e6
main()
"""


def test_progress_shows_on_a_terminal_and_nowhere_else():
    line = [sys.executable, "-c", PROGRESS, "--dk", "64", "--samples", "400000"]
    terminal, end = pty.openpty()
    on_terminal = subprocess.run(line, stdout=subprocess.PIPE, stderr=end)
    os.close(end)
    assert b"drawing" in os.read(terminal, 10_000)
    os.close(terminal)
    piped = subprocess.run(line, capture_output=True)
    assert piped.stderr == b""
    assert piped.stdout == on_terminal.stdout


@pytest.mark.parametrize("line", ["--help", "catalogue", "predict --dk 4", "--dk 4 --samples 3"])
def test_a_closed_pipe_is_quiet(line):
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([*COMMAND, *line.split()], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert ended.stderr == b""
    assert ended.returncode == (3 if "samples" in line else 0)


@pytest.mark.parametrize(
    ("closed", "line", "code"),
    [(">&-", "predict --dk 4", 0), (">&-", "--help", 0), ("2>&-", "--dk 0", 2)],
)
def test_a_stream_that_was_closed_before_is_no_error(closed, line, code):
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *line.split()]
    ended = subprocess.run(shell, capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, b"", b"")


@pytest.mark.parametrize("line", ["predict --dk 4", "--help"])
def test_a_full_disk_is_said(line):
    with open("/dev/full", "w") as full:
        ended = subprocess.run([*COMMAND, *line.split()], stdout=full, stderr=subprocess.PIPE)
    assert ended.returncode == 2
    assert ended.stderr == b"verify-variance: stdout could not be written: the device is full\n"


def test_python_dot_at_the_root_explains_itself():
    ended = subprocess.run([sys.executable, "."], cwd=ROOT, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("verify-variance: this folder is the package itself; install")
    assert ended.stderr.count("\n") == 1


def test_the_console_script_is_this_main():
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="verify-variance")
    assert script.value == "verify_variance.__main__:main"
    assert importlib.util.find_spec("verify_variance.__main__") is not None
