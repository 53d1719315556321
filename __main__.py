"""The command line: parse, call, print, exit."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

if __package__ in (None, ""):
    sys.stderr.write(
        "verify-variance: this folder is the package itself; "
        "install it (pip install .) and run verify-variance, or python -m verify_variance\n"
    )
    sys.exit(2)

from cyclopts import App, CycloptsError, Parameter
from cyclopts.config import Env, Toml

from . import __version__
from .reports.output import OutputOptions
from .stats.request import CaseOptions, DecisionOptions, DeviceOptions

if TYPE_CHECKING:
    from .reports.result import Result

Flat = Parameter(name="*")
Cases = Annotated[CaseOptions, Flat]
Decision = Annotated[DecisionOptions, Flat]
Output = Annotated[OutputOptions, Flat]
Devices = Annotated[DeviceOptions, Flat]
CASES, DECISION, DEVICES = CaseOptions(), DecisionOptions(), DeviceOptions()
NO_CASE, OUTPUT = CaseOptions(dk=()), OutputOptions()


def _shown(default: object) -> str | None:
    words = " ".join(map(str, default)) if isinstance(default, tuple) else default
    return None if words in ("", None, False) else str(words)


INTERNAL, INTERRUPTED, USAGE = 70, 130, 2

app = App(
    name="verify-variance",
    version=__version__,
    help="Does the attention logit vary as theory says? Simulate, derive, decide with stated error "
    "rates. Exit code: 0 match, 1 mismatch, 2 usage or input error, 3 undecided.",
    default_parameter=Parameter(
        consume_multiple=True, negative=(), show_env_var=False, show_default=_shown
    ),
    config=[
        Env("VERIFY_VARIANCE_", command=False),
        Toml("verify-variance.toml", must_exist=False, use_commands_as_keys=False),
        Toml(
            "pyproject.toml",
            root_keys=["tool", "verify-variance"],
            must_exist=False,
            use_commands_as_keys=False,
        ),
    ],
)


@app.default
@app.command
def run(
    *,
    cases: Cases = CASES,
    decision: Decision = DECISION,
    output: Output = OUTPUT,
    devices: Devices = DEVICES,
) -> int:
    """Measure and decide whether simulation agrees with theory."""
    from dataclasses import asdict

    from . import verify
    from .reports.progress import Progress

    output.check()
    with Progress(quiet=output.quiet) as progress:
        options = asdict(cases) | asdict(decision)
        result = verify(platform=devices.platform, progress=progress.advance, **options)
    return _show(result, output)


@app.command
def predict(*, cases: Cases = CASES, output: Output = OUTPUT) -> int:
    """Show what should come out: exact theory, no sampling."""
    from .reports.theory import predicted

    output.check()
    return _show(predicted(cases), output)


@app.command
def plan(
    *,
    cases: Cases = CASES,
    decision: Decision = DECISION,
    output: Output = OUTPUT,
) -> int:
    """Draws needed for the chosen rates; with --samples, the gap that they detect."""
    from .reports.theory import planned

    output.check()
    return _show(planned(cases, decision), output)


@app.command
def check(
    file: str,
    /,
    *,
    array: str | None = None,
    cases: Cases = NO_CASE,
    decision: Decision = DECISION,
    output: Output = OUTPUT,
) -> int:
    """Judge your own logits: independent dot products, or replicate x query x key.

    Parameters
    ----------
    file
        An npy, npz or csv file: 1-D, or 3-D with the replicate as its first axis.
    array
        Name of the array in an npz file that has several.

    """
    from .reports.checked import checked
    from .reports.files import read_logits

    output.check()
    return _show(checked(read_logits(file, array), cases, decision), output)


@app.command
def catalogue(*, output: Output = OUTPUT) -> int:
    """What can be named: element laws, scales and quantities, with formulas and sources."""
    from .reports.catalogue import catalogue as listed

    output.check()
    return _emit(listed(output.form), output)


@app.command
def doctor(*, devices: Devices = DEVICES) -> int:
    """Devices, versions, the generator's known answers and the compilation cache."""
    from .simulations.doctor import examine

    report, healthy = examine(devices.platform)
    _print(report)
    return 0 if healthy else INTERNAL


def main() -> None:
    """Entry point: every way out has its exit code, and no traceback exits 1."""
    tokens = [_unaliased(token) for token in sys.argv[1:]]
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        from .reports.usage import explain

        code = _complain(explain(error, app), USAGE)
    except KeyboardInterrupt:
        code = _complain("interrupted; nothing was written", INTERRUPTED)
    except Exception as error:
        code = _failed(error)
    sys.exit(code if isinstance(code, int) else 0)


def _unaliased(token: str) -> str:
    name, equals, value = token.partition("=")
    return f"--n-keys{equals}{value}" if name == "--keys" else token


def _failed(error: Exception) -> int:
    from .stats.checks import InputError

    if isinstance(error, InputError):
        return _complain(str(error), USAGE)
    if os.environ.get("VERIFY_VARIANCE_DEBUG"):
        import traceback

        traceback.print_exception(error)
    said = f"internal error: {type(error).__name__}: {error}".splitlines()[0]
    return _complain(f"{said} (VERIFY_VARIANCE_DEBUG=1 shows where)", INTERNAL)


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"verify-variance: {message}\n")
    return code


def _show(result: Result, output: OutputOptions) -> int:
    """Print and write a result; its exit code."""
    form = output.form
    _emit(result.text() if form == "plain" and not output.quiet else result.table(form), output)
    if form != "plain" and not output.quiet and result.summary:
        sys.stderr.write(f"{result.summary}\n")
    return result.exit_code


def _emit(text: str, output: OutputOptions) -> int:
    if output.output is None:
        _print(text)
    else:
        from .reports.files import write_text

        write_text(output.output, text + "\n")
    return 0


def _print(text: str) -> None:
    """Print to stdout; a reader that has gone away (`| head -1`) is no error."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
