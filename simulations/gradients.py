"""Gradients of one attention head at initialisation, by automatic differentiation.

Scores S = c (X W_Q)(Y W_K)' of n query and n key tokens, p = softmax(S) by rows, and a random
linear loss L = sum_ij G_ij p_ij with G standard normal. Then dL/dS = J G row by row, so that
E |dL/dS_i|^2 = E |J|_F^2, which is known exactly; dL/dW_Q = c X' (dL/dS) (Y W_K) has the factor c
of the chain rule besides. A replicate is one draw of tokens, weights and loss; two scales meet
the same draws, and their ratio's error is that of the paired replicates.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ..stats.cases import Case
from ..stats.checks import InputError
from ..stats.claims.settings import Request
from ..stats.claims.values import Measured
from ..stats.conventions import scale_factor
from ..stats.rows.laws import row_law, row_reference
from ..stats.weights.layers import layer_of
from .keys import cell_key

REPLICATES = 2048
_AT_ONCE = 256  # replicates in memory together
_LAYER_NORM_EPSILON = 1e-5  # that of torch.nn.functional.layer_norm


def measure_request(request: Request, seed: int) -> Measured:
    """The value of a measured quantity, or its ratio between two cases, with its error.

    Gradients are root mean squares over replicates, `sqrt(E |g|^2)`; the error is that of the
    delta method. Raises InputError for a case without weights or keys.
    """
    if request.quantity.startswith("layer_norm"):
        return _layer_norm_rows(request, seed)
    column = ("score_gradient", "wq_gradient").index(request.quantity)
    cases = [case for case in (request.case, request.versus) if case is not None]
    squares = [_squares(case, seed)[:, column] for case in cases]
    means = [float(x.mean()) for x in squares]
    relative = squares[0] / means[0]
    value = math.sqrt(means[0])
    if request.versus is not None:
        relative = relative - squares[1] / means[1]
        value = math.sqrt(means[0] / means[1])
    error = value * float(relative.std()) / 2 / math.sqrt(relative.size)
    return Measured(value, error, relative.size, _exact(request))


def _exact(request: Request) -> float | None:
    """The score gradient's root mean square is that of ||J||_F times sqrt(n)."""
    if request.quantity != "score_gradient":
        return None
    values = []
    for case in (request.case, request.versus):
        if case is not None:
            square = row_reference(case, "jacobian_frobenius_sq", scale_factor(case)).value
            if not isinstance(square, float):
                return None
            values.append(math.sqrt(square * (case.n_keys or 1)))
    return values[0] if request.versus is None else values[0] / values[1]


@lru_cache(maxsize=16)
def _squares(case: Case, seed: int) -> NDArray[np.float64]:
    """[|dL/dS|^2, |dL/dW_Q|^2] by replicate; cases that differ in scale alone share their draws."""
    if case.weights is None or case.n_keys is None:
        raise InputError("gradients need weights and n_keys; add them to the setting")
    layer = layer_of(case)
    if not layer.gaussian or layer.tied or case.tokens != "normal":
        raise InputError("gradients are measured for normal weights and tokens = normal")
    shape = (case.n_keys, layer.d_model, layer.d_k)
    numbers = (scale_factor(case), math.sqrt(layer.variance_q), math.sqrt(layer.variance_k))
    key = _key(seed, case.cell())
    both = [
        np.asarray(_compiled(shape)(jax.random.fold_in(key, block), *numbers), np.float64)
        for block in range(REPLICATES // _AT_ONCE)
    ]
    return np.concatenate(both)


def _key(seed: int, case: Case) -> Array:
    words = jnp.array(cell_key(seed, case.canonical()), jnp.uint32)
    key: Array = jax.random.wrap_key_data(words, impl="threefry2x32")
    return key


@lru_cache(maxsize=16)
def _compiled(shape: tuple[int, int, int]) -> Any:
    def block(key: Array, factor: Array, sd_q: Array, sd_k: Array) -> Array:
        one = partial(_one_replicate, shape, factor, sd_q, sd_k)
        squares: Array = jax.vmap(one)(jax.random.split(key, _AT_ONCE))
        return squares

    return jax.jit(block)


def _one_replicate(
    shape: tuple[int, int, int], factor: Array, sd_q: Array, sd_k: Array, key: Array
) -> Array:
    """[|dL/dS|^2, |dL/dW_Q|^2] of one draw."""
    n, d_model, d_k = shape
    keys = jax.random.split(key, 5)
    x, y = (jax.random.normal(k, (n, d_model)) for k in keys[:2])
    w_q, w_k = (
        sd * jax.random.normal(k, (d_model, d_k))
        for sd, k in zip((sd_q, sd_k), keys[2:4], strict=True)
    )
    loss_weights = jax.random.normal(keys[4], (n, n))

    def loss(w_q: Array, nudge: Array) -> Array:
        scores = factor * (x @ w_q) @ (y @ w_k).T + nudge
        return jnp.sum(loss_weights * jax.nn.softmax(scores, axis=-1))

    of_weights, of_scores = jax.grad(loss, argnums=(0, 1))(w_q, jnp.zeros((n, n)))
    return jnp.stack([jnp.sum(of_scores**2), jnp.sum(of_weights**2)])


def _layer_norm_rows(request: Request, seed: int) -> Measured:
    """Mean of a row statistic where softmax gets layer-normed logits.

    Given q the logits are iid normal with standard deviation c |q|, which the norm takes out but
    for its epsilon, so that normal rows of the logits' own size serve.
    """
    if request.versus is not None or request.case.n_keys is None:
        raise InputError(f"{request.quantity} needs n_keys, and has no versus")
    n, rows = request.case.n_keys, 2**17
    key = _key(seed, request.case)
    law = row_law(request.case, scale_factor(request.case))
    if isinstance(law, str) or law[0].base != "normal":
        raise InputError(f"{request.quantity} needs normal keys, got {request.case.elements}")
    x = law[0].std * jax.random.normal(key, (rows, n))
    centred = x - x.mean(-1, keepdims=True)
    normed = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + _LAYER_NORM_EPSILON)
    p = jax.nn.softmax(normed, axis=-1)
    statistic = p.max(-1)
    if request.quantity == "layer_norm_entropy":
        statistic = -(p * jnp.log(p)).sum(-1)
    values = np.asarray(statistic, np.float64)
    return Measured(float(values.mean()), float(values.std()) / math.sqrt(rows), rows)
