"""Random orthonormal rows, applied without forming them: one reflection a row.

The first d rows of an orthogonal matrix with the uniform (Haar) law are the first d rows of a
product of reflections H_i; H_i turns the elements i, i + 1, ... of a normal vector v onto the
i-th axis (Stewart 1980, SIAM J. Numer. Anal. 17, 403).
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array, lax

from .tokens import dot, upright

Directions = Callable[[Array], Array]
"""Step i -> normal vectors [dimensions, ...]."""


def reflected(directions: Directions, d_k: int, x: Array) -> Array:
    """`W x` [d_k, ...] of vectors x [dimensions, ...], W with orthonormal rows."""

    def step(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        x, q = carry
        v, sign = _from(directions(i), i)
        x = _reflect(v, sign, i, x)
        return x, lax.dynamic_update_slice_in_dim(q, -sign * _at(x, i), i, 0)

    q = jnp.zeros((d_k, *x.shape[1:]), x.dtype)
    done: tuple[Array, Array] = lax.fori_loop(0, d_k, step, (x, q))
    return done[1]


def reflected_back(directions: Directions, q: Array, dimensions: int) -> Array:
    """`W' q` [dimensions, ...] of the same W: the reflections in reverse order."""
    d_k = q.shape[0]

    def step(done: Array, z: Array) -> Array:
        i = d_k - 1 - done
        v, sign = _from(directions(i), i)
        z = lax.dynamic_update_slice_in_dim(z, -sign * _at(q, i), i, 0)
        return _reflect(v, sign, i, z)

    nothing = jnp.zeros((dimensions, *q.shape[1:]), q.dtype)
    z: Array = lax.fori_loop(0, d_k, step, nothing)
    return z


def _at(x: Array, i: Array) -> Array:
    return lax.dynamic_slice_in_dim(x, i, 1, 0)


def _from(v: Array, i: Array) -> tuple[Array, Array]:
    """The vectors with the elements before i cleared, and the sign of their i-th."""
    v = jnp.where(upright(jnp.arange(v.shape[0]) >= i, v[0]), v, 0)
    return v, jnp.where(_at(v, i) < 0, -1, 1).astype(v.dtype)


def _reflect(v: Array, sign: Array, i: Array, x: Array) -> Array:
    """`x - u (u.x) / (|v|^2 + |v| |v_i|)` with `u = v + sign |v| e_i`: no cancellation."""
    norm = jnp.sqrt(dot(v, v))[None]
    axis = upright(jnp.arange(v.shape[0]) == i, v[0])
    u = v + jnp.where(axis, sign * norm, 0)
    return x - u * (dot(u, x)[None] / (norm * (norm + jnp.abs(_at(v, i)))))
