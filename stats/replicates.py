"""From an array of logits to estimates over independent replicates.

A replicate is one value of a 1-D array, or one matrix of a 3-D array (replicate x query x key).
Logits of one matrix share queries and keys, so that pooling them as if they were independent
would understate the error 2 to 4 times; here each matrix counts once.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .cases import Reference
from .checks import InputError
from .decision import Row
from .elements import element_moment
from .logits import influence
from .moments import Moments
from .quantities import QUANTITIES, Estimate
from .sampling_errors import design_effect

ORDER = 8  # of the moments that error bars need


def checked_array(logits: ArrayLike) -> NDArray[np.float64]:
    """Finite float64 logits, 1-D or 3-D; InputError says which axis is missing."""
    array = np.asarray(logits)
    if array.dtype.kind not in "fiu":
        raise InputError(f"logits must be real numbers, got dtype {array.dtype}")
    array = array.astype(np.float64, copy=False)
    if array.ndim == 2:
        raise InputError(
            f"logits must be 1-D, or 3-D replicate x query x key, got shape {array.shape}: which "
            "axis is the replicate? reshape to (1, query, key) or flatten independent values"
        )
    if array.ndim not in (1, 3):
        raise InputError(f"logits must be 1-D or 3-D, got shape {array.shape}; reshape them")
    if len(array) < 2 or array.size == 0:
        raise InputError(f"logits need at least 2 replicates, got shape {array.shape}; draw more")
    bad = array.size - int(np.isfinite(array).sum())
    if bad:
        raise InputError(f"logits must be finite, got {bad} nan or inf of {array.size}; clean them")
    return array


def judged_row(row: Row, logits: ArrayLike) -> Row:
    """The row with its estimate from the array, ready for `decide`."""
    array = checked_array(logits)
    quantity = QUANTITIES[row.quantity]
    values = np.abs(array) if quantity.measured == "abs_logit" else array
    pooled = quantity.estimate(Moments.of(values, ORDER))
    if array.ndim == 1:
        return replace(row, estimate=pooled)
    sd = _matrix_sd(values, row.quantity, pooled)
    reference = _of_matrices(row, array.shape[1:])
    if reference.replicate_sd is None and row.reference.replicate_sd is not None:
        # Var mean f(x_ij) = [Var f + (n-1) Var E(f|q) + (m-1) Var E(f|k)] / (mn) >= Var f / (mn):
        # the spread of a few skewed matrices can be far too small, but not truly below this
        sd = max(sd, row.reference.replicate_sd / math.sqrt(array[0].size))
    estimate = Estimate(len(array), pooled.value, sd, logits_per_draw=array[0].size)
    return replace(row, estimate=estimate, reference=reference)


def _matrix_sd(values: NDArray[np.float64], quantity: str, pooled: Estimate) -> float:
    """Standard deviation over matrices of the influence function averaged within each."""
    mean, spread = float(values.mean()), float(values.std())
    if spread == 0:
        return 0.0
    z = (values - mean) / spread
    square = z * z
    third, fourth = float((square * z).mean()), float((square * square).mean())
    known = {"mean_abs": "mean"}.get(quantity, quantity)
    polynomial = np.polynomial.Polynomial(influence(known, third, fourth))
    within = polynomial(z).mean(axis=(1, 2))
    unit = {
        "mean": spread,
        "variance": pooled.value,
        "std": pooled.value / 2,
        "skewness": 1.0,
        "kurtosis": 1.0,
    }[known]
    return float(within.std(ddof=1)) * unit


def _of_matrices(row: Row, shape: tuple[int, ...]) -> Reference:
    """The reference of one matrix: the exact design effect where theory has it, else none.

    The logits of independent, centred q and k are uncorrelated, so that the mean over m x n of
    them has variance 1/(mn) of one; for their squares the design effect is
    `1 + [(n-1) d (kq-1) + (m-1) d (kk-1)] / [d^2 (2 + (kq kk - 3) / d)]`.
    """
    reference, case = row.reference, row.case
    m, n = shape
    centred = case.mean_q == case.mean_k == case.correlation == 0 and case.weights is None
    iid = "sphere" not in (case.elements_q, case.elements_k)
    size = math.sqrt(m * n)
    sd = None
    if centred and reference.replicate_sd:
        if row.quantity == "mean":
            sd = reference.replicate_sd / size
        elif row.quantity in ("variance", "std") and iid and case.d_k is not None:
            kurtosis_q, kurtosis_k = (
                element_moment(law, 4) / element_moment(law, 2) ** 2
                for law in (case.elements_q, case.elements_k)
            )
            effect = design_effect(m, n, case.d_k, kurtosis_q, kurtosis_k)
            sd = reference.replicate_sd * math.sqrt(effect) / size
    return replace(reference, replicate_sd=sd, replicate_skew=None)
