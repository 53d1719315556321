"""What is logged of a model as it trains, for each layer and head.

Row statistics are of the queries of the second half of each window, which see at least half of
it; they are the ones of `simulations.softmax` and `simulations.jacobian`, on the model's scores.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..jacobian import jacobian_statistics
from .model import Params, Shape, forward

ROWS = ("entropy", "jacobian_frobenius_sq", "jacobian_spectral", "max_prob", "saturated")
NEAR = 4
"""How many keys, the query's own among them, are near it."""


def losses(outputs: Array, targets: Array) -> Array:
    """Cross entropy in nats, in float32 where the outputs are half as wide."""
    logs = jax.nn.log_softmax(outputs.astype(jnp.promote_types(outputs.dtype, jnp.float32)))
    found: Array = -jnp.take_along_axis(logs, targets[..., None], -1)[..., 0]
    return found


def mean_loss(
    params: Params,
    arm: Any,
    windows: tuple[Array, Array],
    shape: Shape,
    dtype: Any,
    taps: Array | None = None,
) -> tuple[Array, tuple[Array, Array]]:
    """Mean loss of windows, with the share of right answers and the scores.

    `windows` are symbols [batch, length + 1] and classes [batch]. A model with as many outputs as
    symbols foretells each next symbol; any other the class, after each symbol of the second half.
    """
    symbols, classes = windows
    outputs, scores = forward(params, arm, symbols[:, :-1], shape, dtype, taps)
    if shape.outputs == shape.symbols:
        targets = symbols[:, 1:]
    else:
        outputs = outputs[:, outputs.shape[1] // 2 :]
        targets = jnp.broadcast_to(classes[:, None], outputs.shape[:2])
    right = (outputs.argmax(-1) == targets).mean()
    return losses(outputs, targets).mean(), (right, scores)


def probe(
    params: Params, arm: Any, windows: tuple[Array, Array], shape: Shape, dtype: Any
) -> dict[str, Array]:
    """Every logged quantity but the losses, [layers, heads] each.

    Gradients are of the mean loss of the windows: Frobenius norms, of W_Q and W_K by head.
    """
    batch, length = windows[0].shape[0], windows[0].shape[1] - 1
    size = (shape.n_layers, batch, shape.n_heads, length, length)

    def loss(params: Params, taps: Array) -> tuple[Array, Array]:
        value, (_, scores) = mean_loss(params, arm, windows, shape, dtype, taps)
        return value, scores

    by_both = jax.grad(loss, argnums=(0, 1), has_aux=True)
    (gradient, by_score), scores = by_both(params, jnp.zeros(size))
    layers = gradient["layers"]
    logged = of_scores(scores.astype(jnp.float32)) | {"score_gradient": _norm(by_score, (1, 3, 4))}
    for name in ("query", "key"):
        by_head = layers[name].reshape(shape.n_layers, shape.d_model, shape.n_heads, shape.d_k)
        logged[f"{name}_gradient"] = _norm(by_head, (1, 3))
    multiplier = jnp.where(arm.learnable > 0, params["layers"]["multiplier"], arm.multiplier)
    logged["multiplier"] = jnp.broadcast_to(multiplier[:, None], (shape.n_layers, shape.n_heads))
    return logged


def of_scores(scores: Array) -> dict[str, Array]:
    """What the scores alone say, [layers, heads] each; masked scores are -inf."""
    n_layers, batch, n_heads, length, _ = scores.shape
    late = scores[..., length // 2 :, :]
    seen = jnp.arange(length) <= jnp.arange(length // 2, length)[:, None]
    rows = jnp.where(seen, late, -jnp.inf).reshape(-1, length)
    statistics = jacobian_statistics(rows, 1.0, ROWS)
    over = (1, 3)
    logged = {
        name: value.reshape(n_layers, batch, n_heads, -1).mean(over)
        for name, value in statistics.items()
    }
    count = batch * seen.sum()
    mean = jnp.where(seen, late, 0).sum((1, 3, 4), keepdims=True) / count
    square = jnp.where(seen, (late - mean) ** 2, 0).sum((1, 3, 4)) / count
    weights = jax.nn.softmax(jnp.where(seen, late, -jnp.inf), axis=-1)
    behind = jnp.arange(length // 2, length)[:, None] - jnp.arange(length)
    near = (behind >= 0) & (behind < NEAR)
    return logged | {
        "logit_std": jnp.sqrt(square),
        "logit_max": jnp.where(seen, jnp.abs(late), 0).max((1, 3, 4)),
        "not_finite": (seen & ~jnp.isfinite(late)).sum((1, 3, 4)).astype(jnp.float32),
        "first_key": weights[..., 0].mean(over),
        "own_key": jnp.where(behind == 0, weights, 0).sum(-1).mean(over),
        "near_keys": jnp.where(near, weights, 0).sum(-1).mean(over),
        "head_overlap": head_overlap(weights),
    }


def head_overlap(weights: Array) -> Array:
    """Overlap sum_j min(p_j, p'_j) of each head's rows with the other heads', [layers, heads].

    1 where all heads have the same map, 0 where no two of them share a key; 1 for one head.
    """
    n_heads = weights.shape[2]
    if n_heads == 1:
        return jnp.ones((weights.shape[0], 1))
    by_head = jnp.moveaxis(weights, 2, 0)

    def with_others(mine: Array) -> Array:
        found: Array = jax.lax.map(
            lambda other: jnp.minimum(mine, other).sum(-1).mean((1, 2)), by_head
        )
        return found

    overlap: Array = jax.lax.map(with_others, by_head)  # [heads, heads, layers], diagonal 1
    return (overlap.sum(1).T - 1) / (n_heads - 1)


def _norm(x: Array, axes: tuple[int, ...]) -> Array:
    return jnp.sqrt((x**2).sum(axes))
