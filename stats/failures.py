"""What a failed assertion says: expected, measured, z, the rates, and the likely cause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .causes import Cause, likely_causes

if TYPE_CHECKING:
    from .decision import Row
    from .planning import Rates

FALSE_ALARM = 1e-9  # of one assertion: a suite of a thousand errs once in a million runs
_TO_STD = {"variance": 0.5, "std": 1.0, "mean_abs": 1.0}  # power that makes a ratio one of stds
_LEAST_ROOM, _MOST_ROOM = 0.02, 0.1  # how near a cause must be, whatever the error bar


class InconclusiveError(AssertionError):
    """The samples are too few to tell: neither a pass nor a mismatch. Give more of them."""


def lines(headline: str, entries: dict[str, str]) -> str:
    """A headline and its entries, one a line, in two columns.

    Examples:
        >>> print(lines("the scale is wrong", {"expected": "1", "": "", "z": "9"}))
        the scale is wrong
          expected     1
          z            9

    """
    return "\n".join([headline, *(f"  {k:<12} {v}" for k, v in entries.items() if v)])


def suspects(causes: Sequence[Cause]) -> str:
    """The two likeliest causes as one question, or "" where none is known.

    Examples:
        >>> suspects(likely_causes(8.0, 64))
        'sqrt(d_k) = 8 too large: a divisor sqrt(d_k) that is missing?'

    """
    return " or ".join(str(cause) for cause in causes[:2])


def mismatch(row: Row, rates: Rates, scale: str | None, known: Sequence[Cause] = ()) -> str:
    """The words for samples that contradict their reference.

    `known` are causes read off the arguments; otherwise the ratio names them.
    """
    assert row.estimate is not None
    measured = f"{_subject(row)} {row.estimate.value:.4g}"
    said = f"{measured} where {_expected(row)} was expected"
    return lines(f"{said}: {_cause(row, scale, known)}", _found(row, rates))


def inconclusive(row: Row, rates: Rates, scale: str | None, known: Sequence[Cause] = ()) -> str:
    """The words for samples that are too few, with the number that would do."""
    assert row.estimate is not None
    assert row.detectable is not None
    assert row.p_value is not None
    assert rates.tolerance is not None
    reach = rates.z_power * row.detectable / (rates.z_power + rates.z_holm(1))
    # within: the interval's arm should be half the tolerance; else the detectable gap all of it
    times = (2 * reach if rates.within else row.detectable) / rates.tolerance
    few = times > 1 + 1e-9
    needed = _rounded_up(row.estimate.draws * (times**2 if few else 4))
    seen = f"a gap of {row.detectable:.2g} of the {_unit(row)} at best"
    entries = _found(row, rates) | {
        "why": f"these samples show {seen}" if few else "the interval reaches past the tolerance",
        "cause": _cause(row, scale, known) if row.p_value <= rates.false_alarm else "",
        "way out": f"give {needed} independent replicates, or raise tolerance "
        f"(now {rates.tolerance:g})",
    }
    return lines(f"the {_subject(row)} is inconclusive: too few samples to tell", entries)


def _found(row: Row, rates: Rates) -> dict[str, str]:
    assert row.estimate is not None
    assert row.p_value is not None
    ratio = _ratio_of_stds(row)
    p = f"p = {row.p_value:.2g}" if row.p_value else "p < 1e-300"
    what = "a std within the tolerance" if rates.within else "an exact theory"
    return {
        "expected": f"{_expected(row)} = {row.reference.formula}"
        + (f", its std within {rates.tolerance:g}" if rates.within else ""),
        "measured": f"{row.estimate.value:.6g} +- {row.estimate.mcse:.2g}, from {_counted(row)}",
        "std": "" if ratio is None else f"{ratio:.4g} times the expected one",
        "z": f"{row.z:.4g}, {p}",
        "false alarm": f"{rates.false_alarm:g} ({what} fails this often)",
    }


def _cause(row: Row, scale: str | None, known: Sequence[Cause]) -> str:
    assert row.estimate is not None
    causes, ratio = list(known), _ratio_of_stds(row)
    if ratio is not None and not known:
        error = row.estimate.mcse * _TO_STD[row.quantity] / row.estimate.value
        room = min(max(_LEAST_ROOM, 3 * error), _MOST_ROOM)
        causes = likely_causes(ratio, row.case.d_k, scale=scale, room=room)
    return suspects(causes) or "are the laws, sigmas and means as assumed?"


def _subject(row: Row) -> str:
    return "mean of the samples" if row.quantity == "mean" else row.quantity


def _unit(row: Row) -> str:
    return "std" if row.quantity in ("variance", "std") else "unit"


def _expected(row: Row) -> str:
    value = row.reference.value
    return f"{value:.6g}" if isinstance(value, float) else f"{value}"


def _counted(row: Row) -> str:
    assert row.estimate is not None
    each = row.estimate.logits_per_draw
    matrices = f" of {each} logits each" if each > 1 else ""
    return f"{row.estimate.draws} independent replicates{matrices}"


def _ratio_of_stds(row: Row) -> float | None:
    """Measured over expected standard deviation, where the quantity says it."""
    assert row.estimate is not None
    power, value = _TO_STD.get(row.quantity), row.reference.value
    if power is None or not isinstance(value, float) or value <= 0 or row.estimate.value <= 0:
        return None
    return math.pow(row.estimate.value / value, power)


def _rounded_up(number: float) -> int:
    step: int = 10 ** max(math.floor(math.log10(number)) - 1, 0)
    return math.ceil(number / step) * step
