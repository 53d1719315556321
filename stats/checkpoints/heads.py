"""Every head of a checkpoint, one at a time: its matrices out of the files, and their figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from .checkpoint import Checkpoint
from .head_statistics import Array, HeadStatistics, head_statistics
from .projections import Attention, with_norm
from .qk_norms import QkNorm


@dataclass(frozen=True, slots=True)
class Head:
    """One head and its figures: of the matrices alone, and with the norms that are known.

    `seen` has the norm before the projections and those of q and k folded in: what comes of white
    noise that is normalised. None where there are no such norms, or none that are known.
    """

    alone: HeadStatistics
    seen: HeadStatistics | None
    digest: bytes

    @property
    def figures(self) -> HeadStatistics:
        """Those with the norms where they are known."""
        return self.seen or self.alone


@dataclass(frozen=True, slots=True)
class Layer:
    """One attention with the figures of all its heads."""

    attention: Attention
    heads: tuple[Head, ...]
    qk_normed: bool

    @property
    def where(self) -> str:
        """Its path in the model."""
        return self.attention.site.path


def read_layer(checkpoint: Checkpoint, attention: Attention) -> Layer:
    """One attention, its heads read one after the other."""
    norm = QkNorm.of(checkpoint, attention)
    return Layer(attention, tuple(_heads(checkpoint, attention, norm)), norm is not None)


def _heads(checkpoint: Checkpoint, attention: Attention, norm: QkNorm | None) -> Iterator[Head]:
    shared = attention.heads.n_heads // attention.heads.n_kv_heads
    for head, (bare, folded) in enumerate(with_norm(checkpoint, attention)):
        seen = folded if norm is None else norm.applied(folded, head, head // shared)
        yield Head(
            head_statistics(bare, attention.factor),
            None if seen is bare else head_statistics(seen, attention.factor),
            _digest(bare.w_q),
        )


def _digest(matrix: Array) -> bytes:
    """What a matrix and its copies share; b"" for one of zeros."""
    data = np.ascontiguousarray(matrix).data
    return blake2b(data, digest_size=16).digest() if matrix.any() else b""
