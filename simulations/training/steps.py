"""The compiled programs: some steps of Adam for several runs at once, and a look at each model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ...stats.checks import InputError
from ...stats.training.arms import Arm
from .model import Params, Shape, initial_params
from .probes import mean_loss, probe

DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16, "float16": jnp.float16}
ADAM = {"b1": 0.9, "b2": 0.99, "eps": 1e-8}
_WARM_UP = 0.1  # share of the steps over which the rate rises

jax.tree_util.register_dataclass(Arm, [f.name for f in fields(Arm)], [])


def optax() -> Any:
    """The optimisers' library, an extra; InputError where it is not installed."""
    try:
        import optax
    except ImportError:
        raise InputError(
            "train needs optax, which is not installed; pip install 'verify-variance[train]'"
        ) from None
    return optax


class State(NamedTuple):
    """Parameters and optimiser of runs, the run as the first axis."""

    params: Params
    adam: Any


class Programs(NamedTuple):
    """Functions of runs, each compiled once for a shape and a dtype.

    begin(keys, arms) -> State; advance(state, arms, text, starts, rates) -> state and, [steps,
    runs] each, the loss, and how many scores and gradients were not finite; look(params, arms,
    validation windows, probe windows) -> quantities by name, the run first; among them `map`,
    the attention weights of the first validation window.
    """

    begin: Callable[..., State]
    advance: Callable[..., tuple[State, dict[str, Array]]]
    look: Callable[..., dict[str, Array]]


@lru_cache
def programs(shape: Shape, dtype: str) -> Programs:
    """The programs of a shape; arms, rates, keys and text are handed to them."""
    kind, adam = DTYPES[dtype], optax().scale_by_adam(**ADAM)

    def begin(key: Array, arm: Any) -> State:
        params = initial_params(key, shape, arm.multiplier)
        return State(params, adam.init(params))

    def step(state: State, arm: Any, windows: tuple[Array, Array], rate: Array) -> Any:
        whole = jax.value_and_grad(mean_loss, has_aux=True)
        (loss, (_, scores)), gradient = whole(state.params, arm, windows, shape, kind)
        update, moments = adam.update(gradient, state.adam)
        params = jax.tree.map(lambda p, u: p - rate * u, state.params, update)
        wrong = sum((~jnp.isfinite(g)).sum() for g in jax.tree.leaves(gradient))
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        lost = (seen & ~jnp.isfinite(scores)).sum()
        return State(params, moments), {"loss": loss, "scores": lost, "gradients": wrong}

    def advance(state: State, arms: Any, text: Any, starts: Array, rates: Array) -> Any:
        def one(state: State, given: tuple[Array, Array]) -> Any:
            windows = jax.vmap(lambda at: windows_at(text, at, shape.length))(given[0])
            return jax.vmap(step)(state, arms, windows, given[1])

        return jax.lax.scan(one, state, (starts, rates))

    def look(params: Params, arm: Any, validation: Any, some: Any) -> dict[str, Array]:
        loss, (right, scores) = mean_loss(params, arm, validation, shape, kind)
        logged = probe(params, arm, some, shape, kind)
        first = jax.nn.softmax(scores[:, 0].astype(jnp.float32))
        return logged | {"validation_loss": loss, "accuracy": right, "map": first}

    return Programs(
        jax.jit(jax.vmap(begin)),
        jax.jit(advance, donate_argnums=0),
        jax.jit(jax.vmap(look, in_axes=(0, 0, None, None))),
    )


def windows_at(text: tuple[Array, Array], starts: Any, length: int) -> tuple[Array, Array]:
    """Symbols [batch, length + 1] and classes [batch] of the windows that start there."""
    symbols, classes = text
    return symbols[starts[:, None] + jnp.arange(length + 1)], classes[starts]


def schedule(steps: int) -> NDArray[np.float64]:
    """What the rate is multiplied by at each step: a linear rise, then half a cosine to 0.

    Examples:
        >>> schedule(20)[:3].tolist(), round(float(schedule(20)[-1]), 4)
        ([0.5, 1.0, 1.0], 0.0076)

    """
    rise = max(1, round(_WARM_UP * steps))
    at = np.arange(steps)
    fall = 0.5 + 0.5 * np.cos(np.pi * np.maximum(at - rise, 0) / (steps - rise))
    return np.where(at < rise, (at + 1) / rise, fall)
