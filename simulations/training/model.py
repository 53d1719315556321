"""A decoder Transformer: causal self-attention and a feed-forward layer, layer norm before each.

Weights are normal with variance 1 / fan_in, so that q and k, made from tokens of unit root mean
square, are standard normal at the start: the case of `--weights lecun-normal`. Embeddings have
that scale too. The parameters of a layer carry the layer as their first axis.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

_EPSILON = 1e-5

Params = dict[str, Any]


class Shape(NamedTuple):
    """Sizes of a model; `outputs` are characters or classes."""

    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int
    length: int
    symbols: int
    outputs: int
    norms: bool = False

    @property
    def d_k(self) -> int:
        """Width of a head."""
        return self.d_model // self.n_heads


def initial_params(key: Array, shape: Shape, multiplier: Array) -> Params:
    """Parameters as drawn from a key; only `multiplier` differs between arms."""
    d, layers = shape.d_model, shape.n_layers
    matrices = {"query": (d, d), "key": (d, d), "value": (d, d), "out": (d, d),
                "up": (d, shape.d_ff), "down": (shape.d_ff, d)}  # fmt: skip
    keys = jax.random.split(key, len(matrices) + 3)
    drawn = {
        name: jax.random.normal(k, (layers, *size)) / math.sqrt(size[0])
        for k, (name, size) in zip(keys, matrices.items(), strict=False)
    }
    root = math.sqrt(d)
    gain = {"gain_q": jnp.ones((layers, shape.d_k)), "gain_k": jnp.ones((layers, shape.d_k))}
    return {
        "layers": drawn | gain | {"multiplier": jnp.broadcast_to(multiplier, (layers,))},
        "symbols": jax.random.normal(keys[-3], (shape.symbols, d)) / root,
        "positions": jax.random.normal(keys[-2], (shape.length, d)) / root,
        "outputs": jax.random.normal(keys[-1], (d, shape.outputs)) / root,
    }


def forward(
    params: Params, arm: Any, tokens: Array, shape: Shape, dtype: Any, taps: Array | None = None
) -> tuple[Array, Array]:
    """Outputs [batch, length, outputs] and masked scores [layers, batch, heads, length, length].

    Args:
        params: as `initial_params` makes them.
        arm: the numbers of `stats.training.arms.Arm`, traced.
        tokens: [batch, length] symbols.
        shape: the sizes.
        dtype: what all arithmetic but the softmax of the loss is done in.
        taps: zeros added to the scores, so that a gradient with respect to them is one with
            respect to the scores.

    """
    params = jax.tree.map(lambda x: x.astype(dtype), params)
    x = params["symbols"][tokens] + params["positions"][: tokens.shape[1]]
    scores = []
    for i in range(shape.n_layers):
        layer = jax.tree.map(lambda value, i=i: value[i], params["layers"])
        mixed, score = _attention(
            layer, arm, _normalised(x), shape, taps if taps is None else taps[i]
        )
        x = x + mixed
        x = x + jax.nn.relu(_normalised(x) @ layer["up"]) @ layer["down"]
        scores.append(score)
    return _normalised(x) @ params["outputs"], jnp.stack(scores)


def _attention(
    layer: Params, arm: Any, x: Array, shape: Shape, taps: Array | None
) -> tuple[Array, Array]:
    """What attention adds, [batch, length, d_model], and its scores before the softmax."""
    batch, length, d = x.shape

    def heads(name: str) -> Array:
        projected: Array = x @ layer[name]
        return projected.reshape(batch, length, shape.n_heads, shape.d_k)

    q, k, v = heads("query"), heads("key"), heads("value")
    if shape.norms:
        q = jnp.where(arm.qk_norm > 0, layer["gain_q"] * _rms_normalised(q), q)
        k = jnp.where(arm.qk_norm > 0, layer["gain_k"] * _rms_normalised(k), k)
    # a multiplier that is not trained gets no gradient, so that the optimiser leaves it alone
    trained = arm.learnable.astype(x.dtype) * layer["multiplier"]
    multiplier = trained + ((1 - arm.learnable) * arm.multiplier).astype(x.dtype)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * multiplier
    seen = jnp.tril(jnp.ones((length, length), bool))
    if shape.norms:
        scores = jnp.where(arm.score_norm > 0, _standardised(scores, seen), scores)
    if taps is not None:
        scores = scores + taps.astype(scores.dtype)
    scores = jnp.where(seen, scores, -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(batch, length, d)
    return arm.value_factor.astype(x.dtype) * mixed @ layer["out"], scores


def _normalised(x: Array) -> Array:
    """Layer norm without gains."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(
        (centred**2).mean(-1, keepdims=True) + jnp.asarray(_EPSILON, x.dtype)
    )


def _rms_normalised(x: Array) -> Array:
    return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + jnp.asarray(_EPSILON, x.dtype))


def _standardised(scores: Array, seen: Array) -> Array:
    """Mean 0 and variance 1 over the keys that a query sees."""
    count = seen.sum(-1, keepdims=True).astype(scores.dtype)
    mean = jnp.where(seen, scores, 0).sum(-1, keepdims=True) / count
    centred = jnp.where(seen, scores - mean, 0)
    variance = (centred**2).sum(-1, keepdims=True) / count
    return centred * jax.lax.rsqrt(variance + jnp.asarray(_EPSILON, scores.dtype))
