"""Which transforms go with which cases and quantities: every complaint says the way out."""

from __future__ import annotations

from ..cases import Case
from ..checks import InputError
from ..quantities import QUANTITIES
from .catalogue import TRANSFORMS, VECTOR_STEPS
from .stacks import Stack, lengths, stack_of

OF_REPLICATES = ("skewness", "kurtosis", "saturated", "jacobian_frobenius_median")
"""Quantities that are no mean over the logits or rows of a group."""


def check_transform(case: Case) -> None:
    """Refuse transforms that the case cannot have."""
    stack = stack_of(case)
    steps = {TRANSFORMS[name].step: name for name in stack}
    if case.weights is not None:
        raise _refused(next(iter(stack)), f"weights {case.weights}", "--weights")
    if case.rounds_rows or case.softmax != "stable":
        raise _refused(next(iter(stack)), f"dtype {case.dtype}, softmax {case.softmax}",
                       "what asks for half precision")  # fmt: skip
    for step in (*VECTOR_STEPS, "queries"):
        if step in steps:
            _check_vectors(case, steps[step])
    if "linear-attention" in stack:
        _check_vectors(case, "linear-attention")
        if case.n_keys is not None:
            raise InputError(
                "transform linear-attention has no softmax, hence no statistics of rows; "
                "ask for --quantities logits"
            )
    if "rope" in stack and case.d_k is not None and case.d_k % 2:
        raise InputError(f"transform rope needs an even d_k, got {case.d_k}; planes are pairs")
    if "qk-layernorm" in stack and case.d_k == 1:
        raise InputError("transform qk-layernorm needs d_k of at least 2, got 1; take a larger d_k")
    _check_lengths(case, stack)


def _refused(name: str, given: str, way_out: str) -> InputError:
    return InputError(
        f"transform {name} needs drawn q and k or --logit-std in float32 or float64, got {given}; "
        f"drop {way_out}"
    )


def _check_vectors(case: Case, name: str) -> None:
    """What acts on vectors takes independent centred ones."""
    if case.logit_std is not None:
        raise InputError(f"transform {name} acts on q and k, got logit_std; drop --logit-std")
    for field in ("mean_q", "mean_k", "correlation"):
        if getattr(case, field):
            raise InputError(
                f"{field} must be 0 with transform {name}, got {getattr(case, field)}; drop it"
            )


def _check_lengths(case: Case, stack: Stack) -> None:
    """Rows of one length, from which no more keys are kept than there are."""
    found = lengths(stack)
    if len(found) > 1:
        raise InputError(
            f"transform lengths must agree, got {', '.join(f'{n:g}' for n in sorted(found))}"
        )
    if case.n_keys is None:
        missing = [name for name in stack if TRANSFORMS[name].of_row and not found]
        if missing:
            name = missing[0]
            raise InputError(f"transform {name} needs its length (N, keys of a row); give --n-keys")
    n = case.n_keys or next(iter(found), None)
    for name in ("top-k-position", "top-k"):
        if name in stack and n is not None:
            kept = stack[name][0]
            if kept > n:
                raise InputError(
                    f"transform {name} keeps {kept:g} of {n:g} keys; give more --n-keys"
                )
            n = kept


def check_quantity(case: Case, quantity: str) -> None:
    """Refuse quantities that a transformed case has no estimate of."""
    if QUANTITIES[quantity].group == "law":
        raise InputError(
            f"{quantity} is of the plain logit, got transform {'+'.join(case.transform)}; "
            "ask for --quantities logits, softmax or jacobian"
        )
    groups = [name for name in ("gqa", "queries") if name in stack_of(case)]
    if groups and quantity in OF_REPLICATES:
        raise InputError(
            f"{quantity} is no mean over a group, got transform {groups[0]}; "
            "ask for variance, mean, mean_abs, entropy, sum_p2 or max_prob"
        )
