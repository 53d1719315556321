"""Theory of transformed attention by name: a case and a quantity in, a Reference out."""

from __future__ import annotations

import math
from dataclasses import replace

from ..cases import Case, Reference
from ..elements import element_moment
from ..laws.vector_moments import Transformed
from ..logits import moments_reference
from ..quantities import QUANTITIES
from ..sampling_errors import design_effect
from .moments import transformed_moments
from .rows import transformed_row_reference
from .rules import check_quantity, check_transform
from .stacks import Stack, draw_shape, stack_of


def variant_reference(case: Case, quantity: str) -> Reference:
    """The exact reference of a quantity of a transformed case, or none with the reason.

    Examples:
        >>> case = Case(d_k=64, transform=("top-k:8:64",))
        >>> round(variant_reference(case, "variance").value, 2)
        14.98

    """
    check_transform(case)
    check_quantity(case, quantity)
    stack = stack_of(case)
    if QUANTITIES[quantity].group != "logits":
        return transformed_row_reference(case, quantity, stack)
    found = transformed_moments(case, stack)
    if isinstance(found, str):
        return Reference(None, 1.0, None, None, "none", "", found)
    reference = _of_moments(found, quantity)
    return _of_group(case, quantity, stack, reference)


def _of_moments(found: Transformed, quantity: str) -> Reference:
    if quantity != "mean_abs":
        reference = moments_reference(found.moments, quantity)
        if reference.kind == "none":
            return reference
        return replace(reference, kind=found.kind, formula=found.formula)
    if found.absolute is None:
        return Reference(None, 1.0, None, None, "none", "", "no formula for E|x|")
    first, third = found.absolute.first, found.absolute.third
    square = found.moments.std**2 + found.moments.mean**2
    sd = math.sqrt(max(square - first**2, 0.0))
    skew = None if third is None or not sd else (third - 3 * first * square + 2 * first**3) / sd**3
    return Reference(first, first, sd, skew, found.absolute.kind, found.absolute.formula)


def _of_group(case: Case, quantity: str, stack: Stack, reference: Reference) -> Reference:
    """A replicate of M x N logits that share queries and keys: their exact design effect, or none.

    Logits of centred q and k are uncorrelated, so that their mean over M x N has 1/(MN) of the
    variance of one; for the squares see `sampling_errors.design_effect`.
    """
    if not {"gqa", "queries"} & set(stack) or reference.kind == "none":
        return reference
    queries, keys = draw_shape(case)
    sd = None
    alone = set(stack) <= {"gqa", "queries", "v-compensation"}
    if alone and reference.replicate_sd is not None:
        size = math.sqrt(queries * keys)
        if quantity == "mean":
            sd = reference.replicate_sd / size
        elif quantity in ("variance", "std") and "sphere" not in case.elements:
            effect = design_effect(queries, keys, case.d_k or 1, *_kurtoses(case))
            sd = reference.replicate_sd * math.sqrt(effect) / size
    return replace(reference, replicate_sd=sd, replicate_skew=None)


def _kurtoses(case: Case) -> tuple[float, float]:
    kurtosis_q, kurtosis_k = (
        element_moment(law, 4) / element_moment(law, 2) ** 2
        for law in (case.elements_q, case.elements_k)
    )
    return kurtosis_q, kurtosis_k
