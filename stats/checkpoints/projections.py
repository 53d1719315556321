"""The matrices and biases of every head of an attention, out of the file, one head at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .architecture import Declared, Heads, heads_of, model_of, part_of, scale_of
from .checkpoint import Checkpoint
from .layouts import Site, find_sites, head_starts
from .models import Config, Norm
from .sides import Array, Projection


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


Pair = tuple[Projection, Projection]
"""The projections of one head: to its queries and to its keys."""


def all_projections(checkpoint: Checkpoint, attention: Attention) -> Iterator[Pair]:
    """The projections of every head as they stand in the file, those of shared keys read once.

    Heads that share a key follow one another and get the same object.
    """
    site, heads = attention.site, attention.heads
    key, last = None, None
    starts = head_starts(site.layout, heads.n_heads, heads.n_kv_heads, heads.d_k)
    for query_start, key_start in zip(*starts, strict=True):
        if key is None or key_start != last:
            key, last = _projection(checkpoint, attention, site.key, key_start), key_start
        yield _projection(checkpoint, attention, site.query, query_start), key


def _projection(checkpoint: Checkpoint, attention: Attention, name: str, start: int) -> Projection:
    """The d_k rows of a tensor that begin at `start`, and those of its bias."""
    layout, rows = attention.site.layout, slice(start, start + attention.heads.d_k)
    if layout.inputs_first:
        matrix = checkpoint.part(name, slice(None), rows).T
    else:
        matrix = checkpoint.part(name, rows)
    bias = name.removesuffix(layout.tensor) + layout.bias
    return Projection(matrix, checkpoint.part(bias, rows) if bias in checkpoint.tensors else None)


@dataclass(frozen=True, slots=True)
class Gains:
    """The norm whose output an attention reads: its name in the file, its gain and its shift."""

    name: str
    gain: Array
    shift: Array | None
    centred: bool

    def applied(self, projection: Projection) -> Projection:
        """A projection of white noise through the norm."""
        return projection.after_norm(self.gain, self.shift, self.centred)


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
    at = next((i for i, part in enumerate(parts) if re.fullmatch(r"\d{1,9}", part)), None)
    if at is None:
        return []
    layer = parts[: at + 1]
    if norm.previous and layer[-1] == "0":
        return [".".join([*parts[: max(at - 2, 0)], norm.first])]
    if norm.previous:
        layer[-1] = str(int(layer[-1]) - 1)
    return [".".join([*layer, name]) for name in norm.names]
