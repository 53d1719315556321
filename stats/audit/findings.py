"""Findings: what each check of an audit compared, what came out, and what it means.

A check of an exact thing (a factor, an exponent) carries its own verdict: nothing is random there,
and `allowed` is what rounding may do. A check of something drawn hands over a `Row` that
`stats.decision` has decided, and takes its verdict from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..decision import Row, Verdict

Kind = Literal["callable", "module", "checkpoint", "arrays"]
ORDER: tuple[Verdict, ...] = ("mismatch", "undecided", "match", "measured")


@dataclass(frozen=True, slots=True)
class Finding:
    """One check at one place.

    `expected` and `measured` are numbers in the unit of the check; `allowed` is how far apart, as
    a fraction of `expected`, they may be. `said` is one sentence for people, "" where the numbers
    say it all. `cause` is the slug of a known mistake or convention, None where none is known.
    `place` names numbers of the place: d_k, layer, head.
    """

    check: str
    where: str
    verdict: Verdict
    said: str = ""
    cause: str | None = None
    expected: float | None = None
    measured: float | None = None
    allowed: float | None = None
    place: Mapping[str, object] = field(default_factory=dict)
    row: Row | None = None


def decided_finding(
    check: str, where: str, row: Row, said: str = "", cause: str | None = None, **place: object
) -> Finding:
    """The finding of a row that `stats.decision` has decided.

    Raises ValueError for a row without a verdict: a finding has one.
    """
    if row.verdict is None or row.estimate is None:
        raise ValueError(f"the row of {row.quantity} is not decided; call stats.decision.decide")
    value = row.reference.value
    expected = value if isinstance(value, float | int) else None
    measured = row.estimate.value
    return Finding(
        *(check, where, row.verdict, said, cause),
        *(expected, measured, row.tolerance, place, row),
    )


def judged(
    check: str,
    where: str,
    right: bool,
    said: str = "",
    cause: str | None = None,
    *,
    expected: float | None = None,
    measured: float | None = None,
    allowed: float | None = None,
) -> Finding:
    """A match where `right`; else a mismatch, with what it says and its cause.

    Examples:
        >>> judged("row sums", "16 keys", True, "rows sum to 2", measured=1.0).said
        ''

    """
    if right:
        return Finding(check, where, "match", "", None, expected, measured, allowed)
    return Finding(check, where, "mismatch", said, cause, expected, measured, allowed)


@dataclass(frozen=True, slots=True)
class Audit:
    """All findings about a target, and facts about it such as the versions of what was run."""

    target: str
    kind: Kind
    findings: tuple[Finding, ...]
    facts: Mapping[str, str] = field(default_factory=dict)
    expected: str | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst: mismatch if any finding is one, else undecided, else match, else measured.

        Examples:
            >>> found = Finding("factor", "d_k = 64", "mismatch", expected=1 / 8, measured=1.0)
            >>> Audit("attend", "callable", (found,)).verdict
            'mismatch'

        """
        return worst(finding.verdict for finding in self.findings)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that decides over all: the first of `ORDER` that is there.

    Examples:
        >>> worst(["match", "undecided", "measured"])
        'undecided'

    """
    there = set(verdicts)
    return next((verdict for verdict in ORDER if verdict in there), "measured")
