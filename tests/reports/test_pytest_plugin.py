"""The plugin in projects of its own: what it says, what it spends, and what it costs others."""

import os
import re
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points

import pytest
from verify_variance.reports.pytest_plugin import LogitChecks

PROJECT = """
    import numpy as np
    import pytest

    D_MODEL = 512

    def attention(divided):
        def call(q, k, v):
            p = np.exp(divided(q @ k.swapaxes(-1, -2), q.shape[-1]))
            return p / p.sum(-1, keepdims=True) @ v
        return call

    DIVIDED = {
        "right": lambda x, d_k: x / d_k**0.5,
        "no_divisor": lambda x, d_k: x,
        "d_model": lambda x, d_k: x / D_MODEL**0.5,
        "d_k": lambda x, d_k: x / d_k,
        "twice": lambda x, d_k: x / d_k**0.5 / d_k**0.5,
    }

    @pytest.mark.parametrize("name", DIVIDED)
    def test_scale(logit_checks, name):
        logit_checks.assert_logit_scale(attention(DIVIDED[name]), d_k=64)

    @pytest.mark.parametrize("name", DIVIDED)
    def test_variance(logit_checks, name):
        q, k = np.random.default_rng(0).normal(size=(2, 20_000, 64))
        x = DIVIDED[name]((q * k).sum(-1), 64)
        logit_checks.assert_logit_variance(x, d_k=64, scale="sqrt-dk")
        logit_checks.assert_unit_logits(q[:4000], k[:4000])
"""
CAUSES = {
    "no_divisor": "a divisor sqrt(d_k) that is missing?",
    "d_model": "d_model = 512 (8 heads) where d_k = 64 was meant?",
    "d_k": "divided by sqrt(d_k) twice, or by d_k?",
    "twice": "divided by sqrt(d_k) twice, or by d_k?",
}
PLAIN = """
    def test_one():
        assert True

    def test_two():
        assert 1 == 2
"""


def run_pytest(folder, source, *options, ini="", autoload=True):
    (folder / "test_project.py").write_text(textwrap.dedent(source))
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "GITHUB"))}
    environment |= {} if autoload else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment | {"COLUMNS": "200"}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return run_pytest(tmp_path_factory.mktemp("project"), PROJECT).stdout


def test_the_plugin_is_registered():
    (found,) = [e for e in entry_points(group="pytest11") if e.name == "verify_variance"]
    assert found.value == "verify_variance.reports.pytest_plugin"


def test_the_right_scale_passes_and_four_wrong_ones_fail(project):
    assert "8 failed, 2 passed" in project
    failed = set(re.findall(r"^FAILED test_project.py::(\S+)", project, re.MULTILINE))
    assert failed == {f"test_{t}[{name}]" for t in ("scale", "variance") for name in CAUSES}


@pytest.mark.parametrize("name", CAUSES)
@pytest.mark.parametrize("test", ["scale", "variance"])
def test_the_message_can_be_read(project, test, name):
    section = project.split(f" test_{test}[{name}] _")[1].split("\n____")[0]
    said = [line[1:].strip() for line in section.splitlines() if line.startswith("E ")]
    measured = {"scale": "AssertionError: measured factor", "variance": "AssertionError: variance"}
    assert said[0].startswith(measured[test])
    assert CAUSES[name] in said[0]
    for entry in ("expected  ", "measured  ", "z  ", "false alarm  "):
        assert any(line.startswith(entry) for line in said)
    # the user's line, and none of ours
    assert ">       logit_checks.assert_logit_" in section
    assert "stats/" not in section
    assert "simulations/" not in section


def test_the_budget_is_split_and_its_use_is_shown(project):
    # ten tests share 1e-6; the first check of each gets half of its share, a second one a sixth
    spent = 5 * 1e-7 / 2 + 1e-7 / 6
    line = f"logit checks: 6 of samples, false alarm {spent:.2g} together (budget 1e-06); 5 exact"
    assert line in project
    assert "5e-08 (an exact theory fails this often)" in project


def test_the_parts_of_a_share_never_exceed_it():
    checks = LogitChecks(1e-7)
    for _ in range(1000):
        checks.spent.append(checks.next_rate())
    assert sum(checks.spent) == pytest.approx(1e-7 * (1 - 1 / 1001))
    with pytest.raises(AttributeError, match="known: assert_logit_variance"):
        checks.assert_everything  # noqa: B018


def test_a_budget_and_rates_of_ones_own(tmp_path):
    source = """
        import numpy as np

        def test_it(logit_checks):
            x = np.random.default_rng(0).normal(size=20_000)
            logit_checks.assert_matches(x, 0.0)
            logit_checks.assert_matches(x, 0.0, false_alarm=1e-5)
    """
    done = run_pytest(tmp_path, source, ini="logit_false_alarm = 1e-3")
    assert "false alarm 0.00051 together (budget 0.001); 0 exact" in done.stdout
    done = run_pytest(tmp_path, source, ini="logit_false_alarm = often")
    assert "logit_false_alarm must be a number between 0 and 0.5, got 'often'" in done.stdout


def test_workers_of_xdist_bring_their_checks_home(tmp_path, project):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    done = run_pytest(tmp_path, PROJECT, "-n", "1")
    said = next(line for line in project.splitlines() if line.startswith("logit checks: "))
    assert said in done.stdout.splitlines()


def told(output):
    """A run's output without its times and without pytest's own list of plugins."""
    lines = [line for line in output.splitlines() if not line.startswith("plugins: ")]
    return [re.sub(r"in \d+\.\d+s", "", line).strip("= ") for line in lines]


def test_whoever_does_not_use_it_sees_no_difference(tmp_path):
    (tmp_path / "conftest.py").write_text(
        textwrap.dedent("""
        import sys

        def pytest_unconfigure():
            heavy = {"jax", "numpy", "scipy", "pandas", "matplotlib", "torch"} & set(sys.modules)
            ours = [name for name in sys.modules if name.startswith("verify_variance.")]
            print("heavy", sorted(heavy), "ours", ours)
        """)
    )
    with_it = run_pytest(tmp_path, PLAIN)
    assert "heavy [] ours ['verify_variance.reports', 'verify_variance.reports.pytest_plugin']" in (
        with_it.stdout
    )
    without = run_pytest(tmp_path, PLAIN, "-p", "no:verify_variance")
    assert "heavy [] ours []" in without.stdout
    said = [
        [line for line in told(done.stdout) if "heavy" not in line] for done in (with_it, without)
    ]
    assert said[0] == said[1]
    assert with_it.stderr == without.stderr
    assert with_it.returncode == without.returncode == 1


def test_loading_it_takes_next_to_no_time():
    code = (
        "import pytest, time\n"
        "started = time.perf_counter()\n"
        "import verify_variance.reports.pytest_plugin\n"
        "print(time.perf_counter() - started)\n"
    )
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    assert min(seconds) < 0.05  # some milliseconds; an import of NumPy alone takes 0.1 s
