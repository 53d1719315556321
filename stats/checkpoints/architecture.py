"""What config.json, or the user in its place, declares of one attention."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..cases import Case
from ..checks import InputError, count, magnitude
from ..conventions import scale_factor
from ..scales import mscale
from ..shown import shortened
from .layouts import Site
from .models import MODELS, Config, Model

_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads")
_HEAD_DIM = ("head_dim", "d_kv", "kv_channels", "attention_head_size")
_TRAINED = "original_max_position_embeddings"
_INIT = ("initializer_range", "init_std")
_PARTS = ("text_config", "vision_config", "audio_config", "language_config", "llm_config")


@dataclass(frozen=True, slots=True)
class Heads:
    """How the rows of the projections are split: heads, the keys they share, their dimension."""

    n_heads: int
    n_kv_heads: int
    d_k: int


@dataclass(frozen=True, slots=True)
class Declared:
    """What is given in place of config.json, or over it."""

    n_heads: int | None = None
    n_kv_heads: int | None = None
    d_k: int | None = None
    scale: str | None = None


def part_of(config: Config, path: str) -> Config:
    """The part of a composite configuration that a tensor's path belongs to.

    Examples:
        >>> config = {"text_config": {"hidden_size": 8}, "vision_config": {"hidden_size": 4}}
        >>> part_of(config, "vision_model.encoder.layers.0.self_attn")["hidden_size"]
        4

    """
    parts: dict[str, Config] = {
        name: config[name] for name in _PARTS if isinstance(config.get(name), Mapping)
    }
    for name, part in parts.items():
        if name.removesuffix("_config") in path:
            return part
    if parts and not any(name in config for name in _HEADS):
        return next(iter(parts.values()))
    return config


def model_of(config: Config) -> tuple[str, Model | None]:
    """The model type that is declared, "" if none, and what is known of it."""
    name = config.get("model_type")
    plain = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,60}", name)
    return (name, MODELS.get(name)) if isinstance(name, str) and plain else ("", None)


def heads_of(
    site: Site, shapes: Mapping[str, tuple[int, ...]], config: Config, given: Declared
) -> Heads:
    """The split of a site's rows, from what is declared and from its shapes.

    Raises InputError where neither says it, or both and they disagree.

    Examples:
        >>> from .layouts import find_sites
        >>> shapes = {"h.0.q_proj.weight": (8, 8), "h.0.k_proj.weight": (4, 8)}
        >>> heads_of(find_sites(shapes)[0], shapes, {"num_attention_heads": 4}, Declared())
        Heads(n_heads=4, n_kv_heads=2, d_k=2)

    """
    rows, inputs = _rows(site, shapes[site.query])
    n_heads = given.n_heads or _declared_heads(config, site.path)
    d_k = given.d_k or _whole(config, _HEAD_DIM)
    separate = site.layout.arrangement == "separate"
    if n_heads is None and d_k is not None and separate:
        n_heads = rows // d_k
    if n_heads is None:
        raise InputError(
            f"{site.path} needs its number of heads, which no config.json says; give --n-heads "
            f"(its {rows} rows are those of all heads{'' if separate else ', q with k and v'})"
        )
    if separate:
        keys = shapes[site.key][0]
        n_kv_heads = given.n_kv_heads or max(keys * n_heads // max(rows, 1), 1)
        if d_k is None or rows == n_heads * config.get("global_head_dim", 0):
            d_k = rows // n_heads
        fits = d_k is not None and rows == n_heads * d_k and keys == n_kv_heads * d_k
    else:
        d_k = d_k or inputs // n_heads
        n_kv_heads = given.n_kv_heads or (rows // max(d_k, 1) - n_heads) // 2
        fits = rows == (n_heads + 2 * n_kv_heads) * d_k
    if not fits or not d_k or n_kv_heads < 1 or n_heads % n_kv_heads:
        raise InputError(
            f"{site.path} does not split into {n_heads} heads"
            f"{f' of {d_k}' if d_k else ''}: {shortened(site.query)} has shape "
            f"{shapes[site.query]}, {shortened(site.key)} {shapes[site.key]}; "
            "give --n-heads, --n-kv-heads or --dk"
        )
    return Heads(n_heads, n_kv_heads, d_k)


def _rows(site: Site, shape: tuple[int, ...]) -> tuple[int, int]:
    return (shape[1], shape[0]) if site.layout.inputs_first else (shape[0], shape[1])


def _declared_heads(config: Config, path: str) -> int | None:
    side = "decoder" if "decoder" in path else "encoder"
    return _whole(config, (f"{side}_attention_heads", *_HEADS))


def _whole(config: Config, names: tuple[str, ...]) -> int | None:
    for name in names:
        if config.get(name) is not None:
            return count(f"config.json's {name}", config[name], most=2**20)
    return None


def scale_of(config: Config, layer: int, d_k: int, given: Declared) -> tuple[str, float, bool]:
    """The scale by name, the factor of q.k, and whether the model type is one that is known.

    Examples:
        >>> scale_of({"model_type": "gpt_neo"}, 0, 64, Declared())
        ('none', 1.0, True)
        >>> scale_of({}, 0, 64, Declared())
        ('sqrt-dk', 0.125, False)

    """
    _, model = model_of(config)
    scale = given.scale or (model or Model()).scale(config, layer)
    factor = scale_factor(Case(d_k, scale=scale))
    if given.scale is None:
        rotary, name = _rotary(config)
        factor, scale = factor * rotary, f"{scale} x {name}" if name else scale
    return scale, factor, model is not None or given.scale is not None


def _rotary(config: Config) -> tuple[float, str]:
    """What YaRN and LongRoPE put on cos and sin of both q and k, squared (modeling_rope_utils)."""
    table: Any = config.get("rope_parameters") or config.get("rope_scaling")
    if not isinstance(table, Mapping):
        return 1.0, ""
    kind = table.get("rope_type", table.get("type"))
    if kind not in ("yarn", "longrope"):
        return 1.0, ""
    if (on_each := _given(table, "attention_factor")) is None:
        on_each = _attention_factor(kind, table, config)
    return on_each**2, f"{kind}'s {on_each**2:.4g}"


def _attention_factor(kind: str, table: Config, config: Config) -> float:
    """What multiplies cos and sin where the configuration does not say it."""
    trained = _given(table, _TRAINED) or _given(config, _TRAINED)
    stretched = _given(table, "factor")
    if stretched is None and trained is not None:
        stretched = (_given(config, "max_position_embeddings") or trained) / trained
    stretched = stretched or 1.0
    if kind == "longrope":
        return math.sqrt(1 + math.log(max(stretched, 1)) / math.log(max(trained or 2, 2)))
    one, all_dim = _given(table, "mscale"), _given(table, "mscale_all_dim")
    if one is None or all_dim is None:
        return mscale(stretched)
    return mscale(stretched, one) / mscale(stretched, all_dim)


def _given(table: Config, name: str) -> float | None:
    """A positive number of a configuration; 0 and null are the same as none there."""
    value = table.get(name)
    return magnitude(f"config.json's {name}", value) if value else None


def initial_sds(config: Config, inputs: int, d_k: int) -> tuple[float, float] | None:
    """Standard deviation of the elements of W_q and W_k when training began, as declared.

    T5 draws W_q with (d_model d_k)^(-1/2) and W_k with d_model^(-1/2); others both with
    `initializer_range`.

    Examples:
        >>> initial_sds({"initializer_range": 0.02}, 768, 64)
        (0.02, 0.02)

    """
    _, model = model_of(config)
    if model is not None and model.folded:
        times = magnitude("config.json's initializer_factor", config.get("initializer_factor", 1.0))
        return times / math.sqrt(inputs * d_k), times / math.sqrt(inputs)
    for name in _INIT:
        if config.get(name) is not None:
            sd = magnitude(f"config.json's {name}", config[name])
            return sd, sd
    return None
