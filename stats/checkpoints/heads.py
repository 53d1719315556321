"""Every head of a checkpoint, one at a time: its matrices out of the files, and their figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

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
_CENTRED_QK = ("phi", "persimmon", "cohere", "cohere2")  # LayerNorm, not RMSNorm


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention of a checkpoint, ready to be read head by head.

    `known` says whether the scale is declared, by the model type or by the user, or assumed.
    """

    site: Site
    heads: Heads
    inputs: int
    scale: str
    factor: float
    known: bool
    config: Config
    qk_normed: bool


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


def attentions(checkpoint: Checkpoint, given: Declared) -> list[Attention]:
    """Every attention with its split and its scale.

    Raises InputError for an unknown layout, or where config and shapes do not fit.
    """
    shapes = checkpoint.shapes
    found = []
    for site in find_sites(shapes, model_of(part_of(checkpoint.config, ""))[0]):
        config = part_of(checkpoint.config, site.path)
        heads = heads_of(site, shapes, config, given)
        scale, factor, known = scale_of(config, site.layer, heads.d_k, given)
        inputs = shapes[site.query][0 if site.layout.inputs_first else 1]
        normed = any(f"{site.path}.{name}.weight" in shapes for name, _ in _QK_NORMS)
        found.append(Attention(site, heads, inputs, scale, factor, known, config, normed))
    return found


def read_heads(checkpoint: Checkpoint, attention: Attention) -> Iterator[Head]:
    """The heads of one attention, read one after the other."""
    qk = _QkNorm.of(checkpoint, attention) if attention.qk_normed else None
    shared = attention.heads.n_heads // attention.heads.n_kv_heads
    for head, (bare, folded) in enumerate(_with_norm(checkpoint, attention)):
        seen = folded if qk is None else qk.applied(folded, head, head // shared)
        yield Head(
            head_statistics(bare, attention.factor),
            None if seen is bare else head_statistics(seen, attention.factor),
            _digest(bare.w_q),
        )


def _digest(matrix: Array) -> bytes:
    """What a matrix and its copies share; b"" for one of zeros."""
    data = np.ascontiguousarray(matrix).data
    return blake2b(data, digest_size=16).digest() if matrix.any() else b""


def _with_norm(
    checkpoint: Checkpoint, attention: Attention
) -> Iterator[tuple[Projections, Projections]]:
    """Every head's maps from what it reads, and from what the norm before it is given."""
    norm, gain, shift = _norm_before(checkpoint, attention)
    for bare in all_projections(checkpoint, attention):
        if norm is None or gain is None:
            yield bare, bare
        else:
            yield bare, after_norm(bare, gain, shift, norm.centred)


def all_projections(checkpoint: Checkpoint, attention: Attention) -> Iterator[Projections]:
    """The matrices and biases of every head, as they stand in the file.

    Heads that share a key have it each.
    """
    site, heads = attention.site, attention.heads

    def matrix(name: str, start: int) -> Array:
        rows = slice(start, start + heads.d_k)
        if site.layout.inputs_first:
            return checkpoint.part(name, slice(None), rows).T
        return checkpoint.part(name, rows)

    def bias(name: str, start: int) -> Array | None:
        named = name.removesuffix(site.layout.tensor) + site.layout.bias
        if named not in checkpoint.tensors:
            return None
        return checkpoint.part(named, slice(start, start + heads.d_k))

    starts = head_starts(site.layout, heads.n_heads, heads.n_kv_heads, heads.d_k)
    for query, key in zip(*starts, strict=True):
        yield Projections(
            matrix(site.query, query),
            matrix(site.key, key),
            bias(site.query, query),
            bias(site.key, key),
        )


def _norm_before(
    checkpoint: Checkpoint, attention: Attention
) -> tuple[Norm | None, Array | None, Array | None]:
    """The norm that a self-attention reads, its gain and its shift, where they are known."""
    path, (_, model) = attention.site.path, model_of(attention.config)
    norm = model.norm if model else None
    crossed = "encoder_attn" in path or "EncDec" in path
    if norm is None or crossed or attention.config.get("do_layer_norm_before") is False:
        return None, None, None
    for name in _norm_names(path, norm):
        gain = checkpoint.maybe(f"{name}.weight")
        if gain is not None and gain.shape == (attention.inputs,):
            return norm, gain + norm.offset, checkpoint.maybe(f"{name}.bias")
    return None, None, None


def _norm_names(path: str, norm: Norm) -> list[str]:
    """Where the norm's weights may stand, for an attention at `path`."""
    parts = path.split(".")
    at = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    if at is None:
        return []
    layer = parts[: at + 1]
    if norm.previous and layer[-1] == "0":
        return [".".join([*parts[: max(at - 2, 0)], norm.first])]
    if norm.previous:
        layer[-1] = str(int(layer[-1]) - 1)
    return [".".join([*layer, name]) for name in norm.names]


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
    squares = np.zeros(2)
    for _, head in _with_norm(checkpoint, attention):
        squares += mean_square(head.w_q, head.b_q), mean_square(head.w_k, head.b_k)
    q, k = np.sqrt(squares / attention.heads.n_heads)
    return float(q), float(k)
