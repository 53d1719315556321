"""Why logits vary as they do: the general variance taken apart, term by term.

For q and k drawn independently of each other, with means mu and covariances S,

    Var(q.k) = tr(S_q S_k) + mu_q' S_k mu_q + mu_k' S_q mu_k,

and with sigma^2 the mean of a covariance's diagonal and v that diagonal,

    tr(S_q S_k) = d_k sigma_q^2 sigma_k^2              d_k equal, uncorrelated elements
                + sum_j (v_qj - sigma_q^2)(v_kj - sigma_k^2)       unequal variances
                + sum_(i != j) S_q,ij S_k,ij                       dependent elements

Each term over the first is the share by which breaking one assumption changes the variance. Over
the grid of all given queries with all given keys the sum is no estimate: with covariances that
divide by n it is the variance of those n m logits, exactly.

What can go wrong: neighbouring rows of a text are alike, so that errors come from leaving out
blocks of consecutive rows, of q and k together (a block jackknife; Künsch 1989, Annals of
Statistics 17, 1217).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..quantities import Estimate

Array = NDArray[np.float64]
MOST_BLOCKS = 64
NAMES = ("unequal variances", "dependent elements", "means")


@dataclass(frozen=True, slots=True)
class Sums:
    """Number of rows, their sum (L, d_k), and the sum of their outer products (L, d_k, d_k)."""

    count: int
    total: Array
    outer: Array

    @classmethod
    def of(cls, rows: Array) -> Sums:
        """Of rows (L, n, d_k), L leading indices side by side."""
        return cls(rows.shape[1], rows.sum(1), rows.swapaxes(1, 2) @ rows)

    def without(self, other: Sums) -> Sums:
        """The sums of the rows that the other has not."""
        return Sums(self.count - other.count, self.total - other.total, self.outer - other.outer)

    def mean(self) -> Array:
        """Means, (L, d_k)."""
        return self.total / self.count

    def covariance(self, lost: int = 1) -> Array:
        """Covariances (L, d_k, d_k), divided by `count - lost`."""
        centred = self.outer - self.total[:, :, None] * self.mean()[:, None, :]
        return centred / (self.count - lost)


def variance_terms(q: Sums, k: Sums) -> Array:
    """Equal, unequal, dependent and means: the terms of Var(q.k), means over leading indices.

    Unbiased for independent q and k: `mu_q' S_k mu_q` of sample means has tr(S_q S_k) / n too much.

    Examples:
        >>> eye = np.concatenate([np.eye(2), -np.eye(2)])[None]
        >>> variance_terms(Sums.of(eye), Sums.of(3 * eye)).round(12).tolist()
        [8.0, 0.0, 0.0, -4.0]

    """
    s_q, s_k, mu_q, mu_k = q.covariance(), k.covariance(), q.mean(), k.mean()
    v_q, v_k = (np.diagonal(s, axis1=1, axis2=2) for s in (s_q, s_k))
    trace = (s_q * s_k).sum((1, 2))
    diagonal = (v_q * v_k).sum(1)
    equal = v_q.shape[1] * v_q.mean(1) * v_k.mean(1)
    means = _form(mu_q, s_k) + _form(mu_k, s_q) - trace * (1 / q.count + 1 / k.count)
    return np.array([t.mean() for t in (equal, diagonal - equal, trace - diagonal, means)])


def grid_variance(q: Sums, k: Sums) -> float:
    """Variance of the logits of all queries with all keys of their leading index, L of them pooled.

    Exactly that of the n m L numbers: the sum of the terms with covariances that divide by n, and
    the variance of the L mean logits.
    """
    s_q, s_k, mu_q, mu_k = q.covariance(0), k.covariance(0), q.mean(), k.mean()
    within = (s_q * s_k).sum((1, 2)) + _form(mu_q, s_k) + _form(mu_k, s_q)
    return float(within.mean() + (mu_q * mu_k).sum(1).var())


def _form(mu: Array, s: Array) -> Array:
    """`mu' S mu` for each leading index."""
    return np.asarray(np.einsum("li,lij,lj->l", mu, s, mu, optimize=True))


def term_shares(q: Array, k: Array) -> dict[str, Estimate]:
    """The share of each term beside that of equal, uncorrelated elements, with its error.

    q is (L, n, d_k), k (L, m, d_k). The errors are those of a block jackknife.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> shares = term_shares(*rng.normal(size=(2, 1, 400, 8)))
        >>> all(abs(share.value) < 5 * share.mcse for share in shares.values())
        True

    """
    whole_q, whole_k = Sums.of(q), Sums.of(k)
    value = _shares(whole_q, whole_k)
    blocks = min(q.shape[1] // 2, k.shape[1] // 2, MOST_BLOCKS)
    if blocks < 2:
        return {}
    left = np.array([
        _shares(whole_q.without(Sums.of(one)), whole_k.without(Sums.of(other)))
        for one, other in zip(
            np.array_split(q, blocks, axis=1), np.array_split(k, blocks, axis=1), strict=True
        )
    ])  # fmt: skip
    sd = np.sqrt(((left - left.mean(0)) ** 2).sum(0) * (blocks - 1))
    return {
        name: Estimate(blocks, float(share), float(error))
        for name, share, error in zip(NAMES, value, sd, strict=True)
    }


def _shares(q: Sums, k: Sums) -> Array:
    equal, *others = variance_terms(q, k)
    return np.array(others) / equal if equal > 0 else np.full(len(others), math.nan)
