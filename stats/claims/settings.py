"""From the settings of a claim to cases, and what has to be measured in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..cases import Case
from ..checks import InputError
from ..predict import predict
from ..quantities import QUANTITIES
from ..request import CaseOptions, options_of
from ..requested import requested_rows
from .claim import Claim, Setting, Test
from .names import MEASURED, ROWS, check_quantity


@dataclass(frozen=True, slots=True)
class Request:
    """A quantity that must be measured: in a case, or its ratio to that in another."""

    quantity: str
    case: Case
    versus: Case | None = None


def cases_of(setting: Setting, quantity: str) -> list[Case | None]:
    """The cases that a setting spells out; [None] where the quantity needs none.

    Examples:
        >>> [case.d_k for case in cases_of({"dk": [16, 64]}, "std")]
        [16, 64]

    """
    names = check_quantity(quantity)
    if not names:
        return [None]
    if not setting:
        raise InputError(f"{quantity} needs a setting, got none; write setting = {{dk = 64}}")
    given = {key: _texts(value) for key, value in setting.items()}
    dk = CaseOptions.dk if "logit_std" in given else ()
    scale = () if "weights" in given else ("none",)  # weights have scales of their own
    options = options_of(CaseOptions, {"dk": dk, "scale": scale, **given})
    row = next((name for name in names if name in ROWS), None)
    probe = "entropy" if row or "logit_std" in given or names[0] in MEASURED else "variance"
    return [case for case, _ in requested_rows(replace(options, quantities=(probe,)))]


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def variants(test: Test) -> list[tuple[str, Setting, Setting | None]]:
    """Quantity, setting and versus under each reading; once, as they stand, without readings."""
    if not test.readings:
        return [(test.quantity, test.setting, test.versus)]
    return [
        (
            reading.quantity or test.quantity,
            {**test.setting, **reading.setting},
            None if test.versus is None else {**test.versus, **reading.setting},
        )
        for reading in test.readings
    ]


def paired_cases(
    quantity: str, setting: Setting, versus: Setting | None
) -> list[tuple[Case | None, Case | None]]:
    """Each case with the one that it is compared with; one of these serves all cases."""
    cases = cases_of(setting, quantity)
    if versus is None:
        return [(case, None) for case in cases]
    others = cases_of({**setting, **versus}, quantity)
    if len(others) == 1:
        others *= len(cases)
    if len(others) != len(cases):
        raise InputError(f"versus must spell out 1 or {len(cases)} cases, got {len(others)}")
    return list(zip(cases, others, strict=True))


def requests_of(claims: Iterable[Claim]) -> list[Request]:
    """What must be measured for the claims, each request once."""
    requests = {
        Request(quantity, case, other): None
        for claim in claims
        for test in claim.tests
        for quantity, setting, versus in variants(test)
        for case, other in paired_cases(quantity, setting, versus)
        if case is not None
        and not (known(quantity, case) and (not other or known(quantity, other)))
    }
    return list(requests)


def known(quantity: str, case: Case) -> bool:
    """Whether an exact value exists: not for gradients, nor where theory gives a bracket or none.

    Examples:
        >>> known("std", Case(d_k=64)), known("wq_gradient", Case(d_k=64))
        (True, False)

    """
    if quantity not in QUANTITIES:
        return quantity not in MEASURED
    return isinstance(predict(case, quantity).value, float)
