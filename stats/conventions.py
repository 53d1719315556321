"""Scale conventions: what multiplies q.k before the softmax, as plain data with sources."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .cases import Case
from .checks import InputError, magnitude, named, number


@dataclass(frozen=True, slots=True)
class Scale:
    """One convention: its factor as a function of the case and its parameter."""

    formula: str
    source: str
    factor: Callable[[Case, float], float]
    parameter: str | None = None
    needs: tuple[str, ...] = ()


def _dimension(case: Case) -> int:
    assert case.d_k is not None  # scale_factor has checked the needs
    return case.d_k


SCALES: dict[str, Scale] = {
    "none": Scale("1", "Luong attention; T5 folds the scale into W_q", lambda case, _: 1.0),
    "sqrt-dk": Scale(
        "1 / sqrt(d_k)",
        "Vaswani et al. 2017, section 3.2.1",
        lambda case, _: 1.0 / math.sqrt(_dimension(case)),
        needs=("d_k",),
    ),
    "dk": Scale(
        "1 / d_k",
        "muP: Yang et al. 2022, Tensor Programs V",
        lambda case, _: 1.0 / _dimension(case),
        needs=("d_k",),
    ),
    "constant": Scale(
        "1 / C", "a fixed temperature", lambda case, c: 1.0 / c, parameter="C > 0, the divisor"
    ),
    "power": Scale(
        "d_k^-P",
        "interpolates none (0), sqrt-dk (0.5) and dk (1)",
        lambda case, p: float(_dimension(case)) ** -p,
        parameter="P, the exponent",
        needs=("d_k",),
    ),
}


def scale_factor(case: Case) -> float:
    """The factor that multiplies q.k under the case's scale.

    Raises InputError for an unknown scale, a wrong parameter, or a missing need.

    Examples:
        >>> scale_factor(Case(d_k=64, scale="sqrt-dk"))
        0.125

    """
    entry, parameter = parse_scale(case.scale)
    for need in entry.needs:
        if getattr(case, need) is None:
            raise InputError(
                f"scale {case.scale} needs {need}, which this case has not; "
                "use --scale none or constant:C"
            )
    return entry.factor(case, parameter)


def parse_scale(text: str) -> tuple[Scale, float]:
    """The convention that `text` names and its parameter (nan where it takes none)."""
    name, given = named("scale", text, SCALES, lambda n: SCALES[n].parameter)
    entry = SCALES[name]
    if entry.parameter is None:
        return entry, math.nan
    if given is None:
        raise InputError(f"scale {name} needs its parameter ({entry.parameter}); write {name}:2")
    if name == "power":
        return entry, number("scale power's exponent", given, "from -4 to 4", lambda x: abs(x) <= 4)
    return entry, magnitude(f"scale {name}'s parameter", given)
