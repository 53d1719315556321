"""Which quantities a case has: refusals that need no reference, hence come before any."""

from __future__ import annotations

from .cases import Case
from .checks import InputError
from .logits import check_finite
from .quantities import QUANTITIES
from .transforms.rules import check_quantity


def check_asked(case: Case, quantity: str) -> None:
    """Refuse a quantity that the case has no reference of, before any reference is computed."""
    asked = QUANTITIES[quantity]
    if case.transform:
        check_quantity(case, quantity)
    elif quantity == "overflow":
        if case.d_k is None:
            raise InputError("overflow is of drawn q and k; give --dk, or ask for broken_rows")
    elif asked.of_pairs:
        if case.d_k is None:
            raise InputError(
                f"{quantity} of given normal logits is what --logit-std states; "
                "choose quantities of rows, or give --dk"
            )
        if asked.group == "law" and case.rounds:
            raise InputError(
                f"{quantity} needs logits that are not rounded, got dtype {case.dtype}; "
                "take float32, or the quantity overflow"
            )
        if asked.group == "logits" and case.weights is None:
            check_finite(case, quantity)
    elif case.n_keys is None:
        raise InputError(f"{quantity} is a statistic of rows and needs --n-keys")
