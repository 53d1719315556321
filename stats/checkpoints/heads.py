"""Every head of a checkpoint, one at a time: its matrices out of the files, and their figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .checkpoint import Checkpoint
from .head_statistics import HeadStatistics, head_statistics
from .projections import Attention, all_projections, norm_before
from .qk_norms import QkNorm, qk_norm
from .sides import Side


@dataclass(frozen=True, slots=True)
class Layer:
    """One attention: the figures of its heads, and what each W_q shares with none but its copies.

    Mean, standard deviation and kurtosis of thousands of numbers agree to the last bit in copies
    alone; a W_q of one number has a standard deviation of 0 there.
    """

    attention: Attention
    heads: tuple[HeadStatistics, ...]
    marks: tuple[tuple[float, float, float], ...]
    qk_normed: bool

    @property
    def where(self) -> str:
        """Its path in the model."""
        return self.attention.site.path


def read_layer(checkpoint: Checkpoint, attention: Attention) -> Layer:
    """One attention, its heads read one after the other."""
    norm = qk_norm(checkpoint, attention)
    heads, marks = [], []
    for q, k in _sides(checkpoint, attention, norm):
        heads.append(head_statistics(q, k, attention.factor))
        marks.append((q.mean, q.sd, q.kurtosis))
    return Layer(attention, tuple(heads), tuple(marks), norm is not None)


def _sides(
    checkpoint: Checkpoint, attention: Attention, norm: QkNorm | None
) -> Iterator[tuple[Side, Side]]:
    """Queries and keys of every head with their norms; keys that are shared are measured once."""
    before = norm_before(checkpoint, attention)
    shared = attention.heads.n_heads // attention.heads.n_kv_heads
    key = None
    for head, (query, bare) in enumerate(all_projections(checkpoint, attention)):
        sides = []
        for of, projection in enumerate((query, bare)):
            if of == 1 and key is not None and key.bare is bare:
                sides.append(key)
                continue
            seen = before.applied(projection) if before else projection
            seen = norm.applied(seen, of, head // shared if of else head) if norm else seen
            sides.append(Side.of(projection, seen))
        key = sides[1]
        yield sides[0], key
