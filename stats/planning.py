"""How many draws a verdict needs, and how small a gap a number of draws can see.

What can go wrong: the normal law of a skewed mean fails in the tail long before it fails in the
middle, so a plan that looks only at the standard error can be absurdly small; the skew floor
keeps the tail probability at the planned threshold within a factor of 2 (Edgeworth, first term).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from . import pivots
from .cases import Case, Reference
from .checks import InputError, count, fraction, non_negative, positive
from .laws.samples import distance_constant
from .quantities import JUDGED
from .transforms.stacks import draw_shape
from .weights.layers import layer_of

MAX_ELEMENTS = 2e10  # per cell: under a minute on two cores; fixed, so that runs agree anywhere
ELEMENTS_PER_SECOND = 5e8  # normals on two ordinary cores; for time estimates only
LEAST_ROWS = 10_000  # below it the law of a row statistic's mean is not trusted at 1e-6
UNKNOWN_SPREAD_DRAWS = 100_000  # asked for where no exact replicate_sd says what is needed
NUMERIC_FLOOR = 1e-6  # relative error of float32 products summed in blocks, with a margin of 10


@dataclass(frozen=True, slots=True)
class Rates:
    """Error rates of a decision: chosen by the user, stated in every verdict.

    `false_alarm`: probability that a run calls a mismatch although every theory is exact, whole
    table. `power`: probability that a gap as large as the tolerance is called a mismatch.
    `tolerance`: None means 1 % for logit moments and 2 % for row statistics. `within`: the theory
    is an approximation, and only a gap beyond the tolerance is a mismatch.
    """

    false_alarm: float = 1e-6
    power: float = 0.999
    tolerance: float | None = None
    within: bool = False

    def __post_init__(self) -> None:
        checked = {
            "false_alarm": fraction("false_alarm", self.false_alarm, below=0.5),
            "power": fraction("power", self.power),
            "tolerance": None if self.tolerance is None else positive("tolerance", self.tolerance),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)  # text such as "1e-6" becomes its number
        if self.power < 0.5:
            raise InputError(f"power must be at least 0.5, got {self.power}")

    def z_holm(self, tests: int) -> float:
        """Two-sided normal threshold of the smallest p-value among `tests` (Bonferroni, Holm)."""
        return float(-ndtri(self.false_alarm / (2 * max(tests, 1))))

    @property
    def z_power(self) -> float:
        """Normal quantile of the power."""
        return float(ndtri(self.power))

    def tolerance_of(self, quantity: str) -> float:
        """The tolerance in use for a quantity."""
        if self.tolerance is not None:
            return self.tolerance
        return 0.02 if JUDGED[quantity].of_rows else 0.01


def draws_needed(
    replicate_sd: float,
    unit: float,
    tolerance: float,
    *,
    tests: int = 1,
    false_alarm: float = 1e-6,
    power: float = 0.999,
    replicate_skew: float | None = None,
) -> int:
    """Replicates after which a gap of `tolerance` is called a mismatch with probability `power`.

    `N = ((z_holm + z_power) replicate_sd / (unit tolerance))^2`, and not less than the skew floor
    `(replicate_skew z_holm^3 / (6 ln 2))^2`. Everything is dimensionless but `replicate_sd` and
    `unit`, which are in the estimate's unit.

    Examples:
        The standard deviation of a normal dot product over 64 elements, to 1 %, in a table of 4
        (its influence function has standard deviation `sqrt(2 + 6/d_k) / 2` of itself):

        >>> draws_needed((2 + 6 / 64) ** 0.5 / 2, 1.0, 0.01, tests=4)
        356087

    """
    rates = Rates(false_alarm, power, tolerance)
    z = rates.z_holm(tests)
    sd = non_negative("replicate_sd", replicate_sd)
    by_power = ((z + rates.z_power) * sd / (positive("unit", unit) * tolerance)) ** 2
    return math.ceil(max(by_power, skew_floor(replicate_skew, z), 2))


def skew_floor(replicate_skew: float | None, z: float) -> float:
    """Draws from which the tail at `z` is within a factor 2: `(skew z^3 / (6 ln 2))^2`."""
    return 0.0 if replicate_skew is None else (replicate_skew * z**3 / (6 * math.log(2))) ** 2


def detectable_gap(
    replicate_sd: float,
    unit: float,
    draws: int,
    *,
    tests: int = 1,
    false_alarm: float = 1e-6,
    power: float = 0.999,
) -> float:
    """Smallest gap called a mismatch with probability `power`, as a fraction of `unit`.

    `(z_holm + z_power) replicate_sd / (unit sqrt(N))`.

    Examples:
        >>> round(detectable_gap((2 + 6 / 64) ** 0.5 / 2, 1.0, 10_000), 4)
        0.0577

    """
    rates = Rates(false_alarm, power)
    sd = non_negative("replicate_sd", replicate_sd)
    root = positive("unit", unit) * math.sqrt(count("draws", draws))
    return (rates.z_holm(tests) + rates.z_power) * sd / root


def detectable_by(
    quantity: str, reference: Reference, draws: int, rates: Rates, tests: int, sample_sd: float
) -> float:
    """The detectable gap of a row; the sample's sd stands in where the reference has none.

    Where the influence function vanishes (x = mu +- sigma) what is left is of order 1/N: with
    `z = z_holm + z_power` the std gap is `z^2 / (2 N)` and the kurtosis' `4 z^2 / N`. Any other
    constant is right to the numeric floor. A share's is that of its binomial test.
    """
    z = rates.z_holm(tests) + rates.z_power
    if reference.at is not None:
        reference = reference.at(draws)
    if reference.sample_law is not None:
        tail = rates.false_alarm / (2 * max(tests, 1))
        return reference.sample_law.detectable(tail, rates.power) / reference.unit
    if JUDGED[quantity].test == "share":
        low, high = pivots.bounds(reference)
        tail = rates.false_alarm / (2 * max(tests, 1))
        gap = pivots.share_detectable(low, high, draws, tail, rates.power)
        return gap / reference.unit
    if reference.replicate_sd == 0.0:
        factor = {"variance": 0.5, "std": 0.5, "kurtosis": 4.0}.get(quantity)
        return NUMERIC_FLOOR if factor is None else factor * z**2 / draws
    sd = sample_sd if reference.replicate_sd is None else reference.replicate_sd
    return z * sd / (reference.unit * math.sqrt(draws))


def draws_floor(quantity: str, reference: Reference, z: float) -> float:
    """Draws below which the normal law of a row's mean is not trusted at its threshold z."""
    least = LEAST_ROWS if JUDGED[quantity].of_rows else 0
    return max(least, skew_floor(reference.replicate_skew, z))


def predicted_seconds(elements: float) -> float:
    """Time that drawing so many random elements takes on two ordinary cores."""
    return elements / ELEMENTS_PER_SECOND


def shown_duration(seconds: float) -> str:
    """A duration in the unit that suits it.

    Examples:
        >>> shown_duration(0.3), shown_duration(90), shown_duration(1e10)
        ('1 s', '90 s', '320 years')

    """
    for size, name in ((31_557_600, "years"), (86_400, "days"), (3600, "hours"), (120, "minutes")):
        if seconds >= size:
            return f"{_rounded(seconds / (60 if size == 120 else size)):,g} {name}"
    return f"{max(round(seconds), 1)} s"


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")


def elements_per_draw(case: Case) -> int:
    """Random elements behind one replicate: one query and its keys, of d_k elements each.

    With weights, the tokens of d_model elements each, and the fresh weights.
    """
    if case.transform:
        queries, keys = draw_shape(case)
        return keys if case.d_k is None else case.d_k * (queries + keys)
    keys = case.n_keys or 1
    if case.weights is not None:
        layer = layer_of(case)
        fresh = (case.ensemble == "weights") * layer.d_k * (1 if layer.tied else 2)
        tokens = 1 if case.pair == "diagonal" else 1 + keys
        return layer.d_model * (fresh + tokens)
    return keys if case.d_k is None else case.d_k * (1 + keys)


def plan_draws(
    case: Case,
    rows: Sequence[tuple[str, Reference]],
    rates: Rates,
    tests: int,
    max_elements: float = MAX_ELEMENTS,
) -> tuple[int, bool]:
    """Draws of a cell, the most that any of its rows asks for, and whether the cap cut them.

    Cap beats floor beats tolerance.
    """
    wanted = max(_row_draws(quantity, reference, rates, tests) for quantity, reference in rows)
    cap = max(int(max_elements // elements_per_draw(case)), 2)
    return min(wanted, cap), wanted > cap


def _row_draws(quantity: str, reference: Reference, rates: Rates, tests: int) -> int:
    tail = rates.false_alarm / (2 * max(tests, 1))
    if quantity == "law" and reference.kind != "none":
        gap = distance_constant(tail, rates.power) / rates.tolerance_of(quantity)
        return math.ceil(gap**2)
    if JUDGED[quantity].edge and reference.kind != "none":
        # after which a tail that is missing altogether is called: (1 - p)^N <= tail
        least = pivots.bounds(reference)[1]
        return LEAST_ROWS if least <= 0 else math.ceil(math.log(tail) / math.log1p(-least))
    if not reference.replicate_sd:  # unknown, or a constant that one look decides
        if reference.replicate_sd is None:
            return UNKNOWN_SPREAD_DRAWS
        once = detectable_by(quantity, reference, 1, rates, tests, 0.0)  # falls like 1 / N
        by_power = once / rates.tolerance_of(quantity) if once > NUMERIC_FLOOR else 0.0
        return max(LEAST_ROWS, math.ceil(by_power))
    needed = draws_needed(
        reference.replicate_sd,
        reference.unit,
        rates.tolerance_of(quantity),
        tests=tests,
        false_alarm=rates.false_alarm,
        power=rates.power,
    )
    return max(needed, math.ceil(draws_floor(quantity, reference, rates.z_holm(tests))))
