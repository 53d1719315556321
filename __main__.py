"""The command line: parse, call, print, exit."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

if __package__ in (None, ""):
    sys.stderr.write(
        "verify-variance: this folder is the package itself; "
        "install it (pip install .) and run verify-variance, or python -m verify_variance\n"
    )
    sys.exit(2)

INTERNAL, INTERRUPTED, USAGE = 70, 130, 2


def _interrupted_while_loading(*_: object) -> None:
    os.write(2, b"verify-variance: interrupted; nothing was written\n")
    os._exit(INTERRUPTED)  # an exception inside an import can be lost, or be a traceback


_kept = signal.getsignal(signal.SIGINT)
if sys.argv[0].endswith(("verify-variance", "__main__.py")) and _kept is not signal.SIG_IGN:
    signal.signal(signal.SIGINT, _interrupted_while_loading)

# a million objects load before anything is drawn: looking for cycles among them, and once more at
# the end, would take a fifth of a short run
gc.set_threshold(500_000, 20, 100)
atexit.register(gc.freeze)

from cyclopts import App, CycloptsError, Parameter

from . import __version__
from .reports.arrays import ArrayOptions
from .reports.caption import captioned
from .reports.checked import CheckedCase, RateOptions
from .reports.claims.options import ClaimOptions
from .reports.output import CiOptions, OutputOptions, ReportOptions
from .reports.settings import DEBUG, sources
from .reports.sweeps import SweepOptions
from .stats.audit.options import AuditOptions
from .stats.calibration.options import CalibratedCase, CalibrationOptions, NominalRates
from .stats.checks import InputError
from .stats.long_runs import LongRunOptions, LostProcess
from .stats.request import CaseOptions, DecisionOptions, DeviceOptions
from .stats.training.options import TrainOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from .reports.result import Result

Flat = Parameter(name="*")
Cases = Annotated[CaseOptions, Flat]
Decision = Annotated[DecisionOptions, Flat]
Rates = Annotated[RateOptions, Flat]
Output = Annotated[OutputOptions, Flat]
Devices = Annotated[DeviceOptions, Flat]
Ci = Annotated[CiOptions, Flat]
Report = Annotated[ReportOptions, Flat]
Claims = Annotated[ClaimOptions, Flat]
Sweep = Annotated[SweepOptions, Flat]
Audit = Annotated[AuditOptions, Flat]
Arrays = Annotated[ArrayOptions, Flat]
LongRun = Annotated[LongRunOptions, Flat]
Calibration = Annotated[CalibrationOptions, Flat]
CASES, DECISION, RATES, DEVICES = CaseOptions(), DecisionOptions(), RateOptions(), DeviceOptions()
CLAIMS, AUDIT, ARRAYS = ClaimOptions(), AuditOptions(), ArrayOptions()
CALIBRATION, ONE_CASE, NOMINAL = CalibrationOptions(), CalibratedCase(), NominalRates()
CHECKED_CASE, OUTPUT = CheckedCase(), OutputOptions()
CI, REPORT, SWEEP, LONG_RUN = CiOptions(), ReportOptions(), SweepOptions(), LongRunOptions()
TRAINED = TrainOptions()


def _shown(default: object) -> str | None:
    if isinstance(default, float):
        return f"{default:g}"
    words = " ".join(map(str, default)) if isinstance(default, tuple) else default
    return None if words in ("", None, False) else str(words)


app = App(
    name="verify-variance",
    version=__version__,
    suppress_keyboard_interrupt=False,
    help="Does the attention logit vary as theory says? Simulate, derive, decide with stated error "
    "rates. Exit code: 0 match, 1 mismatch, 2 usage or input error, 3 undecided.",
    default_parameter=Parameter(
        consume_multiple=True, negative=(), show_env_var=False, show_default=_shown
    ),
)
app.config = sources(app)


@app.default
@app.command
def run(
    *,
    cases: Cases = CASES,
    sweep: Sweep = SWEEP,
    decision: Decision = DECISION,
    output: Output = OUTPUT,
    ci: Ci = CI,
    devices: Devices = DEVICES,
    long_run: LongRun = LONG_RUN,
) -> int:
    """Measure and decide whether simulation agrees with theory."""
    output.check()
    ci.check()
    options = vars(cases) | vars(sweep) | vars(decision) | vars(devices) | vars(long_run)
    return _show(_measured(options, output.quiet), output, ci)


def _measured(options: dict[str, Any], quiet: bool) -> Result:
    from . import verify

    return _with_progress(verify, options, quiet)


def _with_progress(
    work: Callable[..., Result], options: dict[str, Any], quiet: bool, *, training: bool = False
) -> Result:
    from .reports.progress import DRAWING, TRAINING, Progress

    with Progress(None if quiet else sys.stderr, TRAINING if training else DRAWING) as progress:
        return work(progress=_unless_interrupted(progress.advance), **options)


@app.command
def predict(*, cases: Cases = CASES, sweep: Sweep = SWEEP, output: Output = OUTPUT) -> int:
    """Show what should come out: exact theory, no sampling."""
    from .reports.sweeps import swept
    from .reports.theory import predicted

    output.check()
    return _show(predicted(swept(sweep.sweep, cases)), output)


@app.command
def plan(
    *,
    cases: Cases = CASES,
    sweep: Sweep = SWEEP,
    decision: Decision = DECISION,
    output: Output = OUTPUT,
) -> int:
    """Draws needed for the chosen rates; with --samples, the gap that they detect."""
    from .reports.sweeps import swept
    from .reports.theory import planned

    output.check()
    return _show(planned(swept(sweep.sweep, cases), decision), output)


@app.command
def check(
    file: str | None = None,
    /,
    *,
    array: str | None = None,
    arrays: Arrays = ARRAYS,
    cases: Annotated[CheckedCase, Flat] = CHECKED_CASE,
    rates: Rates = RATES,
    output: Output = OUTPUT,
    ci: Ci = CI,
) -> int:
    """Judge your own logits (independent, or replicate x query x key), or your q and k.

    Parameters
    ----------
    file
        An npy, npz or csv file: 1-D, or 3-D with the replicate as its first axis.
    array
        Name of the array in an npz file that has several.

    """
    from .reports.arrays import checked_arrays
    from .reports.checked import checked
    from .reports.files import read_logits

    output.check()
    ci.check()
    if file is None or arrays.given:
        return _show(checked_arrays(arrays, rates, file, array, cases.dk), output, ci)
    logits = read_logits(file, array)
    return _show(checked(logits, cases, rates, file=file, array=array), output, ci)


@app.command
def claims(
    name: str,
    /,
    *,
    options: Claims = CLAIMS,
    output: Output = OUTPUT,
    devices: Devices = DEVICES,
) -> int:
    """Judge published figures: exit 1 where a claim is wrong, or not what its file expects.

    Parameters
    ----------
    name
        documents (three articles, of which nothing is expected), example (annotated), or a TOML
        file of claims.

    """
    from . import check_claims
    from .reports.claims.records import checked_claims, claims_text, read_claims

    if options.source:
        _write(claims_text(name).encode(), output.output)
        return 0
    output.check()
    if options.check:
        return _emit(checked_claims(read_claims(name)), output)
    seed = options.chosen_seed()
    result = check_claims(name, only=options.only, seed=seed, platform=devices.platform)
    return _show(result, output)


@app.command
def audit(target: str, /, *, options: Audit = AUDIT, output: Output = OUTPUT, ci: Ci = CI) -> int:
    """Does this code or checkpoint apply the right scale? Exit 1 for a defect, 3 cannot tell.

    Parameters
    ----------
    target
        A function or module as pkg.mod:attr (the current folder is importable), a model of
        transformers as hf:NAME, or a checkpoint (.safetensors, its index, or a folder).

    """
    from . import audit as audited

    output.check()
    ci.check()
    return _show(audited(target, **vars(options)), output, ci)


@app.command
def calibrate(
    *,
    cases: Annotated[CalibratedCase, Flat] = ONE_CASE,
    decision: Annotated[NominalRates, Flat] = NOMINAL,
    options: Calibration = CALIBRATION,
    output: Output = OUTPUT,
    ci: Ci = CI,
    devices: Devices = DEVICES,
) -> int:
    """Are our own error rates what they are said to be? Many runs, counted; exit 1 if not."""
    from . import calibrate as calibrated

    output.check()
    ci.check()
    asked = vars(cases) | vars(decision) | vars(options) | vars(devices)
    return _show(_with_progress(calibrated, asked, output.quiet), output, ci)


@app.command
def train(
    *,
    options: Annotated[TrainOptions, Flat] = TRAINED,
    output: Output = OUTPUT,
    devices: Devices = DEVICES,
) -> int:
    """Train with and without the divisor, all else the same, and judge what is said of it."""
    from . import train as trained

    output.check()
    asked = vars(options) | vars(devices)
    return _show(_with_progress(trained, asked, output.quiet, training=True), output)


@app.command
def report(
    *files: str,
    options: Report = REPORT,
    output: Output = OUTPUT,
    cases: Cases = CASES,
    decision: Decision = DECISION,
    devices: Devices = DEVICES,
) -> int:
    """One page (HTML, offline), one figure or, with --format or another ending, one table.

    Parameters
    ----------
    files
        Records of any command that --format json wrote; without any, what the other options ask
        for is run.

    """
    from .reports.report import reported, saved, tabled

    options.check(output)
    asked = vars(cases) | vars(decision) | vars(devices)
    records = saved(files, sys.argv[1:]) or [_measured(asked, output.quiet).record]
    if options.form(output) in ("page", "figure"):
        _write(reported(records, options.figure, options.style, output.output), output.output)
    else:
        _tell(tabled(records), output)
    return 0


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
    _print(f"{report}\n")
    return 0 if healthy else INTERNAL


def main() -> None:
    """Entry point: every way out has its exit code, and no traceback exits 1."""
    tokens = [_unaliased(token) for token in sys.argv[1:]]
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _interrupted_while_loading):
        signal.signal(signal.SIGINT, _interrupt)
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        _print("")  # --help is still in the buffer
    except CycloptsError as error:
        from .reports.usage import explain

        code = _complain(explain(error, app), USAGE)
    except KeyboardInterrupt as stopped:
        code = _left(
            _complain(f"interrupted; {str(stopped) or 'nothing was written'}", INTERRUPTED)
        )
    except (Exception, SystemExit) as error:  # rich exits where the reader of --help went away
        code = _left(_failed(error))
    sys.exit(code if isinstance(code, int) else 0)


_interrupts: list[int] = []


def _interrupt(number: int, _: object) -> None:
    """Ctrl-C, kept as well: an exception that falls into an import or a callback can be lost."""
    _interrupts.append(number)
    raise KeyboardInterrupt


def _unless_interrupted(advance: Callable[..., None]) -> Callable[..., None]:
    from .simulations.processes import leads

    def checked(*far: Any) -> None:
        if _interrupts:
            raise KeyboardInterrupt
        if leads():
            advance(*far)

    return checked


def _unaliased(token: str) -> str:
    name, equals, value = token.partition("=")
    return f"--n-keys{equals}{value}" if name == "--keys" else token


def _failed(error: BaseException) -> int:
    if isinstance(error, InputError):
        return _complain(str(error), USAGE)
    if isinstance(error, LostProcess):
        return _complain(f"{error}; run the same command again, with --resume it goes on", INTERNAL)
    if isinstance(error, SystemExit | BrokenPipeError):
        return _abandon_stdout(0)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return _complain("stdout could not be written: the device is full", _abandon_stdout(USAGE))
    if os.environ.get(DEBUG):
        import traceback

        traceback.print_exception(error)
    said = f"internal error: {type(error).__name__}: {error}".splitlines()[0]
    return _complain(f"{said} ({DEBUG}=1 shows where)", INTERNAL)


def _left(code: int) -> int:
    """The code, unless other processes would be waited for that will not come."""
    from .simulations.processes import leave_early

    if leave_early():
        os._exit(code)
    return code


def _complain(message: str, code: int) -> int:
    """One line that a terminal only shows: what it would act upon is spelled out."""
    from .stats.shown import printable

    _say(f"verify-variance: {printable(message)}\n")
    return code


def _show(result: Result, output: OutputOptions, ci: CiOptions = CI) -> int:
    """Print and write a result, and what CI reads of it; its exit code."""
    from .reports.ci import ci_exit_code, publish
    from .reports.progress import effort
    from .simulations.processes import leads

    if not leads():
        return ci_exit_code(result.record, ci.undecided)
    _tell(result, output)
    if not output.quiet and (took := effort(result.record)):
        _say(f"{took}\n")
    for line in publish(result.record, ci.junit, ci.undecided):
        _say(f"{line}\n")
    return ci_exit_code(result.record, ci.undecided)


def _tell(result: Result, output: OutputOptions) -> None:
    """The table where it was asked for, and its words under it or on stderr."""
    plain = output.form == "plain"
    result = result.grouped(() if output.form == "json" else output.group_by)
    _emit(result.text() if plain and not output.quiet else result.table(output.form), output)
    if not output.quiet and (words := result.words()) and (output.output or not plain):
        _say(f"{words}\n")


def _emit(text: str, output: OutputOptions) -> int:
    text = captioned(text, output.form, output.caption, output.label)
    _write(f"{text}\n".encode(errors="replace"), output.output)
    return 0


def _write(data: bytes, path: str | None) -> None:
    if path is None:
        _print(data.decode())
    else:
        from .reports.files import write_bytes

        write_bytes(path, data)


def _print(text: str) -> None:
    """Print to stdout; a reader that has gone away (`| head -1`) is no error."""
    if sys.stdout is None:  # closed before we started
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_stdout(0)


def _say(text: str) -> None:
    """Say something on stderr, if anybody listens."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()


def _abandon_stdout(code: int) -> int:
    """Let what is still buffered go nowhere, so that Python can end in peace."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    main()
