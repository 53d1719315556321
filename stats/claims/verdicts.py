"""The verdict on a claim: what was said beside what is so, and one line of why.

What can go wrong: a reading picked because it fits confirms little (`post hoc`); a look that was
chosen after the table was seen has no error rate (`exploratory`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..checks import InputError
from .claim import ANY, FALSE_ALARM, OPEN, VERDICTS, WRONG, Claim, Test, Trained
from .joint import clash, joint
from .neighbours import search
from .outcomes import Outcome, judge_test
from .values import Measurements
from .wording import shown, why_of_test


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim with its verdict."""

    claim: Claim
    verdict: str
    why: str
    outcomes: tuple[tuple[Outcome, ...], ...] = field(default=())
    p_value: float | None = None
    computed: str | None = None  # where no test says it

    @property
    def word(self) -> str:
        """The verdict's first words, one of `claims.VERDICTS`."""
        return next(word for word in VERDICTS if self.verdict.startswith(word))

    @property
    def as_expected(self) -> bool | None:
        """Whether an expectation is met; None where there is none, or nothing to tell it by.

        Without one a claim must not be wrong. With it a direction that holds is as good as
        confirmed; a reading picked post hoc is not.
        """
        expect = self.claim.expect
        if expect is None:
            return None if self.word in OPEN else self.word not in WRONG
        if expect == ANY:
            return None
        fits = self.word == expect or (expect == "confirmed" and self.word == "qualitative")
        return fits and (expect != "confirmed" or "post hoc" not in self.verdict)


def judge_claims(
    claims: Sequence[Claim],
    measured: Measurements | None = None,
    trained: Mapping[str, Trained] | None = None,
) -> list[Judged]:
    """Every claim with its verdict, those that lean on others last looked at.

    `trained` has what a training experiment says of the statements that claims name.
    Raises InputError, with the claim's id, where a test cannot be computed.
    """
    by_id = {claim.id: claim for claim in claims}
    judged = [_judge_claim(claim, by_id, measured or {}, trained or {}) for claim in claims]
    words = {one.claim.id: one.word for one in judged}
    return [_against_premise(one, words) for one in judged]


def _judge_claim(
    claim: Claim,
    by_id: Mapping[str, Claim],
    measured: Measurements,
    trained: Mapping[str, Trained],
) -> Judged:
    try:
        outcomes = tuple(judge_test(test, measured) for test in claim.tests)
        looked = joint(claim, by_id, measured)
        against = clash(claim, by_id) if claim.consistent else ""
    except InputError as error:
        raise InputError(f"claim {claim.id}: {error}") from None
    if claim.experiment in trained:
        found = trained[claim.experiment]
        said = _line(found.why, claim.note)
        return Judged(claim, f"{found.word} by training", said, outcomes, computed=found.computed)
    if claim.training:
        return Judged(claim, "needs training", _line(claim.training, claim.note), outcomes)
    if claim.missing:
        return Judged(
            claim, "not reproducible", _line(f"missing: {claim.missing}", claim.note), outcomes
        )
    if not claim.tests:
        assert looked is not None
        verdict = "confirmed" if looked.p_value >= FALSE_ALARM else "refuted"
        said = _line(looked.why, claim.note)
        return Judged(claim, verdict, said, outcomes, looked.p_value)
    verdict, why = _combined(claim, outcomes)
    if against and verdict.startswith(("refuted", "confirmed", "qualitative")):
        assert claim.consistent is not None
        verdict, why = f"inconsistent with {claim.consistent.claim}", against
    p_values = [o.p_value for group in outcomes for o in group if o.p_value is not None]
    why = _line(why, looked.why if looked else "", claim.note)
    return Judged(claim, verdict, why, outcomes, min(p_values, default=None))


def _line(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _combined(claim: Claim, outcomes: Sequence[Sequence[Outcome]]) -> tuple[str, str]:
    """All tests together: refuted if one is, then what is least certain."""
    told = [_of_readings(t, group) for t, group in zip(claim.tests, outcomes, strict=True)]
    whys = [
        _line(
            why_of_test(test, group, verdict),
            search(test, group) if verdict == "refuted" else "",
        )
        for test, group, verdict in zip(claim.tests, outcomes, told, strict=True)
    ]
    order = ("refuted", "not reproducible", "post hoc", "qualitative", "confirmed")
    worst = min(told, key=lambda verdict: next(i for i, w in enumerate(order) if w in verdict))
    kept = [
        why
        for why, verdict in zip(whys, told, strict=True)
        if why and (verdict == worst or not worst.startswith("refuted"))
    ]
    return worst, _line(*dict.fromkeys(kept))


def _of_readings(test: Test, outcomes: Sequence[Outcome]) -> str:
    """The verdict of one test over its readings."""
    yes = "qualitative: holds" if test.qualitative or test.figure.kind == "order" else "confirmed"
    holding = [outcome.holds for outcome in outcomes]
    fits = holding.count(True)
    if len(outcomes) == 1 or fits == len(outcomes) or not fits:
        if None in holding:
            return "not reproducible: within the error bar"
        return yes if fits else "refuted"
    if test.universal:
        return "refuted"
    return f"{yes}, {fits} of {len(outcomes)} readings (post hoc)"


def _against_premise(judged: Judged, words: Mapping[str, str]) -> Judged:
    """What follows from a confirmed premise and is wrong contradicts it."""
    premise = judged.claim.premise
    if premise is None or judged.word != "refuted" or words[premise] != "confirmed":
        return judged
    computed = shown(judged.outcomes[0][0].computed)
    why = _line(f"from {premise} follows {computed}", judged.why)
    return replace(judged, verdict=f"inconsistent with {premise}", why=why)
