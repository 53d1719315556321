"""One side of a head, its queries or its keys: the map from a token, and what is measured of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LARGEST = 1e60  # of an element: traces of four matrices are then finite


@dataclass(frozen=True, slots=True)
class Projection:
    """The map `W x + b` of a token x: a matrix (d_k, inputs) and a bias (d_k,), None for none."""

    matrix: Array
    bias: Array | None = None

    @property
    def mean_square(self) -> float:
        """Mean square of an element over white x: `(||W||_F^2 + |b|^2) / d_k`.

        Examples:
            >>> Projection(np.eye(2), np.array([1.0, 1.0])).mean_square
            2.0

        """
        bias = 0.0 if self.bias is None else float((self.bias**2).sum())
        return (float((self.matrix**2).sum()) + bias) / len(self.matrix)

    def after_norm(self, gain: Array, shift: Array | None, centred: bool) -> Projection:
        """The map from white noise, normalised, through a norm's gain and shift.

        `W' = W diag(gain)`, `b' = b + W shift`. What LayerNorm gives is orthogonal to (1, ..., 1),
        so that the mean of each row of W' is taken off, and its covariance is D/(D - 1) on the
        rest.

        Examples:
            >>> Projection(np.ones((1, 2))).after_norm(np.array([3.0, 1.0]), None, True).matrix
            array([[ 1.41421356, -1.41421356]])

        """
        matrix = self.matrix * gain
        if centred:
            inputs = matrix.shape[1]
            matrix -= matrix.mean(axis=1, keepdims=True)
            matrix *= math.sqrt(inputs / max(inputs - 1, 1))
        if shift is None:
            return Projection(matrix, self.bias)
        moved = self.matrix @ shift
        return Projection(matrix, moved if self.bias is None else self.bias + moved)

    def normalised(
        self, gain: Array, shift: Array, centred: bool, size: float | None = None
    ) -> Projection:
        """The map with its output divided by its root mean square, times gain, plus shift.

        A norm of q or k divides each by its own root mean square; here it is divided by that over
        white tokens, which is the same where |q| hardly varies: an approximation. `size` is that of
        all heads together where one norm is over them.

        Examples:
            >>> none, gain = np.zeros(2), np.array([1.0, 3.0])
            >>> Projection(5 * np.eye(2)).normalised(gain, none, False).matrix.tolist()
            [[1.0, 0.0], [0.0, 3.0]]

        """
        plain = self
        if centred:
            bias = None if self.bias is None else self.bias - self.bias.mean()
            plain = Projection(self.matrix - self.matrix.mean(axis=0), bias)
        over = gain / (size or math.sqrt(plain.mean_square) or 1.0)
        bias = shift if plain.bias is None else shift + plain.bias * over
        return Projection(plain.matrix * over[:, None], bias)


@dataclass(frozen=True, slots=True)
class Side:
    """A projection and its figures; those of `seen`, which has the norms folded in, beside.

    `mean`, `sd` and `kurtosis` are of the matrix's elements, kurtosis in excess of the normal
    law's. `broken` elements are nan or inf. `sound` is false where no figures can be made: with
    broken elements, or with some beyond 1e60. The Grams are `W W'`.
    """

    bare: Projection
    seen: Projection
    mean: float
    sd: float
    kurtosis: float
    gram: Array
    gram_seen: Array
    broken: int
    sound: bool

    @classmethod
    def of(cls, bare: Projection, seen: Projection | None = None) -> Side:
        """The figures of a projection, as it stands and with its norms."""
        seen = bare if seen is None else seen
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(bare.matrix.mean())
            centred = bare.matrix - mean
            centred *= centred
            squares = centred.ravel()
            second = float(squares.mean())
            fourth = float(squares @ squares) / squares.size
            gram = bare.matrix @ bare.matrix.T
            gram_seen = gram if seen is bare else seen.matrix @ seen.matrix.T
            sizes = [gram, gram_seen, *(p.bias for p in (bare, seen) if p.bias is not None)]
            sound = all(float(abs(size).max()) < LARGEST**2 for size in sizes)  # false for nan
        broken = 0 if sound else _broken(bare)
        kurtosis = fourth / second**2 - 3.0 if sound and second else 0.0
        return cls(bare, seen, mean, math.sqrt(second), kurtosis, gram, gram_seen, broken, sound)


def _broken(projection: Projection) -> int:
    parts = [part for part in (projection.matrix, projection.bias) if part is not None]
    return sum(part.size - int(np.isfinite(part).sum()) for part in parts)
