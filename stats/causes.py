"""Name the likely cause of a wrong scale from the ratio of measured to expected."""

from __future__ import annotations

import math

_ROOM = 0.02  # a ratio this close to a candidate's names it; neighbouring candidates differ by more


def likely_cause(ratio: float, d_k: int | None) -> str:
    """What would make the logits' standard deviation `ratio` times what is expected, or "".

    Examples:
        >>> likely_cause(8.05, 64)
        'sqrt(d_k) = 8 too large: a divisor sqrt(d_k) that is missing?'
        >>> likely_cause(1.4, 64)
        'sqrt(2) = 1.414 too large: a variance counted twice?'
        >>> likely_cause(1.2, 64)
        ''

    """
    near = [
        (abs(math.log(ratio / factor)), f"{name}: {cause}?")
        for factor, name, cause in _candidates(d_k)
        if ratio > 0 and abs(math.log(ratio / factor)) < _ROOM
    ]
    return min(near)[1] if near else ""


def _candidates(d_k: int | None) -> list[tuple[float, str, str]]:
    known = [
        (math.sqrt(2), "sqrt(2) = 1.414 too large", "a variance counted twice"),
        (1 / math.sqrt(2), "sqrt(2) = 1.414 too small", "half the variance"),
        (0.7737413, "0.7737 of it", "two normals cut at 2 sigma and not corrected (0.8796^2)"),
        (0.8796257, "0.8796 of it", "one normal cut at 2 sigma and not corrected"),
    ]
    if d_k is not None and d_k > 1:
        root = math.sqrt(d_k)
        known += [
            (root, f"sqrt(d_k) = {root:.4g} too large", "a divisor sqrt(d_k) that is missing"),
            (1 / root, f"sqrt(d_k) = {root:.4g} too small", "divided by sqrt(d_k) twice"),
            (float(d_k), f"d_k = {d_k} too large", "divided by 1/sqrt(d_k), or multiplied by it"),
            (1 / d_k, f"d_k = {d_k} too small", "divided by d_k more than expected"),
        ]
    return known
