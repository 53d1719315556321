"""What should come out for the law of the logit itself: its cdf, its tails, its extremes.

What can go wrong: some laws have no cdf to compare with (few uniform elements, atoms, weights);
their rows are measured, and say why. A distribution function inverted from a characteristic
function is good to 1e-12, which is nothing of a tail below it: such tails are intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from ..cases import Case, Kind, Reference
from ..checks import InputError
from ..quantities import QUANTITIES, Estimate
from .distribution import lattice_points, law_words, logit_cdf, logit_sf
from .logit_counts import REACH, Array, LogitCounts, count_edges
from .logit_moments import logit_moments
from .samples import DistanceLaw, ExtremeLaw

ABSOLUTE_ERROR = 1e-12  # of a cdf by inversion
_SURE = 1e-6  # a probability above it is known to a millionth by inversion
_FURTHEST = 2 * REACH  # standard deviations within which inversion is asked for a tail


@lru_cache(maxsize=1024)
def law_reference(case: Case, quantity: str, factor: float = 1.0) -> Reference:
    """The exact reference of law, of a tail's share, or of the smallest or largest logit.

    The extremes depend on the number of draws: their value is None until `Reference.at(draws)`.
    Where no exact cdf is known, kind none with the reason among its assumptions.

    Examples:
        >>> f"{law_reference(Case(d_k=64), 'above_4').value:.7e}"
        '6.2172978e-05'
        >>> round(law_reference(Case(d_k=64), "largest").at(10**6).value, 3)
        41.328

    """
    edges = count_edges(case)
    try:
        kind, formula = _checked_law(case)
    except InputError as refusal:
        return _unknown(case, quantity, factor, str(refusal))
    words = "iid draws of q, k"
    if quantity == "law":
        at = partial(_distance_at, kind, formula, words)
        return replace(at(2), sample_law=None, at=at)
    if quantity in ("smallest", "largest"):
        std = logit_moments(case).std * factor
        base = Reference(None, std, None, None, kind, f"median of N draws, {formula}", words)
        return replace(base, at=partial(_extreme_at, case, quantity, factor, base))
    place = QUANTITIES[quantity].edge
    edge = float(edges[round((place + REACH) * 64)])
    share = float(logit_sf(case, edge) if place > 0 else logit_cdf(case, edge))
    unsure = law_words(case) is None and share < _SURE
    share = max(share, 0.0)
    value = (max(share - ABSOLUTE_ERROR, 0.0), share + ABSOLUTE_ERROR) if unsure else share
    sd = math.sqrt(share * (1 - share))
    return Reference(value, 1.0, sd, None, "bracket" if unsure else kind, formula, words)


def law_estimate(case: Case, quantity: str, factor: float, counts: LogitCounts) -> Estimate:
    """What the counts of unscaled logits say of the scaled ones.

    The law's distance is that from the exact cdf, or from the normal law of the same mean and
    standard deviation where none is known.
    """
    if quantity != "law":
        estimate: Estimate = QUANTITIES[quantity].estimate(counts)
        scale = factor if quantity in ("smallest", "largest") else 1.0
        return replace(estimate, value=estimate.value * scale)
    try:
        expected = exact_cdf(case)
    except InputError:
        from scipy.special import ndtr

        moments = logit_moments(case)
        expected = ndtr((counts.edges - moments.mean) / moments.std)
    return Estimate(counts.count, float(np.abs(counts.cdf() - expected).max()), 0.5)


@lru_cache(maxsize=64)
def exact_cdf(case: Case) -> Array:
    """`P(X <= edge)` at every edge of the case's cells; InputError where it is not known."""
    return np.clip(logit_cdf(case, count_edges(case)), 0.0, 1.0)


def _checked_law(case: Case) -> tuple[Kind, str]:
    exact_cdf(case)
    words = law_words(case)
    if words is None:
        return "quadrature", "Gil-Pelaez inversion of phi(t)^d"
    return words  # type: ignore[return-value]


def _unknown(case: Case, quantity: str, factor: float, why: str) -> Reference:
    extreme = quantity in ("smallest", "largest")
    unit = logit_moments(case).std * factor if extreme else 1.0
    formula = "distance from the normal law of its mean and sd" if quantity == "law" else ""
    return Reference(None, unit, None, None, "none", formula, f"not compared: {why}")


def _distance_at(kind: Kind, formula: str, words: str, draws: int) -> Reference:
    law = DistanceLaw(draws)
    return Reference(0.0, 1.0, 0.5, None, kind, formula, words, sample_law=law)


@lru_cache(maxsize=256)
def _extreme_at(case: Case, quantity: str, factor: float, base: Reference, draws: int) -> Reference:
    side = 1 if quantity == "largest" else -1
    moments = logit_moments(case)
    law = ExtremeLaw(
        draws,
        side,
        _beyond(case, side, factor),
        factor * side * moments.mean,
        factor * moments.std,
    )
    furthest = factor * (side * moments.mean + _FURTHEST * moments.std)
    if law_words(case) is None and law.log_tails(side * furthest)[side < 0] < math.log(0.5):
        why = f"not compared: the cdf is not known beyond {_FURTHEST} standard deviations"
        return replace(base, kind="none", assumptions=why)
    median = side * law.quantile(0.5)
    if (points := lattice_points(case)) is not None:
        first, step = (factor * size for size in points)
        median = first + step * round((median - first) / step)
    return replace(base, value=median, sample_law=law)


def _beyond(case: Case, side: int, factor: float) -> Callable[[float], tuple[float, float]]:
    """Bounds on `P(side X > x)` and `P(side X >= x)` of the scaled logit."""

    def tail(x: float) -> float:
        return float(logit_sf(case, x) if side > 0 else logit_cdf(case, -x))

    points = lattice_points(case)
    if points is not None:
        nudge = points[1] / 4
        return lambda x: (tail(x / factor + nudge), tail(x / factor - nudge))
    if law_words(case) is not None:
        return lambda x: (tail(x / factor),) * 2
    return _inverted_tail(case, side, factor)


def _inverted_tail(case: Case, side: int, factor: float) -> Callable[[float], tuple[float, float]]:
    """Bounds from a table of the inverted cdf and, beyond it, Markov's inequality.

    `P(|X - mu| >= z sd) <= E |X - mu|^r / (z sd)^r`, r the highest even order that exists.
    """
    moments = logit_moments(case)
    z, below = _table(case)
    beyond = 1 - below if side > 0 else below[::-1]
    order = max(r for r in range(0, 13, 2) if math.isfinite(moments.standardised[r]))

    def bounds(x: float) -> tuple[float, float]:
        at = (x / factor - side * moments.mean) / moments.std
        markov = moments.standardised[order] / at**order if at > 1 else 1.0
        if at > _FURTHEST:
            return 0.0, min(markov, max(float(beyond[-1]), 0.0) + ABSOLUTE_ERROR)
        share = max(float(np.interp(at, z, beyond)), 0.0)
        return max(share - ABSOLUTE_ERROR, 0.0), min(share + ABSOLUTE_ERROR, markov, 1.0)

    return bounds


@lru_cache(maxsize=64)
def _table(case: Case) -> tuple[Array, Array]:
    """The cdf within 16 sd of the mean, at every 1/64 sd."""
    moments = logit_moments(case)
    z = np.arange(-_FURTHEST * 64, _FURTHEST * 64 + 1) / 64
    return z, logit_cdf(case, moments.mean + moments.std * z)
