"""Published figures beside what is so: claim files by name, and the record of judged claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...stats.checks import InputError, near_names
from ...stats.claims.claim import ANY, FALSE_ALARM, ClaimFile
from ...stats.claims.files import parse_claims
from ...stats.claims.outcomes import Outcome
from ...stats.claims.verdicts import Judged
from ...stats.claims.wording import said, shown
from ..files import read_text
from ..record import ROW_KEYS, Record, case_record, make_record, plain_data
from .options import ClaimOptions

SHIPPED = ("documents", "example")
_FOLDER = Path(__file__).resolve().parents[2] / "stats" / "claims"


def read_claims(name: str) -> ClaimFile:
    """The claims of a shipped file (`documents`, `example`) or of a TOML file.

    Examples:
        >>> len(read_claims("documents").claims)
        91

    """
    return parse_claims(claims_text(name), name)


def claims_text(name: str) -> str:
    """The text of a shipped file or of a TOML file."""
    if name not in SHIPPED and not Path(name).suffix:
        raise InputError(f"unknown claims {name!r}; {near_names(name, SHIPPED)}, or a TOML file")
    path = str(_FOLDER / f"{name}.toml") if name in SHIPPED else name
    return read_text(path, "claims")


def checked_claims(file: ClaimFile) -> str:
    """What a validated file holds, in one line."""
    tests = sum(len(claim.tests) for claim in file.claims)
    expected = sum(claim.expect not in (None, ANY) for claim in file.claims)
    return (
        f"{file.name}: {len(file.claims)} claims, {tests} tests, "
        f"{expected} with an expectation; no error"
    )


def claims_record(
    judged: Sequence[Judged],
    file: ClaimFile,
    options: ClaimOptions,
    provenance: Mapping[str, object] | None = None,
) -> Record:
    """The record of judged claims; `mismatch` where one is wrong or not as expected.

    `counts` has, by source, how many claims have each verdict; `rows` has those asked for.
    """
    request = {"claims": file.name, "only": list(options.only), "seed": options.chosen_seed()}
    record = make_record("claims", request, [], None, provenance)
    met = [one.as_expected for one in judged if one.as_expected is not None]
    record["verdict"] = "measured" if not met else "match" if all(met) else "mismatch"
    record["design"]["false_alarm"] = FALSE_ALARM
    record["documents"] = dict(file.documents)
    record["counts"] = {
        source: Counter(_counted(one) for one in judged if one.claim.source == source)
        for source in dict.fromkeys(one.claim.source for one in judged)
    }
    record["unexpected"] = [one.claim.id for one in judged if one.as_expected is False]
    record["rows"] = [_row(one) for one in judged if one.word in options.verdicts()]
    return record


def _counted(judged: Judged) -> str:
    return f"{judged.word} (post hoc)" if "post hoc" in judged.verdict else judged.word


def _row(judged: Judged) -> Record:
    """A row with every key of a record's rows, and those of claims besides."""
    outcomes = [outcome for group in judged.outcomes for outcome in group]
    claim, tests = judged.claim, judged.claim.tests
    row: Record = dict.fromkeys(_ROW_KEYS)
    row |= {
        "id": claim.id,
        "source": claim.source,
        "claim": claim.statement,
        "claimed": " | ".join(said(test) for test in tests) or None,
        "computed": " | ".join(
            ", ".join(shown(outcome.computed, test.figure.units) for outcome in group)
            for test, group in zip(tests, judged.outcomes, strict=True)
        )
        or judged.computed,
        "verdict": judged.verdict,
        "why": judged.why or None,
        "expect": claim.expect,
        "as_expected": judged.as_expected,
        "quantity": " | ".join(dict.fromkeys(test.quantity for test in tests)) or None,
        "p_value": judged.p_value,
    }
    if claim.joint and not tests and judged.p_value is not None:
        row |= {
            "claimed": f"{', '.join(claim.joint)} agree",
            "computed": f"p = {judged.p_value:.2f}",
        }
    if len(outcomes) == 1:
        row |= {"draws": tests[0].draws} | _numbers(outcomes[0])
    return {name: plain_data(value) for name, value in row.items()}


def _numbers(outcome: Outcome) -> Record:
    """What a row says in numbers where one test has one outcome."""
    computed, case = outcome.computed[0], outcome.computed[0].case
    row: Record = {"z": outcome.z, "last_digits": outcome.last_digits}
    values = [_ends(c.low, c.high) for c in outcome.computed]
    value = values[0] if len(values) == 1 else values
    if computed.kind == "measured":
        row |= {"estimate": value, "mcse": computed.error, "theory": computed.exact}
        row |= {"draws": computed.draws, "theory_kind": "quadrature" if computed.exact else "none"}
    else:
        row |= {"theory": value, "theory_kind": computed.kind}
    if computed.reference is not None:
        row["formula"] = computed.reference.formula
    if case is not None and len(outcome.computed) == 1:
        row |= case_record(case)
    return row


def _ends(low: Any, high: Any) -> Any:
    values = low.tolist()
    return values if low.ndim or float(low) == float(high) else [values, high.tolist()]


_ROW_KEYS = (
    "id", "source", "claim", "claimed", "computed", "why", "expect", "as_expected", "last_digits",
    *ROW_KEYS,
)  # fmt: skip
