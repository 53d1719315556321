"""Fewer queries than keys, as in cross-attention and in decoding with a cache.

A query must weigh the keys as it does among as many queries as keys: at its own place counted from
the first key, or from the last one, as in a cache. Without masks and positions both are the same;
with them it shows to which end queries are aligned.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...stats.audit.findings import Finding
from ...stats.decision import Verdict
from .black_box import Array
from .compared import Compared, compared, odd_factor
from .positions import many_keys
from .scaling import first_line
from .subject import N_KEYS, Subject


def _nothing() -> Array:
    return np.zeros((0, 0, 0))


@dataclass(frozen=True, slots=True)
class _Few:
    """Some queries on more keys: their weights, and those of the same queries at the two ends.

    `error` is what the function raised, and then there are no weights. `given` names an argument.
    """

    subject: Subject
    queries: int
    keys: int
    given: str
    error: str = ""
    seen: Array = field(default_factory=_nothing)
    first: Array = field(default_factory=_nothing)
    last: Array = field(default_factory=_nothing)

    @property
    def counted(self) -> str:
        queries = "1 query" if self.queries == 1 else f"{self.queries} queries"
        return f"{queries} and {self.keys} keys"

    @property
    def met(self) -> str:
        """What was given, in a sentence."""
        return ", ".join(filter(None, (self.given, self.counted)))

    @property
    def room(self) -> float:
        """How far logarithms of weights may be apart."""
        return 10 * self.subject.rtol

    @property
    def ends(self) -> tuple[Compared, Compared]:
        """The weights beside those at the first and at the last places."""
        return compared(self.seen, self.first), compared(self.seen, self.last)

    @property
    def fits(self) -> tuple[bool, bool]:
        """Whether they are those at the first places, and those at the last."""
        if self.error:
            return False, False
        first, last = self.ends
        return first.off <= self.room, last.off <= self.room

    def finding(
        self,
        check: str,
        verdict: Verdict,
        said: str = "",
        cause: str | None = None,
        numbers: tuple[float | None, float | None] = (None, None),
    ) -> Finding:
        where = ", ".join(filter(None, (self.counted.replace(" and", ","), self.given)))
        allowed = self.room if None not in numbers else None
        return Finding(check, where, verdict, said, cause, *numbers, allowed)


def length_findings(subject: Subject, factor: float, given: str = "") -> list[Finding]:
    """What 1 and 5 queries on 16 keys make of the factor, and 1 on many; where masks put them.

    What both say the same way is said of 1 query alone. `given` names an argument that was given.
    """
    one, five = (_tried(subject, queries, N_KEYS, given) for queries in (1, 5))
    looks = [one, five]
    if any(one.fits) and not subject.box.single:
        looks.append(_tried(subject, 1, many_keys(subject), given))
    found: list[Finding] = []
    for few in looks:
        told = {finding.cause for finding in found}
        more = _judged(few, factor, five)
        found += [f for f in more if f.verdict in ("match", "mismatch") or f.cause not in told]
    return found


def _tried(subject: Subject, queries: int, keys: int, given: str) -> _Few:
    q, k = subject.draw(subject.d_k, keys)
    few = q[:, :queries].copy()
    blank = _Few(subject, queries, keys, given)
    try:
        seen = subject.box.weights(few, k)[0]
        first, last = (_among_all(subject, few, k, end) for end in (False, True))
    except (Exception, SystemExit) as error:
        return replace(blank, error=first_line(error))
    return replace(blank, seen=seen, first=first, last=last)


def _among_all(subject: Subject, few: Array, k: Array, at_end: bool) -> Array:
    """The weights of a few queries among as many queries as keys, at the first or last places."""
    q = subject.draw(subject.d_k, k.shape[1])[0]
    rows = slice(-few.shape[1], None) if at_end else slice(few.shape[1])
    q[:, rows] = few
    return subject.box.weights(q, k)[0][:, rows]


def _judged(few: _Few, factor: float, five: _Few) -> list[Finding]:
    """The findings about a number of queries; `five` tells whether lengths may differ at all."""
    if few.error:
        said = f"With {few.met} it fails: {few.error}."
        return [few.finding("lengths", "measured", said, "equal-lengths")]
    if any(few.fits):
        slope = few.ends[0 if few.fits[0] else 1].times(factor)
        return [few.finding("lengths", "match", numbers=(factor, slope)), *_aligned(few)]
    if (turned := _turned(few)) is not None:
        measured = turned.times(factor)
        said = (
            f"The factor depends on the number of queries: {factor:.6g} with {few.keys} of them, "
            f"{measured:.6g} with {few.met}."
        )
        numbers = factor, measured
        return [few.finding("lengths", "mismatch", said, "factor-by-queries", numbers)]
    if compared(few.first, few.last).off <= few.room:  # no places matter, so no lengths should
        return [_wrong(few)]
    if five.error:
        said = f"With {few.met}, weights are not those of the same query among as many as keys: "
        said += "it is made for equal lengths. Not judged."
        return [few.finding("lengths", "measured", said, "equal-lengths")]
    if few is not five and any(five.fits):
        return [_wrong(few)]
    said = f"With {few.met}, weights are those of the same queries at neither end of {few.keys}: "
    said += "is it made for equal lengths?"
    return [few.finding("lengths", "undecided", said, "other-lengths")]


def _turned(few: _Few) -> Compared | None:
    """The factor of the logits alone, where it is not the one among as many queries as keys."""
    subject = few.subject
    q, k = subject.draw(subject.d_k, few.keys)
    some = q[:, : few.queries].copy()
    seen = tuple(subject.box.weights(sign * some, k)[0] for sign in (1, -1))
    for end in (False, True):
        wanted = tuple(_among_all(subject, sign * some, k, end) for sign in (1, -1))
        found = odd_factor((seen[0], seen[1]), (wanted[0], wanted[1]))
        if found.scaled(few.room):
            return found
    return None


def _wrong(few: _Few) -> Finding:
    """Weights that change with the number of queries where they should not."""
    if not np.isfinite(few.seen).all() and np.isfinite(few.last).all():
        said = f"With {few.met}, outputs are nan or inf."
        return few.finding("lengths", "mismatch", said, "not-finite")
    used = int((np.nan_to_num(few.seen) > 0).any(1).sum(-1).min())
    if used < min(int((x > 0).any(1).sum(-1).min()) for x in (few.first, few.last)):
        said = f"With {few.met}, only {used} keys have any weight."
        numbers = float(few.keys), float(used)
        return few.finding("lengths", "mismatch", said, "keys-dropped", numbers)
    said = f"With {few.met}, weights are not those of the same queries among as many as keys."
    return few.finding("lengths", "mismatch", said, "other-lengths")


def _aligned(few: _Few) -> list[Finding]:
    """To which end queries are aligned; conventions differ, so that it is not judged."""
    if all(few.fits):
        return []
    if few.fits[1]:
        said = f"With {few.met}, queries stand at the last keys, as decoding with a cache wants."
        return [few.finding("alignment", "measured", said, "aligned-to-end")]
    keys = int((np.nan_to_num(few.seen) > 0).any((0, 1)).sum())
    seen = f" and see {keys} of them" if keys < few.keys else ""
    said = (
        f"With {few.met}, queries stand at the first keys{seen}: not what decoding with a cache "
        "wants."
    )
    return [few.finding("alignment", "measured", said, "aligned-to-start")]
