"""What one head's matrices say: their alignment, their spectrum, the logits they promise.

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

from .sides import Array, Side


@dataclass(frozen=True, slots=True)
class HeadStatistics:
    """Figures of one head; nan where its elements are not finite or too large.

    `sd` and `kurtosis` are of the elements of W_q and W_k. `alignment` is
    tr(W_q W_k') / (||W_q||_F ||W_k||_F), in [-1, 1]: near 0 for independent matrices, 1 for equal
    ones; factor times its numerator is the mean logit of a token with itself. `top` is the largest
    singular value of factor A, `stable_rank` ||A||_F^2 / ||A||_2^2, `logit_std` that within a row,
    with the norms that are known; `alone` is the same of the matrices and biases without norms.
    """

    sd_q: float
    sd_k: float
    kurtosis_q: float
    kurtosis_k: float
    alignment: float
    top: float
    stable_rank: float
    logit_std: float
    alone: float
    broken: int = 0
    same: bool = False


def head_statistics(q: Side, k: Side, factor: float) -> HeadStatistics:
    """The figures of one head whose logits are `factor q.k`.

    Examples:
        >>> from .sides import Projection
        >>> one = np.eye(4)[:2]
        >>> q, k = (Side.of(Projection(matrix)) for matrix in (one, 2 * one))
        >>> said = head_statistics(q, k, 0.5)
        >>> said.alignment, said.top, said.stable_rank, round(said.logit_std, 12)
        (1.0, 1.0, 2.0, 1.414213562373)

    """
    if not (q.sound and k.sound):
        return HeadStatistics(*(math.nan,) * 9, broken=q.broken + k.broken)
    w_q, w_k = q.bare.matrix, k.bare.matrix
    size = math.sqrt(float(q.gram.trace()) * float(k.gram.trace()))
    alike = w_q.shape == w_k.shape
    product = float(np.vdot(w_q, w_k)) if alike else math.nan
    frobenius = _squared_norm(q.gram_seen, k.gram_seen)
    top = abs(factor) * _top(q.gram_seen, k.gram_seen)
    return HeadStatistics(
        q.sd,
        k.sd,
        q.kurtosis,
        k.kurtosis,
        product / size if size else 0.0,
        top,
        factor**2 * frobenius / top**2 if top else 0.0,
        abs(factor) * math.sqrt(frobenius + _of_bias(q.seen.bias, k.gram_seen)),
        abs(factor) * math.sqrt(_squared_norm(q.gram, k.gram) + _of_bias(q.bare.bias, k.gram)),
        same=alike and bool((w_q == w_k).all()),
    )


def _squared_norm(gram_q: Array, gram_k: Array) -> float:
    """||W_q' W_k||_F^2."""
    return max(float(np.vdot(gram_q, gram_k)), 0.0)


def _of_bias(bias: Array | None, gram_k: Array) -> float:
    """|W_k' b_q|^2."""
    return 0.0 if bias is None else max(float(bias @ gram_k @ bias), 0.0)


def _top(gram_q: Array, gram_k: Array) -> float:
    """Largest singular value of W_q' W_k."""
    values, vectors = np.linalg.eigh(gram_q)
    root = vectors * np.sqrt(values.clip(0.0))
    return math.sqrt(max(float(np.linalg.eigvalsh(root.T @ gram_k @ root)[-1]), 0.0))
