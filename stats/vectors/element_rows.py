"""The elements of queries and keys against mean 0 and variance 1, with their own errors.

A replicate is the row at one place of every leading index, so that what heads and batches share
does no harm; errors are Student's t over places.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..cases import Case, Reference
from ..decision import Row
from ..quantities import Estimate
from ..unit_logits import unit_of

Array = NDArray[np.float64]


def mean_row(x: Array) -> Row:
    """The mean of all elements of (L, n, d_k) against 0, in units of their standard deviation.

    Examples:
        >>> row = mean_row(np.array([[[1.0], [3.0]]]))
        >>> row.estimate.value, row.reference.unit
        (2.0, 1.0)

    """
    sd = float(x.std()) or 1.0
    reference = Reference(0.0, sd, None, None, "closed form", "0, the mean of an element")
    return Row(Case(x.shape[-1]), "mean", reference, _over_places(x.mean((0, 2))))


def spread_row(x: Array) -> Row:
    """The variance of the elements of (L, n, d_k) about their common mean, against 1."""
    estimate = _over_places(((x - x.mean()) ** 2).mean((0, 2)))
    unit, formula = unit_of(estimate.value), "1, the variance of an element"
    reference = Reference(1.0, unit, None, None, "closed form", formula)
    return Row(Case(x.shape[-1]), "variance", reference, estimate)


def correlation_row(q: Array, k: Array) -> Row:
    """The correlation of q_i with k_i at the same place, against 0; q and k (L, n, d_k).

    Examples:
        >>> q = np.array([[[1.0, -1.0], [-1.0, 1.0]]])
        >>> correlation_row(q, -2 * q).estimate.value
        -1.0

    """
    one, other = ((x - x.mean()) / (x.std() or 1.0) for x in (q, k))
    reference = Reference(0.0, 1.0, None, None, "closed form", "0, the correlation of q_i and k_i")
    return Row(Case(q.shape[-1]), "mean", reference, _over_places((one * other).mean((0, 2))))


def share_row(share: Estimate, d_k: int, term: str) -> Row:
    """The share of a term of the variance against 0; a std changes by half of it."""
    reference = Reference(
        0.0, unit_of(abs(share.value)), None, None, "closed form", f"0, the share of {term}"
    )
    return Row(Case(d_k), "mean", reference, share)


def _over_places(values: Array) -> Estimate:
    n = len(values)
    sd = float(values.std(ddof=1)) if n > 1 else math.nan
    return Estimate(n, float(values.mean()), sd)
