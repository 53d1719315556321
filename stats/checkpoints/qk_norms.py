"""Norms of q and k (QK-norm): where they stand, and what they make of a projection."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..checks import InputError
from .architecture import model_of
from .checkpoint import Checkpoint
from .projections import Attention, all_projections, norm_before
from .sides import Array, Projection

_NAMES = (("q_norm", "k_norm"), ("q_layernorm", "k_layernorm"))
_CENTRED = ("phi", "persimmon", "cohere", "cohere2")  # LayerNorm, not RMSNorm


@dataclass(frozen=True, slots=True)
class QkNorm:
    """Norms of q and of k (in this order): gains and shifts of every head, how they normalise.

    `sizes` are the root mean squares of q and k where one norm is over all heads.
    """

    gains: tuple[Array, Array]
    shifts: tuple[Array, Array]
    centred: bool
    sizes: tuple[float, float] | None

    def applied(self, projection: Projection, of: int, head: int) -> Projection:
        """The projection of a head of q (`of` 0) or k (1) through its norm."""
        size = None if self.sizes is None else self.sizes[of]
        return projection.normalised(
            self.gains[of][head], self.shifts[of][head], self.centred, size
        )


def qk_norm(checkpoint: Checkpoint, attention: Attention) -> QkNorm | None:
    """The norms that stand beside an attention's projections, or None."""
    names = _names(checkpoint, attention)
    if not names:
        return None
    heads, (model_type, model) = attention.heads, model_of(attention.config)
    offset = model.norm.offset if model and model.norm else 0.0
    gains, shifts, over_all = [], [], False
    for name, n in zip(names, (heads.n_heads, heads.n_kv_heads), strict=True):
        gain, shift = checkpoint.part(f"{name}.weight"), checkpoint.maybe(f"{name}.bias")
        if gain.size not in (heads.d_k, n * heads.d_k):
            raise InputError(
                f"{name} must have {heads.d_k} or {n * heads.d_k} gains, got {gain.size}; "
                "give --n-heads or --dk"
            )
        if shift is None or shift.shape != gain.shape:
            shift = np.zeros_like(gain)
        over_all |= gain.shape == (n * heads.d_k,) and n > 1
        gains.append(_of_heads(gain, n, heads.d_k) + offset)
        shifts.append(_of_heads(shift, n, heads.d_k))
    sizes = _over_all_heads(checkpoint, attention) if over_all else None
    return QkNorm((gains[0], gains[1]), (shifts[0], shifts[1]), model_type in _CENTRED, sizes)


def _names(checkpoint: Checkpoint, attention: Attention) -> list[str]:
    """The norms of q and of k beside an attention's projections; none where there are none."""
    for names in _NAMES:
        paths = [f"{attention.site.path}.{name}" for name in names]
        if all(f"{path}.weight" in checkpoint.tensors for path in paths):
            return paths
    return []


def _of_heads(vector: Array, n: int, d_k: int) -> Array:
    return np.broadcast_to(vector.reshape(-1, d_k), (n, d_k))


def _over_all_heads(checkpoint: Checkpoint, attention: Attention) -> tuple[float, float]:
    """Root mean square of an element of q and of k over all heads, for white tokens."""
    before, squares, heads = norm_before(checkpoint, attention), [0.0, 0.0], 0
    for pair in all_projections(checkpoint, attention):
        heads += 1
        for of, projection in enumerate(pair):
            squares[of] += (before.applied(projection) if before else projection).mean_square
    return math.sqrt(squares[0] / heads) or 1.0, math.sqrt(squares[1] / heads) or 1.0
