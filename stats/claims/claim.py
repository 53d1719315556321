"""A published figure as data: what was said, of which quantity, in which setting.

A claim has tests, and all of them must hold. What a test says of its quantity is a `Figure`; how
many digits it was given with decides what counts as the same number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, get_args

FigureKind = Literal[
    "claimed", "about", "limit", "at_least", "at_most", "between", "differs_from", "order"
]
FIGURES: tuple[str, ...] = get_args(FigureKind)
ORDERS = ("greater", "less")
VERDICTS = (
    "confirmed",
    "refuted",
    "inconsistent",
    "not reproducible",
    "qualitative",
    "undecided",
    "needs training",
)
WRONG = ("refuted", "inconsistent")
OPEN = ("not reproducible", "undecided", "needs training")
ANY = "any"
"""What is expected of a claim whose outcome does not matter."""

FALSE_ALARM = 1e-3
"""Rate at which a simulated figure that is right is called refuted, and a measured one wrong."""

FALSE_ALARM_Z = 3.2905267314919255
"""Two-sided normal deviate of `FALSE_ALARM`."""

Setting = Mapping[str, Any]
_ROUNDING = 1e-9  # so that 0.375 may be given as 0.37 and as 0.38


@dataclass(frozen=True, slots=True)
class Figure:
    """What is said of a value: a number to its digits, a bound, an interval or an order.

    `values` and `units` are alike in length; a unit is one in the last digit given.
    """

    kind: FigureKind
    values: tuple[float, ...] = ()
    units: tuple[float, ...] = ()
    order: str = ""
    text: str = ""

    @property
    def slack(self) -> float:
        """How far off a number may be, in units of its last digit."""
        return {"claimed": 0.5, "about": 1.0, "limit": 0.5}.get(self.kind, 0.0)

    def interval(self, i: int) -> tuple[float, float]:
        """The values that the i-th number stands for.

        Examples:
            >>> [round(end, 4) for end in Figure("claimed", (3.98,), (0.01,)).interval(0)]
            [3.975, 3.985]

        """
        if self.kind == "at_least":
            return self.values[0], math.inf
        if self.kind == "at_most":
            return -math.inf, self.values[0]
        if self.kind == "between":
            return self.values[0], self.values[1]
        value, unit = self.values[i], self.units[i]
        reach = unit * self.slack
        rounding = _ROUNDING * max(unit, abs(value)) if reach else 0.0
        above = unit * (1 - _ROUNDING) if self.kind == "limit" else reach
        return value - reach - rounding, value + above + rounding


@dataclass(frozen=True, slots=True)
class Reading:
    """One meaning that a claim can have: what it changes in the setting, or the quantity."""

    name: str
    setting: Setting
    quantity: str | None = None


@dataclass(frozen=True, slots=True)
class Test:
    """One thing that can be computed and compared with what was said of it.

    With `versus` the value is the ratio of the quantity in `setting` to that in `versus`.
    `draws` is the number of independent draws behind the figure, where it was simulated.
    `universal`: the claim is meant for every reading, not for some one of them.
    """

    __test__ = False  # not pytest's

    quantity: str
    figure: Figure
    setting: Setting = field(default_factory=dict)
    versus: Setting | None = None
    draws: int | None = None
    readings: tuple[Reading, ...] = ()
    universal: bool = False
    qualitative: bool = False


@dataclass(frozen=True, slots=True)
class Free:
    """Another claim that must hold for the same value of one free parameter of the setting."""

    claim: str
    parameter: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Claim:
    """A published statement, in our words, with what decides it.

    `expect` is a verdict, `ANY`, or None where the claim must not be wrong.

    Without tests it says why: `training` (only a training run could tell) or `missing` (what the
    source leaves out). `experiment` names the statement of `stats.training` that a training
    experiment has judged. `premise` names the claim of the same file that it starts from; `joint`
    names simulated figures that are judged together, an exploratory look.
    """

    id: str
    source: str
    statement: str
    tests: tuple[Test, ...] = ()
    expect: str | None = None
    training: str = ""
    experiment: str = ""
    missing: str = ""
    premise: str | None = None
    consistent: Free | None = None
    joint: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training experiment says of a statement: the verdict's word, a figure, and why."""

    word: str
    computed: str
    why: str


@dataclass(frozen=True, slots=True)
class ClaimFile:
    """The claims of one file and the documents that they come from."""

    name: str
    documents: Mapping[str, str]
    claims: tuple[Claim, ...]


def last_digit(value: Decimal, digits: int | None = None) -> float:
    """One unit in the last digit of a number as it was written, or of `digits` significant ones.

    Examples:
        >>> last_digit(Decimal("3.980")), last_digit(Decimal("2.6e10")), last_digit(Decimal(400), 1)
        (0.001, 1000000000.0, 100.0)

    """
    exponent = int(value.as_tuple().exponent)
    if digits is not None:
        exponent = value.adjusted() - digits + 1
    return float(f"1e{exponent}")
