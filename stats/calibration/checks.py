"""What is checked of our own decisions, as rows that `stats.decision` judges like any other.

Over independent runs of a correct theory: how often the table calls a mismatch, and whether each
test's z is standard normal and its p-value uniform, wrong on either side. Over the same runs with
a planted gap: how often it is called, and how often it is called a match.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from ..cases import Case, Reference
from ..decision import Row, decide, distinct_tests
from ..moments import Moments
from ..pivots import two_sided
from ..planning import Rates
from ..quantities import JUDGED, QUANTITIES, Estimate
from .laws import KolmogorovLaw, distance_from_uniform

OUR_RATES = Rates()  # of the verdict on ourselves


@dataclass(frozen=True, slots=True)
class Check(Row):
    """A property of our decisions, measured over runs: each is a test of its own.

    `case` is that of the rows it is about; `where` says which of them.
    """

    check: str = ""
    where: str = ""
    planted: float | None = None

    @property
    def test(self) -> tuple[object, ...]:
        """Its own name and place: no two checks have the same deviation."""
        return self.check, self.where, self.planted


def judged_checks(checks: Sequence[Check]) -> list[Check]:
    """The checks with their verdicts, one family, each at the gap that the runs detect."""
    return cast("list[Check]", decide(checks, OUR_RATES, samples_only=True))


def share_check(check: str, where: str, case: Case, count: int, runs: int, stated: Reference,
                planted: float | None = None) -> Check:  # fmt: skip
    """How many of the runs did something, against the share that is stated."""
    share = count / runs
    estimate = Estimate(runs, share, math.sqrt(share * (1 - share)))
    return Check(
        *(case, "share_of_runs", stated, estimate), check=check, where=where, planted=planted
    )


def stated_share(low: float | None, high: float | None, formula: str) -> Reference:
    """The reference of a share: a value, an interval that it lies in, or none.

    Examples:
        >>> stated_share(0.999, 1.0, "at least the power").value
        (0.999, 1.0)

    """
    if low is None or high is None:
        return Reference(None, 1.0, None, None, "none", formula)
    if low == high:
        return Reference(low, 1.0, math.sqrt(low * (1 - low)), None, "closed form", formula)
    return Reference((low, high), 1.0, None, None, "bracket", formula)


def stated_false_alarm(rows: Sequence[Row], rates: Rates) -> Reference:
    """What the false-alarm rate of a table is, or lies between, when every theory is exact.

    With `m` tests at `a / m` each: `1 - (1 - a/m)^m` where they share no draws, between `a / m`
    and `a` however they depend (Bonferroni), and from 0 where every test is conservative.

    Examples:
        >>> from verify_variance.stats.predict import predict
        >>> rows = [Row(Case(d), "std", predict(Case(d), "std")) for d in (16, 64)]
        >>> round(stated_false_alarm(rows, Rates(0.01)).value, 6)
        0.009975

    """
    compared = [row for row in rows if row.reference.kind != "none"]
    tests = {row.test: row for row in compared}
    m, each = distinct_tests(compared), rates.false_alarm / max(distinct_tests(compared), 1)
    exact = [has_exact_law(row, rates) for row in tests.values()]
    if all(exact) and len({row.case.cell() for row in compared}) == m:
        value = -math.expm1(m * math.log1p(-each))
        return stated_share(value, value, "1 - (1 - a/m)^m: m independent tests")
    low = each if any(exact) else 0.0
    return stated_share(low, rates.false_alarm, "at most a, in any dependence")


def has_exact_law(row: Row, rates: Rates) -> bool:
    """Whether the row's z is meant to be standard normal, not a bound or full of atoms."""
    reference = row.reference
    return (
        isinstance(reference.value, float | int)
        and not (rates.within or reference.rounded)
        and QUANTITIES[row.quantity].test in ("normal", "chi-square")
        and reference.sample_law is None
        and reference.at is None
        and reference.replicate_sd != 0.0
    )


def law_checks(row: Row, where: str, z_values: Sequence[float]) -> list[Check]:
    """Mean and spread of z, and the distance of its p-values from uniform: both sides of each."""
    z = Moments.of(z_values, 4)
    p_values = [two_sided(value) for value in z_values]
    n = len(p_values)
    distance = Estimate(n, distance_from_uniform(p_values), 0.5)
    found: list[tuple[str, str, Reference, Estimate]] = [
        (
            "mean of z",
            "mean",
            Reference(0.0, 1.0, 1.0, 0.0, "closed form", "0"),
            JUDGED["mean"].estimate(z),
        ),
        (
            "spread of z",
            "std",
            Reference(1.0, 1.0, math.sqrt(0.5), None, "closed form", "1, chi-square, both tails"),
            JUDGED["std"].estimate(z),
        ),
        (
            "p uniform",
            "law",
            Reference(
                *(0.0, 1.0, None, None, "closed form", "Kolmogorov's law, both tails"),
                sample_law=KolmogorovLaw(n),
            ),
            distance,
        ),
    ]
    return [Check(row.case, q, r, e, check=name, where=where) for name, q, r, e in found]
