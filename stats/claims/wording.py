"""Claims in words: what was said, what is so, and one line of why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..checks import InputError
from ..predict import predict
from ..quantities import GROUPS, QUANTITIES
from ..shown import short
from .claim import FALSE_ALARM_Z, Test
from .values import Computed

if TYPE_CHECKING:
    from .outcomes import Outcome

_SIGNS = {"about": "about ", "at_least": ">= ", "at_most": "<= ", "differs_from": "not "}
_SIZES = ("variance", "std", "mean_abs")  # logit quantities that are mistaken for one another


def said(test: Test) -> str:
    """What a test's figure says, in a table's cell.

    Examples:
        >>> from .claim import Figure
        >>> said(Test("std", Figure("about", (8.0,), (1.0,), text="8")))
        'about 8'

    """
    figure = test.figure
    if figure.kind == "order":
        return "ratio > 1" if figure.order == "greater" else "ratio < 1"
    if figure.kind == "between":
        return figure.text.strip("[]").replace(", ", " to ")
    is_ratio = test.versus is not None and test.quantity != "rows_to_tell"
    ratio = "ratio " if is_ratio else ""
    return f"{ratio}{_SIGNS.get(figure.kind, '')}{figure.text}"


def shown(computed: Sequence[Computed], units: Sequence[float] = ()) -> str:
    """Computed values in a table's cell: one, its two ends, a list, or the range over cases.

    They are shown to one digit beyond the claim's last, whose `units` these are.
    """
    unit = min(units, default=0.0)
    lowest = min(computed, key=lambda c: float(c.low.min()))
    highest = max(computed, key=lambda c: float(c.high.max()))
    if len(computed) == 1 and computed[0].low.ndim:
        return f"[{', '.join(_to_digits(x, unit) for x in computed[0].low.tolist())}]"
    low = _value(float(lowest.low.min()), lowest.error, unit)
    high = _value(float(highest.high.max()), highest.error, unit)
    return low if low == high else f"{low}..{high}"


def _value(value: float, error: float, unit: float) -> str:
    """`3.52(4)`: the error in the last digit shown."""
    if not error:
        return _to_digits(value, unit)
    place = math.floor(math.log10(error))
    if not -6 <= place <= 0:
        return f"{short(value)} +- {short(error, 1)}"
    return f"{value:.{-place}f}({round(error / 10.0**place)})"


def _to_digits(x: float, unit: float) -> str:
    """To at least 4 significant digits, at most 9, and one beyond the unit."""
    if not unit or not x or not math.isfinite(x):
        return short(x)
    beyond = math.floor(math.log10(abs(x))) - math.floor(math.log10(unit)) + 2
    return short(x, min(max(beyond, 4), 9))


def why_of_test(test: Test, outcomes: Sequence[Outcome], verdict: str) -> str:
    """The line that says why one test came out as it did."""
    parts = []
    if len(outcomes) > 1:
        parts.append("; ".join(f"{o.reading}: {_with_exact(o)}" for o in outcomes))
        if "post hoc" in verdict:
            parts.append("picking the reading that fits is post hoc")
    outcome = outcomes[0]
    if len(outcomes) == 1 and outcome.computed[0].exact is not None:
        parts.append(f"exact {short(outcome.computed[0].exact)}")
    if outcome.p_value is not None:
        gap = f"{outcome.z:+.2f} standard errors of {test.draws} draws"
        parts.append(f"{gap}, p = {outcome.p_value:.2g}")
    if len(outcomes) == 1 and (test.draws or verdict.startswith("refuted")):
        parts.append(_off(outcome))
    if verdict.startswith("refuted"):
        parts += [_neighbour(test, outcome) if len(outcomes) == 1 else "", _chance(test, outcomes)]
    elif test.figure.kind == "limit" and (outcome.last_digits or 0) <= -0.5:
        parts.append("truncated to whole units")
    return "; ".join(filter(None, parts))


def _off(outcome: Outcome) -> str:
    off = outcome.last_digits
    return "" if off is None or abs(off) > 999 else f"off by {off:+.3g} in the last digit"


def _with_exact(outcome: Outcome) -> str:
    exact = outcome.computed[0].exact
    return shown(outcome.computed) + ("" if exact is None else f" (exact {short(exact)})")


def _chance(test: Test, outcomes: Sequence[Outcome]) -> str:
    """In how few draws the gap to the nearest reading would be chance, where none are stated."""
    if test.draws is not None or test.versus is not None or test.figure.kind != "claimed":
        return ""
    if max(test.figure.units) >= 1:  # a whole number is no average of draws
        return ""
    needed = []
    for outcome in outcomes:
        reference = outcome.computed[0].reference
        if len(outcome.computed) > 1 or reference is None or not reference.replicate_sd:
            return ""
        low, high = test.figure.interval(0)
        value = float(outcome.computed[0].low)
        gap = max(low - value, value - high)
        needed.append((FALSE_ALARM_Z * reference.replicate_sd / gap) ** 2 if gap > 0 else math.inf)
    most = max(needed)
    if not 2 <= most < math.inf:
        return ""
    return f"chance could do this in at most {math.floor(most)} draws; none are stated"


def _neighbour(test: Test, outcome: Outcome) -> str:
    """`8.2 is near the std, 8, not the mean_abs, 6.358`, or "" where none is within 5 %."""
    computed, quantity, figure = outcome.computed[0], test.quantity, test.figure
    if figure.kind not in ("claimed", "about") or test.versus is not None or computed.low.ndim:
        return ""
    if computed.case is None or quantity not in QUANTITIES:
        return ""
    group = QUANTITIES[quantity].group
    found = []
    for other in _SIZES if group == "logits" else GROUPS[group]:
        theory = _theory(computed, other)
        if other != quantity and theory and abs(figure.values[0] / theory - 1) < 0.05:
            found.append((abs(figure.values[0] / theory - 1), other, theory))
    if not found:
        return ""
    _, other, theory = min(found)
    near = f"{figure.text} is near the {other}, {short(theory)}"
    return f"{near}, not the {quantity}, {shown([computed])}"


def _theory(computed: Computed, quantity: str) -> float | None:
    assert computed.case is not None
    try:
        value = predict(computed.case, quantity).value
    except InputError:
        return None
    return value if isinstance(value, float) else None
