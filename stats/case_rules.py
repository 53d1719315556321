"""What goes together in a case: every complaint says which parts do not, and the way out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields

from .cases import Case
from .checks import InputError
from .conventions import scale_factor
from .quantities import QUANTITIES
from .transforms.rules import check_transform
from .transforms.stacks import has_no_rows
from .weights.layers import check_weights
from .weights.schemes import default_scale


def default_scales(quantity: str, case: Case) -> tuple[str, ...]:
    """`none` and `sqrt-dk` for row statistics of drawn q and k, else the case's default scale."""
    plain = case.weights is None and case.logit_std is None
    rows = plain and not QUANTITIES[quantity].of_pairs
    return ("none", "sqrt-dk") if rows else (default_scale(case.weights),)


def left_out(case: Case, quantity: str, asked: Iterable[str]) -> bool:
    """Whether a sweep leaves a quantity out, which its other rows have.

    Given logits have no moments to compare, and rows no statistics where there is no softmax.
    """
    if QUANTITIES[quantity].of_pairs:
        return case.logit_std is not None
    return has_no_rows(case.transform) and any(QUANTITIES[name].of_pairs for name in asked)


def checked_case(case: Case) -> Case:
    """The case, if its parts go together; otherwise an InputError that says which do not."""
    laws = {case.elements_q, case.elements_k}
    if case.logit_std is not None and case.weights is None:
        _refuse_vectors(case, "logit_std")
    if case.weights is not None:
        _refuse_vectors(case, "weights")
        check_weights(case)
    for side in ("q", "k"):
        if getattr(case, f"elements_{side}") == "sphere" and getattr(case, f"mean_{side}"):
            raise InputError(
                f"mean_{side} must be 0 for elements sphere, got {getattr(case, f'mean_{side}')}; "
                "a sphere has its centre at 0"
            )
    if case.correlation and laws != {"normal"}:
        raise InputError(
            f"correlation needs normal elements for both q and k, got {case.elements}; "
            "drop --correlation or use --elements normal"
        )
    if abs(case.correlation) > 1:
        raise InputError(f"correlation must be between -1 and 1, got {case.correlation}")
    if case.correlation and case.n_keys is not None:
        raise InputError(
            "correlation is between one q and one k, and a row has many keys; "
            "drop --correlation or ask for logit moments"
        )
    _check_precision(case)
    _check_digits(case)
    if case.transform:
        check_transform(case)
    scale_factor(case)  # refuses what the scale needs and the case has not
    return case


def _check_digits(case: Case) -> None:
    """Refuse means beside which the type leaves too few digits for the spread.

    Rounding to the type's spacing `eps |m|` adds a variance `(eps |m|)^2 / 12`, which may be at
    most 1e-4 of the spread's own: for the elements, and for the logit about its mean.
    """
    if case.rounds or case.d_k is None:
        return
    most = math.sqrt(12e-4) * (2.0**52 if case.dtype == "float64" else 2.0**23)
    q, k = (case.mean_q / case.sigma_q), (case.mean_k / case.sigma_k)
    logit = math.sqrt(case.d_k) * q * k / math.sqrt(1 + q * q + k * k)
    for name, ratio in (("mean_q", q), ("mean_k", k), ("mean of q.k", logit)):
        if abs(ratio) > most:
            way = "take a smaller mean" + ("" if case.dtype == "float64" else " or --dtype float64")
            raise InputError(
                f"{name} must be at most {most:.2g} standard deviations in {case.dtype}, which has "
                f"no digits left for the spread beyond, got {abs(ratio):.2g}; {way}"
            )


def _check_precision(case: Case) -> None:
    """Half precision is for drawn elements without norm; float64 does not mix with the others."""
    given = {name: getattr(case, name) for name in ("dtype_products", "dtype_accumulate",
             "dtype_softmax")}  # fmt: skip
    for name, dtype in given.items():
        if dtype is not None and "float64" in (dtype, case.dtype):
            raise InputError(
                f"{name} must be float64 if dtype is, and only then, got {dtype} with "
                f"{case.dtype}; drop --{name.replace('_', '-')}"
            )
    for name in ("dtype_products", "dtype_accumulate"):
        if case.logit_std is not None and given[name] is not None:
            raise InputError(
                f"{name} must be left out with logit_std, got {given[name]}; "
                f"drop --{name.replace('_', '-')}"
            )
    if not case.rounds:
        return
    if "sphere" in (case.elements_q, case.elements_k):
        raise InputError(
            f"dtype must be float32 or float64 for elements sphere, got {case.dtype}; "
            "use --elements normal"
        )


def _refuse_vectors(case: Case, given: str) -> None:
    """Given logits or weights leave q and k no laws of their own: refuse what would be ignored."""
    for field in fields(Case):
        of_vectors = field.name[-2:] in ("_q", "_k") and field.name != "d_k"
        instead = given == "weights" and field.name == "logit_std"
        if of_vectors or instead or field.name == "correlation":
            value = getattr(case, field.name)
            if value != field.default:
                raise InputError(
                    f"{field.name} must be left out with {given}, got {value}; "
                    f"drop --{given.replace('_', '-')}, or what describes q and k"
                )


def no_head_dimension(dk: Sequence[str]) -> None:
    """Refuse head dimensions beside `logit_std`, whose logits come out of no q and k."""
    if dk:
        raise InputError(
            f"logit_std describes logits that have no d_k, got --dk {' '.join(dk)}; "
            "drop one of the two"
        )
