"""Exact moments of the logit x' A y over fresh tokens, A = W_Q' W_K one given pair of weights.

With normal tokens x' A y is, given y, normal of variance |A y|^2, and x' A x a quadratic form.
Normed tokens are normal ones divided by an independent chi, in the free dimensions of the token.

What can go wrong: on the diagonal a large mean cancels; on a sphere a multiple of the identity is
a constant, so that the mean eigenvalue is taken out first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..cases import Case
from ..laws.element_moments import double_factorial
from ..laws.logit_moments import ORDER, LogitMoments, central_from_cumulants
from ..quadrature import Array
from .tokens import free_dimensions, rising

Matrices = tuple[Array, Array]
"""W_Q and W_K, both [d_k, d_model]."""


def fixed_logit_moments(case: Case, matrices: Matrices) -> LogitMoments:
    """Mean, standard deviation and standardised moments of `(W_Q x).(W_K y)` over the tokens.

    Off-diagonal: mean 0 and variance `tr(A C A' C)`, C the covariance of a token: the identity,
    for layernorm D/(D-1) times the projection onto vectors whose elements sum to 0. Diagonal,
    with S = (A + A')/2 and its n eigenvalues l: mean `tr(S C)`, variance `2 sum l^2` for normal
    tokens and `2 D^2 / (n (n+2)) sum (l - mean l)^2` for normed ones.

    Examples:
        >>> case = Case(d_k=2, weights="normal:1", d_model=2, tokens="normal", ensemble="tokens")
        >>> fixed_logit_moments(case, (np.eye(2), np.eye(2))).std ** 2
        2.0000000000000004

    """
    w_q, w_k = (np.asarray(w, np.float64) for w in matrices)
    total = w_q.shape[1]
    if case.tokens == "layernorm":
        w_q, w_k = (w - w.mean(axis=1, keepdims=True) for w in (w_q, w_k))
    n = free_dimensions(case.tokens, total)
    normed = case.tokens != "normal"
    # E of degree 2m over the sphere of radius sqrt(D) relative to a normal vector
    shrunk = [total**m / rising(n, m) if normed else 1.0 for m in range(ORDER + 1)]
    if case.pair == "diagonal":
        return _diagonal(_symmetric_eigenvalues(w_q, w_k), n, total, shrunk, normed)
    squares = _singular_values(w_q, w_k) ** 2
    moments = _quadratic_moments(_power_sums(squares, ORDER // 2))
    even = [double_factorial(2 * m) * moments[m] * shrunk[m] ** 2 for m in range(ORDER // 2 + 1)]
    return LogitMoments(0.0, math.sqrt(even[1]), _standardised(_interleaved(even)))


def _singular_values(w_q: Array, w_k: Array) -> Array:
    """Those of A = W_Q' W_K that are not 0, by way of triangular factors."""
    values: Array = np.linalg.svd(_triangle(w_q) @ _triangle(w_k).T, compute_uv=False)
    return values


def _triangle(rows: Array) -> Array:
    """The triangular factor R of `rows' = Q R`."""
    factor: Array = np.linalg.qr(rows.T)[1]
    return factor


def _symmetric_eigenvalues(w_q: Array, w_k: Array) -> Array:
    """Those of (A + A')/2 that are not 0: at most 2 d_k."""
    both = _triangle(np.concatenate([w_q, w_k]))
    r_q, r_k = both[:, : len(w_q)], both[:, len(w_q) :]
    half = r_q @ r_k.T
    values: Array = np.linalg.eigvalsh((half + half.T) / 2)
    return values


def _diagonal(
    eigenvalues: Array, n: int, total: int, shrunk: Sequence[float], normed: bool
) -> LogitMoments:
    trace = float(eigenvalues.sum())
    if not normed:
        cumulants = _quadratic_cumulants(_power_sums(eigenvalues, ORDER))
        central = central_from_cumulants([0.0, 0.0, *cumulants[2:]])
        return LogitMoments(trace, math.sqrt(central[2]), _standardised(central))
    mean = trace / n
    zeros = n - eigenvalues.size  # -1 where layernorm's own zero is among the eigenvalues
    sums = [
        s + zeros * (-mean) ** (r + 1) for r, s in enumerate(_power_sums(eigenvalues - mean, ORDER))
    ]
    moments = _quadratic_moments([0.0, *sums[1:]])
    central = tuple(m * s for m, s in zip(moments, shrunk, strict=True))
    return LogitMoments(total * mean, math.sqrt(central[2]), _standardised(central))


def _power_sums(values: Array, order: int) -> list[float]:
    return [float((values**r).sum()) for r in range(1, order + 1)]


def _quadratic_cumulants(sums: Sequence[float]) -> list[float]:
    """`kappa_r = 2^(r-1) (r-1)! sum l^r` of `sum l_i g_i^2`, g_i standard normal, from r = 0."""
    return [0.0] + [2.0 ** (r - 1) * math.factorial(r - 1) * s for r, s in enumerate(sums, start=1)]


def _quadratic_moments(sums: Sequence[float]) -> list[float]:
    """Raw moments of the same form; the sums are positive or the mean is 0: no cancellation."""
    kappa = _quadratic_cumulants(sums)
    moments = [1.0]
    for r in range(1, len(kappa)):
        terms = (math.comb(r - 1, j - 1) * kappa[j] * moments[r - j] for j in range(1, r + 1))
        moments.append(math.fsum(terms))
    return moments


def _interleaved(even: Sequence[float]) -> list[float]:
    return [0.0 if r % 2 else even[r // 2] for r in range(2 * len(even) - 1)]


def _standardised(central: Sequence[float]) -> tuple[float, ...]:
    sd = math.sqrt(central[2])
    return tuple(m / sd**r if sd else 0.0 for r, m in enumerate(central))
