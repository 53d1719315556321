"""Every head of a checkpoint, one at a time: its matrices out of the files, and their figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..checks import InputError
from .architecture import Declared, Heads, heads_of, model_of, part_of, scale_of
from .checkpoint import Checkpoint
from .head_statistics import (
    Array,
    HeadStatistics,
    Projections,
    after_norm,
    after_qk_norm,
    head_statistics,
    mean_square,
)
from .layouts import Site, find_sites, head_starts
from .models import Config, Norm

_QK_NORMS = (("q_norm", "k_norm"), ("q_layernorm", "k_layernorm"))
_CENTRED_QK = ("phi", "persimmon", "cohere", "cohere2", "stablelm")  # LayerNorm, not RMSNorm


@dataclass(frozen=True, slots=True)
class Head:
    """One head and its figures: of the matrices alone, and of what they make of the norm's output.

    `seen` has the norm before the projections and the norms of q and k in it, where the model's
    are known; None where there are none or they are not.
    """

    site: str
    layer: int
    head: int
    kv_head: int
    d_k: int
    inputs: int
    scale: str
    factor: float
    alone: HeadStatistics
    seen: HeadStatistics | None

    @property
    def logit_std(self) -> float:
        """The predicted standard deviation of a row's logits, with the norms where known."""
        return (self.seen or self.alone).logit_std


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention of a checkpoint, ready to be read head by head."""

    site: Site
    heads: Heads
    scale: str
    factor: float
    known: bool
    config: Config


def attentions(checkpoint: Checkpoint, given: Declared) -> list[Attention]:
    """Every attention with its split and its scale.

    Raises InputError for an unknown layout, or where config and shapes do not fit.
    """
    model_type = model_of(part_of(checkpoint.config, ""))[0] or model_of(checkpoint.config)[0]
    shapes = checkpoint.shapes
    found = []
    for site in find_sites(shapes, model_type):
        config = part_of(checkpoint.config, site.path)
        heads = heads_of(site, shapes, config, given)
        scale, factor, known = scale_of(config, site.layer, heads.d_k, given)
        found.append(Attention(site, heads, scale, factor, known, config))
    return found


def read_heads(checkpoint: Checkpoint, attention: Attention) -> Iterator[Head]:
    """The heads of one attention, read one after the other."""
    site, heads = attention.site, attention.heads
    norm, gain, shift = _norm_before(checkpoint, attention)
    qk = _QkNorm.of(checkpoint, attention)
    queries, keys = head_starts(site.layout, heads.n_heads, heads.n_kv_heads, heads.d_k)
    for head, (query, key) in enumerate(zip(queries, keys, strict=True)):
        bare = projections(checkpoint, site, query, key, heads.d_k)
        seen = bare
        if norm is not None and gain is not None:
            seen = after_norm(bare, gain, shift, norm.centred)
        if qk is not None:
            seen = qk.applied(seen, head, head * heads.n_kv_heads // heads.n_heads)
        yield Head(
            site.path,
            site.layer,
            head,
            head * heads.n_kv_heads // heads.n_heads,
            heads.d_k,
            bare.w_q.shape[1],
            attention.scale,
            attention.factor,
            head_statistics(bare, attention.factor),
            None if seen is bare else head_statistics(seen, attention.factor),
        )


def projections(
    checkpoint: Checkpoint, site: Site, query: int, key: int, d_k: int
) -> Projections:
    """The matrices and biases of the head whose rows begin at `query` and `key`."""

    def matrix(name: str, start: int) -> Array:
        rows = slice(start, start + d_k)
        if site.layout.inputs_first:
            return checkpoint.part(name, slice(None), rows).T
        return checkpoint.part(name, rows)

    def bias(name: str, start: int) -> Array | None:
        named = name.removesuffix(site.layout.tensor) + site.layout.bias
        if named not in checkpoint.tensors:
            return None
        return checkpoint.part(named, slice(start, start + d_k))

    return Projections(
        matrix(site.query, query),
        matrix(site.key, key),
        bias(site.query, query),
        bias(site.key, key),
    )


def _norm_before(
    checkpoint: Checkpoint, attention: Attention
) -> tuple[Norm | None, Array | None, Array | None]:
    """The norm that a self-attention reads, its gain and its shift, where they are known."""
    _, model = model_of(attention.config)
    norm = model.norm if model else None
    crossed = "encoder_attn" in attention.site.path or "EncDec" in attention.site.path
    if norm is None or crossed or attention.config.get("do_layer_norm_before") is False:
        return None, None, None
    for name in _norm_names(attention.site.path, norm):
        gain = checkpoint.maybe(f"{name}.weight")
        if gain is not None and gain.shape == (_inputs(checkpoint, attention.site),):
            return norm, gain + norm.offset, checkpoint.maybe(f"{name}.bias")
    return None, None, None


def _norm_names(path: str, norm: Norm) -> list[str]:
    """Where the norm's weights may stand, for an attention at `path`."""
    parts = path.split(".")
    at = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    if at is None:
        return []
    layer = parts[: at + 1]
    if norm.previous:
        if layer[-1] == "0":
            return [".".join([*parts[: max(at - 2, 0)], norm.first])]
        layer = [*parts[:at], str(int(layer[-1]) - 1)]
    return [".".join([*layer, name]) for name in norm.names]


def _inputs(checkpoint: Checkpoint, site: Site) -> int:
    return checkpoint.tensors[site.query].shape[0 if site.layout.inputs_first else 1]


@dataclass(frozen=True, slots=True)
class _QkNorm:
    """Norms of q and k: the gains of every head, and the sizes where one norm is over all heads."""

    gains: tuple[Array, Array]
    centred: bool
    sizes: tuple[float, float] | None

    @classmethod
    def of(cls, checkpoint: Checkpoint, attention: Attention) -> _QkNorm | None:
        for names in _QK_NORMS:
            found = [checkpoint.maybe(f"{attention.site.path}.{name}.weight") for name in names]
            gains = [gain for gain in found if gain is not None]
            if len(gains) == 2:
                return cls._with(checkpoint, attention, gains)
        return None

    @classmethod
    def _with(cls, checkpoint: Checkpoint, attention: Attention, gains: list[Array]) -> _QkNorm:
        heads, (name, model) = attention.heads, model_of(attention.config)
        offset = model.norm.offset if model and model.norm else 0.0
        of_heads, over_all = [], False
        for gain, n in zip(gains, (heads.n_heads, heads.n_kv_heads), strict=True):
            if gain.size not in (heads.d_k, n * heads.d_k):
                raise InputError(
                    f"{attention.site.path}'s norms of q and k must have {heads.d_k} or "
                    f"{n * heads.d_k} gains, got {gain.size}; give --n-heads or --dk"
                )
            over_all |= gain.shape == (n * heads.d_k,) and n > 1
            of_heads.append(np.broadcast_to(gain.reshape(-1, heads.d_k), (n, heads.d_k)) + offset)
        sizes = _over_all_heads(checkpoint, attention) if over_all else None
        return cls((of_heads[0], of_heads[1]), name in _CENTRED_QK, sizes)

    def applied(self, head: Projections, query: int, key: int) -> Projections:
        gains = self.gains[0][query], self.gains[1][key]
        return after_qk_norm(head, gains, self.sizes, self.centred)


def _over_all_heads(checkpoint: Checkpoint, attention: Attention) -> tuple[float, float]:
    """Root mean square of an element of q and of k over all heads, for white tokens."""
    site, heads = attention.site, attention.heads
    starts = head_starts(site.layout, heads.n_heads, heads.n_kv_heads, heads.d_k)
    squares = np.zeros(2)
    for query, key in zip(*starts, strict=True):
        head = projections(checkpoint, site, query, key, heads.d_k)
        squares += mean_square(head.w_q, head.b_q), mean_square(head.w_k, head.b_k)
    q, k = np.sqrt(squares / heads.n_heads)
    return float(q), float(k)
