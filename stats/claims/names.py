"""The quantities that a claim can name beside the catalogue's, and expressions of them."""

from __future__ import annotations

from ..checks import InputError, near_names
from ..quantities import QUANTITIES
from .expressions import check_expression

MEASURED = {
    "score_gradient": "root mean square of |dL/dS|, S the scaled logits of one head",
    "wq_gradient": "root mean square of |dL/dW_Q|, the factor of the chain rule included",
    "layer_norm_max_prob": "largest probability of a row whose logits were layer-normed",
    "layer_norm_entropy": "entropy in nats of a row whose logits were layer-normed",
}
"""What is only ever measured, with JAX; alone, not within an expression."""

FIELDS = ("d_k", "n_keys", "d_model", "sigma_q", "sigma_k")
FUNCTIONS = {
    "coverage": "coverage(c) = P(|x| <= c), x the scaled logit",
    "tail": "tail(c) = P(|x| > c), accurate where it is tiny",
    "query_variance": "variance of an element of q",
    "rows_to_tell": "rows whose mean entropy tells setting from versus (1e-6, power 0.999)",
}
CLAIM_NAMES = (*QUANTITIES, *FIELDS, *FUNCTIONS)
ROWS = (*(name for name, q in QUANTITIES.items() if not q.of_pairs), "rows_to_tell")


def check_quantity(text: str) -> list[str]:
    """The names that a quantity needs; InputError where there is no such quantity.

    Examples:
        >>> check_quantity("std / mean_abs"), check_quantity("wq_gradient")
        (['std', 'mean_abs'], ['wq_gradient'])

    """
    if text in MEASURED:
        return [text]
    if text.isidentifier() and text not in CLAIM_NAMES:
        known = (*CLAIM_NAMES, *MEASURED)
        raise InputError(f"unknown quantity {text!r}; {near_names(text, known)}")
    return check_expression(text, dict.fromkeys(CLAIM_NAMES, 0.0))
