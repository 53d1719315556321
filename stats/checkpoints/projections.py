"""The matrices and biases of every head of an attention, out of the file, one head at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .architecture import Declared, Heads, heads_of, model_of, part_of, scale_of
from .checkpoint import Checkpoint
from .head_statistics import Array, Projections, after_norm
from .layouts import Site, find_sites, head_starts
from .models import Config, Norm


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
        found.append(Attention(site, heads, inputs, scale, factor, known, config))
    return found


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


@dataclass(frozen=True, slots=True)
class Gains:
    """The norm whose output an attention reads: its name in the file, its gain and its shift."""

    name: str
    gain: Array
    shift: Array | None
    centred: bool


def with_norm(
    checkpoint: Checkpoint, attention: Attention
) -> Iterator[tuple[Projections, Projections]]:
    """Every head's maps from what it reads, and from white noise through the norm before it."""
    norm = norm_before(checkpoint, attention)
    for bare in all_projections(checkpoint, attention):
        yield bare, after_norm(bare, norm.gain, norm.shift, norm.centred) if norm else bare


def norm_before(checkpoint: Checkpoint, attention: Attention) -> Gains | None:
    """The norm that a self-attention reads, where the model type says which."""
    path, (_, model) = attention.site.path, model_of(attention.config)
    norm = model.norm if model else None
    crossed = "encoder_attn" in path or "EncDec" in path  # k reads the encoder's output
    if norm is None or crossed or attention.config.get("do_layer_norm_before") is False:
        return None
    for name in _norm_names(path, norm):
        gain = checkpoint.maybe(f"{name}.weight")
        if gain is not None and gain.shape == (attention.inputs,):
            shift = checkpoint.maybe(f"{name}.bias")
            return Gains(name, gain + norm.offset, shift, norm.centred)
    return None


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
