"""Theory by name: a case and a quantity in, a Reference out, without sampling."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .cases import Case, Reference
from .checks import choice
from .conventions import scale_factor
from .quantities import QUANTITIES
from .quantity_rules import check_asked

if TYPE_CHECKING:
    from .weights.fixed import Matrices


def predict(case: Case, quantity: str, matrices: Matrices | None = None) -> Reference:
    """The exact reference of a quantity: value, unit, replicate_sd, kind and formula.

    Logit moments over fresh tokens through fixed weights need these: W_Q and W_K as arrays of
    shape [d_k, d_model].

    Raises InputError where the case cannot be (a law without the moment, a quantity of rows
    without keys, a scale that needs what the case has not).

    Examples:
        >>> predict(Case(d_k=64), "variance").value
        64.0
        >>> predict(Case(d_k=64, scale="sqrt-dk"), "std").value
        1.0

    """
    choice("quantity", quantity, QUANTITIES)
    factor = scale_factor(case)
    check_asked(case, quantity)
    if case.transform:
        from .transforms.references import variant_reference

        return variant_reference(case, quantity)
    if quantity in ("overflow", "broken_rows"):
        from .overflow import overflow_of

        return overflow_of(case, quantity)
    found = _exact(case, quantity, factor, matrices)
    rounded = case.rounds or (case.rounds_rows and case.n_keys is not None)
    return replace(found, rounded=True) if rounded else found


def _exact(case: Case, quantity: str, factor: float, matrices: Matrices | None) -> Reference:
    """The reference as if nothing were rounded."""
    if QUANTITIES[quantity].of_pairs:
        if QUANTITIES[quantity].group == "law":
            from .laws.references import law_reference

            return law_reference(case.cell(), quantity, factor)
        from .logits import logit_reference

        return logit_reference(case, quantity, factor, matrices)
    from .rows.laws import row_reference

    return row_reference(case, quantity, factor)


def check_verdict_possible(case: Case, quantity: str) -> None:
    """Refuse a verdict whose error bar does not exist, and name what can be tested instead."""
    if QUANTITIES[quantity].group == "logits" and quantity != "overflow":
        from .logits import check_moments_exist

        check_moments_exist(case, quantity)
