"""CALIBRATION.md: what calibrate printed for the main cases, kept with the commands that made it.

`python tests/test_calibration_page.py` writes the page anew, some ten minutes on two cores; with a
number, that section alone. The tests run its smallest command again, and hold the others to their
own counts.
"""

import math
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from verify_variance.__main__ import app
from verify_variance.stats.calibration.exact_rates import SampleVarianceLaw, false_alarm_ratio
from verify_variance.stats.pivots import chi_square_z, clopper_pearson, two_sided
from verify_variance.stats.planning import Rates, draws_needed

PAGE = Path(__file__).resolve().parent.parent / "CALIBRATION.md"
PROGRAM = "verify-variance calibrate"
SMALL = "--dk 4 --runs 400 --tolerance 0.2"
SECTIONS = (
    ("The default: normal q and k, d_k = 16, the planned draws at one per cent", ""),
    ("The most skewed: a single product, d_k = 1", "--dk 1 --tolerance 0.03"),
    (
        "Four element laws in one table",
        "--elements uniform rademacher laplace student-t:9 --quantities std "
        "--tolerance 0.05 --runs 1000",
    ),
    (
        "Other logit moments",
        "--quantities mean skewness kurtosis mean_abs --tolerance 0.05 --runs 500",
    ),
    (
        "Means that are not 0, and q correlated with k",
        "--mean-q 0.5 --correlation 0.5 --quantities std mean --tolerance 0.05 --runs 2000",
    ),
    (
        "Softmax rows",
        "--n-keys 10 --scale sqrt-dk --quantities max_prob entropy jacobian_trace "
        "--tolerance 0.05 --runs 500",
    ),
    (
        "Fresh weights and tokens",
        "--weights lecun-normal --d-model 64 --quantities std --tolerance 0.1 --runs 1000",
    ),
    (
        "Normalised q and k",
        "--transform qk-rmsnorm --scale sqrt-dk --quantities std --tolerance 0.05 --runs 1000",
    ),
    (
        "Half precision, judged within the tolerance",
        "--dtype float16 --scale sqrt-dk --quantities std --tolerance 0.05 --runs 1000",
    ),
    (
        "The whole law and a tail, whose tests are bounds",
        "--quantities law above_3 --tolerance 0.05 --runs 500",
    ),
    (
        "Looks at doubled draws, `--until-decided`",
        "--until-decided --tolerance 0.005 --gaps 1 2 5 --runs 300",
    ),
    (
        "The draws that looks save at the default rates",
        "--until-decided --false-alarm 1e-6 --tolerance 0.005 --gaps 1 2 5 --runs 200",
    ),
    ("A small one, which the tests run again", SMALL),
)
HEAD = """# Our own error rates

A verdict states two rates: how often a correct theory is called a mismatch, and how often a gap as
large as the tolerance is called one. `verify-variance calibrate` runs a whole table many times,
counts, and judges the counts as it judges everything else: against the stated rates, at a
false-alarm rate of one in a million for each section below. Run i of a calibration has seed i, so
that any of them can be run again alone. The nominal false-alarm rate here is 1 %, since one in a
million takes more runs than anybody has time for; at that rate it is computed, further down.

- **false alarm**: runs in which some row was a mismatch although every theory is exact.
- **mean of z**, **spread of z**, **p uniform**: z must be standard normal and p uniform. Too little
  spread, or p-values that are too even, is as much a failure as too much.
- **gap called**, **gap passed**: a theory wrong by that many tolerances is called a mismatch
  as often as the power says or more often, and a match no more often than it leaves.

`python tests/test_calibration_page.py` writes this page anew.
"""


def printed(arguments: str, form: str) -> str:
    line = [sys.executable, "-m", "verify_variance", "calibrate", *shlex.split(arguments)]
    ended = subprocess.run([*line, "--format", form], capture_output=True, text=True, cwd="/")
    assert ended.returncode in (0, 1, 3), ended.stderr
    said = " ".join(ended.stderr.split("about ")[-1].splitlines())
    return f"{ended.stdout.rstrip()}\n\n{_verdict(said)}\n"


def _verdict(said: str) -> str:
    """The summary alone, without what was said of the time before."""
    return re.search(r"(Calibrated|Not calibrated|Cannot tell).*", said)[0]


def heading(number: int) -> str:
    title, arguments = SECTIONS[number]
    return f"## {number + 1}. {title}\n\n    {f'{PROGRAM} {arguments}'.rstrip()}"


def exact_section() -> str:
    """Actual over nominal, by inversion: the sample mean known, and estimated as a run does."""
    z = Rates().z_holm(4)

    def known(ratio: float, draws: int, relative_sd: float) -> float:
        return chi_square_z(ratio, draws, relative_sd, logits_per_draw=10**9)

    lines = [
        "## The default rate, computed",
        "",
        "Actual over nominal false-alarm rate of the variance's test at the default threshold, one",
        "in a million over four rows, for normal q and k. The law of S² comes from its",
        "characteristic function, not from draws. Taking the sample mean out instead of knowing it",
        "changes nothing that matters: less than one part in ten thousand from 10000 draws on.",
        "",
        "| d_k | draws | mean known | about the sample mean |",
        "|---:|---:|---:|---:|",
    ]
    for draws, d_k in product((1000, 10_000, 400_000), (1, 4, 16, 64)):
        law = SampleVarianceLaw(d_k, draws, about_mean=False)
        ratio = law.rejected(z, deviate=known) / two_sided(z)
        about = false_alarm_ratio(d_k, draws, z)
        lines.append(f"| {d_k} | {draws} | {ratio:.3f} | {about:.3f} |")
    lines += [
        "",
        "The plan is of first order in the tolerance, so that a truth above the theory is missed a",
        "little more often than the power leaves, one below it less often. Share of runs that miss",
        "a gap as large as the tolerance, at the planned draws, d_k = 16, at 1 % and 0.999:",
        "",
        "| tolerance | draws | truth above | truth below |",
        "|---:|---:|---:|---:|",
    ]
    for tolerance in (0.01, 0.02, 0.05, 0.1, 0.2):
        sd = math.sqrt(2 + 6 / 16) / 2
        draws = draws_needed(sd, 1.0, tolerance, false_alarm=0.01)
        law, z = SampleVarianceLaw(16, draws), Rates(0.01).z_holm(1)
        above, below = (1 - law.rejected(z, scale=1 + side * tolerance) for side in (1, -1))
        lines.append(f"| {tolerance:g} | {draws} | {above:.5f} | {below:.5f} |")
    return "\n".join(lines) + "\n"


def shown_sections(text: str) -> dict[str, str]:
    """The body below each command of the page."""
    found = re.split(rf"^    ({PROGRAM}.*)$", text, flags=re.MULTILINE)
    bodies = (body.split("\n## ")[0].strip() for body in found[2::2])
    return dict(zip(found[1::2], bodies, strict=True))


def tables(body: str) -> list[dict[str, str]]:
    """The rows of a section's table, by column."""
    lines = [line for line in body.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


SHOWN = shown_sections(PAGE.read_text()) if PAGE.exists() else {}


def test_the_page_has_every_section():
    assert list(SHOWN) == [f"{PROGRAM} {arguments}".rstrip() for _, arguments in SECTIONS]


@pytest.mark.parametrize("command", SHOWN)
def test_each_command_parses(command):
    _, bound, *_ = app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)
    assert bound is not None


@pytest.mark.parametrize(("command", "body"), SHOWN.items(), ids=list(SHOWN))
def test_the_numbers_of_a_section_are_those_of_its_counts(command, body):
    runs = int(float(re.search(r"--runs (\S+)", f"{command} --runs 10000")[1]))
    rows = tables(body)
    for row in rows:
        if not row["count"]:
            continue
        count = int(row["count"])
        assert row["measured"] == f"{count / runs:.4g}"
        low, high = clopper_pearson(count / runs, runs, 0.025)
        assert row["95 % interval"] == f"{low:.3g}..{high:.3g}"
    alarm = next(row for row in rows if row["check"] == "false alarm")
    assert f"in {alarm['count']} of {runs} runs" in " ".join(body.split())
    failed = [row for row in rows if row["verdict"] in ("mismatch", "undecided")]
    assert ("Calibrated: " in body) == (not failed)


def test_the_smallest_is_what_it_prints_today():
    assert SHOWN[f"{PROGRAM} {SMALL}"] == printed(SMALL, "pipe").strip()


def test_the_computed_rates_are_what_they_are_today():
    assert exact_section() in PAGE.read_text()


def test_a_changed_count_is_found():
    body = SHOWN[f"{PROGRAM} {SMALL}"]
    alarm = next(row for row in tables(body) if row["check"] == "false alarm")
    more = int(alarm["count"]) + 1
    changed = re.sub(rf"(false alarm *\| *){alarm['count']} ", rf"\g<1>{more} ", body)
    assert changed != body
    with pytest.raises(AssertionError):
        test_the_numbers_of_a_section_are_those_of_its_counts(f"{PROGRAM} {SMALL}", changed)


def write(chosen: Sequence[int]) -> None:
    """The page with these sections anew and the others as they are, after each of them."""
    kept = {
        i: body
        for i, (_, arguments) in enumerate(SECTIONS)
        if (body := SHOWN.get(f"{PROGRAM} {arguments}".rstrip()))
    }
    for number in chosen:
        kept[number] = printed(SECTIONS[number][1], "pipe").strip()
        parts = [f"{heading(i)}\n\n{kept[i]}\n" for i in sorted(kept)]
        PAGE.write_text("\n".join([HEAD, *parts, exact_section()]))


if __name__ == "__main__":
    write([int(text) - 1 for text in sys.argv[1:]] or range(len(SECTIONS)))
