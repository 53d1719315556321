"""What one head's matrices say: their spread, their spectrum, the logits they promise.

For tokens x, y independent of each other, mean 0 and covariance 1, the logit
`factor (W_q x + b_q) . (W_k y + b_k)` has, with A = W_q' W_k,

    variance = factor^2 (||A||_F^2 + |W_k' b_q|^2 + |W_q' b_k|^2),

whatever else their law. The last term is common to the keys of a row, so that softmax does not see
it: the variance *within a row* is the sum of the first two. All of it follows from the d_k x d_k
matrices G_q = W_q W_q' and G_k = W_k W_k': ||A||_F^2 = tr(G_q G_k), and the squared singular values
of A are the eigenvalues of G_q^(1/2) G_k G_q^(1/2).

What can go wrong: a trained model's tokens are no white noise (they share a mean and a few
directions), so that this measures the matrices, and a real text's logits differ; a rotation (RoPE)
stands between q and k, and the figures are those of relative position 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_LARGEST = 1e60  # of an element: traces of four matrices are then finite


@dataclass(frozen=True, slots=True)
class Projections:
    """One head's maps from tokens to q and k: matrices (d_k, inputs), biases (d_k,) or None."""

    w_q: Array
    w_k: Array
    b_q: Array | None = None
    b_k: Array | None = None


@dataclass(frozen=True, slots=True)
class HeadStatistics:
    """Figures of one head; nan where its elements are not finite or too large.

    `alignment` is tr(W_q W_k') / (||W_q||_F ||W_k||_F), in [-1, 1]: near 0 for independent
    matrices, 1 for equal ones; factor times its numerator is the mean logit of a token with
    itself. `kurtosis` is the elements' excess over the normal law. `top` is the largest singular
    value of factor A, `stable_rank` ||A||_F^2 / ||A||_2^2. `logit_std` is that within a row.
    """

    sd_q: float
    sd_k: float
    kurtosis_q: float
    kurtosis_k: float
    alignment: float
    top: float
    stable_rank: float
    logit_std: float
    broken: int = 0
    same: bool = False


def head_statistics(head: Projections, factor: float) -> HeadStatistics:
    """The figures of one head whose logits are `factor q.k`.

    Examples:
        >>> one = np.eye(4)[:2]
        >>> said = head_statistics(Projections(one, 2 * one), 0.5)
        >>> said.alignment, said.top, said.stable_rank, round(said.logit_std, 12)
        (1.0, 1.0, 2.0, 1.414213562373)

    """
    parts = [part for part in (head.w_q, head.w_k, head.b_q, head.b_k) if part is not None]
    broken = sum(part.size - int(np.isfinite(part).sum()) for part in parts)
    if broken or max(float(abs(part).max()) for part in parts) > _LARGEST:
        return HeadStatistics(*(math.nan,) * 8, broken=broken)
    gram_q, gram_k = head.w_q @ head.w_q.T, head.w_k @ head.w_k.T
    variance = frobenius = max(float((gram_q * gram_k).sum()), 0.0)
    if head.b_q is not None:
        variance += float(head.b_q @ gram_k @ head.b_q)
    top = _top(gram_q, gram_k)
    return HeadStatistics(
        float(head.w_q.std()),
        float(head.w_k.std()),
        _kurtosis(head.w_q),
        _kurtosis(head.w_k),
        _alignment(head, math.sqrt(float(gram_q.trace()) * float(gram_k.trace()))),
        abs(factor) * top,
        frobenius / top**2 if top else 0.0,
        abs(factor) * math.sqrt(variance),
        same=head.w_q.shape == head.w_k.shape and bool((head.w_q == head.w_k).all()),
    )


def _top(gram_q: Array, gram_k: Array) -> float:
    """Largest singular value of W_q' W_k."""
    values, vectors = np.linalg.eigh(gram_q)
    root = (vectors * np.sqrt(values.clip(0.0))) @ vectors.T
    return math.sqrt(max(float(np.linalg.eigvalsh(root @ gram_k @ root)[-1]), 0.0))


def _kurtosis(matrix: Array) -> float:
    centred = matrix - matrix.mean()
    square = centred * centred
    second = float(square.mean())
    return float((square * square).mean()) / second**2 - 3.0 if second else 0.0


def _alignment(head: Projections, size: float) -> float:
    if head.w_q.shape != head.w_k.shape:
        return math.nan
    return float((head.w_q * head.w_k).sum()) / size if size else 0.0


def after_norm(head: Projections, gain: Array, shift: Array | None, centred: bool) -> Projections:
    """The maps from what a norm is given, normalised, through its gain and shift.

    `W' = W diag(gain)`, `b' = b + W shift`. What LayerNorm gives is orthogonal to (1, ..., 1), so
    that the mean of each row of W' is taken off, and the covariance is D/(D - 1) on what is left.

    Examples:
        >>> head = Projections(np.ones((1, 2)), np.ones((1, 2)))
        >>> after_norm(head, np.array([3.0, 1.0]), None, True).w_q.round(6).tolist()
        [[1.414214, -1.414214]]

    """

    def folded(matrix: Array, bias: Array | None) -> tuple[Array, Array | None]:
        product = matrix * gain
        if centred:
            inputs = matrix.shape[1]
            product = product - product.mean(axis=1, keepdims=True)
            product *= math.sqrt(inputs / max(inputs - 1, 1))
        moved = None if shift is None else matrix @ shift
        return product, moved if bias is None else bias if moved is None else bias + moved

    w_q, b_q = folded(head.w_q, head.b_q)
    w_k, b_k = folded(head.w_k, head.b_k)
    return Projections(w_q, w_k, b_q, b_k)


def after_qk_norm(
    head: Projections,
    gains: tuple[Array, Array],
    shifts: tuple[Array, Array],
    sizes: tuple[float, float] | None,
    centred: bool,
) -> Projections:
    """The maps with q and k divided by their root mean squares, times gains, plus shifts.

    A norm divides each q by its own root mean square; here it is divided by that over white
    tokens, which is the same where |q| hardly varies: an approximation. `sizes` are those of q and
    k where one norm is over all heads; else the head's own are taken.

    Examples:
        >>> head = Projections(np.eye(2), 5 * np.eye(2))
        >>> gains, none = (np.ones(2), np.array([1.0, 3.0])), (np.zeros(2), np.zeros(2))
        >>> after_qk_norm(head, gains, none, None, False).w_k.tolist()
        [[1.0, 0.0], [0.0, 3.0]]

    """

    def normed(i: int, matrix: Array, bias: Array | None) -> tuple[Array, Array]:
        if centred:
            matrix = matrix - matrix.mean(axis=0)
            bias = None if bias is None else bias - bias.mean()
        size = sizes[i] if sizes else math.sqrt(mean_square(matrix, bias))
        over = gains[i] / (size or 1.0)
        return matrix * over[:, None], shifts[i] + (0.0 if bias is None else bias * over)

    w_q, b_q = normed(0, head.w_q, head.b_q)
    w_k, b_k = normed(1, head.w_k, head.b_k)
    return Projections(w_q, w_k, b_q, b_k)


def mean_square(matrix: Array, bias: Array | None) -> float:
    """Mean square of an element of W x + b over white x: (||W||_F^2 + |b|^2) / d_k.

    Examples:
        >>> mean_square(np.eye(2), np.array([1.0, 1.0]))
        2.0

    """
    square = float((matrix**2).sum()) + (0.0 if bias is None else float((bias**2).sum()))
    return square / len(matrix)
