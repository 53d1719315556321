"""Norms of q and k (QK-norm): where they stand, and what they make of a head."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..checks import InputError
from .architecture import model_of
from .checkpoint import Checkpoint
from .head_statistics import Array, Projections, after_qk_norm, mean_square
from .projections import Attention, with_norm

_NAMES = (("q_norm", "k_norm"), ("q_layernorm", "k_layernorm"))
_CENTRED = ("phi", "persimmon", "cohere", "cohere2")  # LayerNorm, not RMSNorm


@dataclass(frozen=True, slots=True)
class QkNorm:
    """Norms of q and k: gains and shifts of every head (of q, of k), and how they normalise.

    `sizes` are those of q and k where one norm is over all heads.
    """

    gains: tuple[Array, Array]
    shifts: tuple[Array, Array]
    centred: bool
    sizes: tuple[float, float] | None

    @classmethod
    def of(cls, checkpoint: Checkpoint, attention: Attention) -> QkNorm | None:
        """The norms that stand beside an attention's projections, or None."""
        heads, (model_type, model) = attention.heads, model_of(attention.config)
        offset = model.norm.offset if model and model.norm else 0.0
        gains, shifts, over_all = [], [], False
        names = _qk_names(checkpoint, attention)
        for name, n in zip(names, (heads.n_heads, heads.n_kv_heads)[: len(names)], strict=True):
            gain, shift = (checkpoint.maybe(f"{name}.{part}") for part in ("weight", "bias"))
            if gain is None or gain.size not in (heads.d_k, n * heads.d_k):
                raise InputError(
                    f"{name} must have {heads.d_k} or {n * heads.d_k} gains, "
                    f"got {0 if gain is None else gain.size}; give --n-heads or --dk"
                )
            over_all |= gain.shape == (n * heads.d_k,) and n > 1
            gains.append(_of_heads(gain, n, heads.d_k) + offset)
            shifts.append(np.zeros((n, heads.d_k)) if shift is None or shift.shape != gain.shape
                          else _of_heads(shift, n, heads.d_k))  # fmt: skip
        if not gains:
            return None
        sizes = _over_all_heads(checkpoint, attention) if over_all else None
        return cls((gains[0], gains[1]), (shifts[0], shifts[1]), model_type in _CENTRED, sizes)

    def applied(self, head: Projections, query: int, key: int) -> Projections:
        """One head's maps through the norms."""
        gains = self.gains[0][query], self.gains[1][key]
        shifts = self.shifts[0][query], self.shifts[1][key]
        return after_qk_norm(head, gains, shifts, self.sizes, self.centred)


def _qk_names(checkpoint: Checkpoint, attention: Attention) -> list[str]:
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
    squares = np.zeros(2)
    for _, head in with_norm(checkpoint, attention):
        squares += mean_square(head.w_q, head.b_q), mean_square(head.w_k, head.b_k)
    q, k = np.sqrt(squares / attention.heads.n_heads)
    return float(q), float(k)
