"""Judge somebody's own queries and keys: `audit_logits`, and `check --q --k`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..stats.checks import InputError
from .checked import RateOptions
from .result import Result


@dataclass(frozen=True)
class ArrayOptions:
    """Queries and keys in place of logits.

    Parameters
    ----------
    q
        An npy, npz or csv file of queries (..., n, d_k), instead of a file of logits.
    k
        One of keys (..., m, d_k), with the same leading axes.
    factor
        What multiplies q.k in the attention that they come from (1/sqrt(d_k) if not given).

    """

    q: str | None = None
    k: str | None = None
    factor: float | None = None

    @property
    def given(self) -> bool:
        """Whether any of it is given."""
        return (self.q, self.k, self.factor) != (None, None, None)


def audit_logits(
    q: Any,
    k: Any,
    factor: float | None = None,
    *,
    tolerance: float | None = None,
    false_alarm: float = 1e-6,
    power: float = 0.999,
    name: str = "q, k",
) -> Result:
    """Whether the logits of these queries and keys are sane, and which assumption fails if not.

    Args:
        q: queries (..., n, d_k), NumPy, JAX or torch, after projections, norms and rotations.
        k: keys (..., m, d_k), with the same leading axes.
        factor: what multiplies q.k; 1/sqrt(d_k) where None.
        tolerance: of a standard deviation (0.1 where None): a mean further from 0, a std further
            from 1, a term that changes the logits' std by more is a mismatch.
        false_alarm: probability that any check is called a mismatch although all is within.
        power: of the intervals that must lie within for a match.
        name: what the report calls them.

    Returns:
        A Result: `verdict`, `exit_code` (0 sound, 1 mismatch, 3 too few rows), `table()`, `record`.
        Its checks: mean and variance of the elements of q and of k; correlation of q_i with k_i at
        one place; the terms of `Var(q.k) = tr(S_q S_k) + mu_q' S_k mu_q + mu_k' S_q mu_k` beyond
        equal, uncorrelated elements; the logits' variance against 1; the formula against the
        logits; entropy, largest weight and saturation of the same logits at several factors.

    Raises:
        InputError: for shapes that do not fit, or elements that are not finite numbers.

    Rows are taken as independent, each with all its heads and batches as one replicate, and all
    queries are taken with all keys (no mask).

    Examples:
        >>> import numpy as np
        >>> q, k = np.random.default_rng(0).normal(size=(2, 8, 512, 64))
        >>> audit_logits(q, k).verdict, audit_logits(1.3 * q, k).exit_code
        ('match', 1)

    """
    from ..stats.vectors.audit import TOLERANCE, audit_vectors
    from .audit.records import audit_record

    chosen = TOLERANCE if tolerance is None else tolerance
    rates = {"tolerance": chosen, "false_alarm": false_alarm, "power": power}
    record = audit_record(audit_vectors(q, k, factor, name=name, **rates))
    record["request"] |= {"factor": factor} | rates
    record["design"] |= rates
    return Result(record)


def checked_arrays(options: ArrayOptions, rates: RateOptions, *others: object) -> Result:
    """What `check --q --k` shows; `others` are a file of logits and head dimensions, not given."""
    from .files import read_logits

    if options.q is None or options.k is None:
        raise InputError("check needs a file of logits, or both --q and --k; give --q and --k")
    if any(others):
        raise InputError("check takes a file of logits, or --q and --k, whose shape says d_k; "
                         "drop one of them")  # fmt: skip
    return audit_logits(
        read_logits(options.q),
        read_logits(options.k),
        options.factor,
        tolerance=rates.tolerance,
        false_alarm=rates.false_alarm,
        power=rates.power,
        name=f"{options.q}, {options.k}",
    )
