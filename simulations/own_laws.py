"""Element laws of the user's own: a JAX function of uniforms or of a key, registered by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from ..stats.checks import InputError, count
from ..stats.elements import ELEMENTS
from ..stats.laws.own_laws import CHECKED_DRAWS, check_draws, own_law
from .elements import SAMPLERS, Sampler
from .random import Bits, random_words, to_bits, uniform

MOST_UNIFORMS = 8
_KEY_OF_CHECK = (0x5EED, 0x1A35)  # any fixed key: whether a law is taken must not change by chance


def register_elements(
    name: str,
    version: object,
    *,
    draw: Callable[..., Any],
    moments: Sequence[float],
    uniforms: int = 1,
    formula: str = "",
) -> str:
    """Make a law of your own usable as `elements`, once its draws have the moments stated.

    Args:
        name: lower-case letters, digits and dashes; with the version it names the law, as
            `name@version`, in tables and in the key of every draw.
        version: changes whenever `draw` does.
        draw: elementwise JAX function of `uniforms` arrays in (0, 1) that gives an array of
            their shape; with `uniforms` 0, a function of one JAX key that gives one element.
        moments: `E e, E e^2, E e^3, ...`, of which the first two are 0 and 1; a verdict on the
            variance needs 8 of them, one on the kurtosis 16.
        uniforms: how many independent uniforms an element takes, at most 8.
        formula: how the law is written in the catalogue.

    Returns:
        The law's name, to be given as `elements`, `elements_q` or `elements_k`.

    Raises:
        InputError: for moments that the draws do not have (a false alarm once in a million), for
            a function of the wrong shape, and for a name that other draws have already.

    Examples:
        Uniform on (-2, 2) has variance 4/3, so this is refused; `12**0.5 * (u - 0.5)` is taken,
        and gives `'flat@1'`.

        >>> try:
        ...     register_elements("flat", 1, draw=lambda u: 4 * (u - 0.5), moments=(0, 1, 0, 1.8))
        ... except InputError as error:
        ...     print(str(error)[:60])
        moment 2 of flat@1 must be that of its draws, got 1 stated a

    """
    law = own_law(name, version, moments, formula)
    n = count("uniforms", uniforms, least=0, most=MOST_UNIFORMS)
    sampler = _of_uniforms(draw, n) if n else _of_keys(draw)
    draws = checked_draws(law.name, sampler)
    if law.name in ELEMENTS:
        before = checked_draws(law.name, SAMPLERS[law.name])
        if not np.array_equal(before, draws):
            raise InputError(f"{law.name} has other draws already; give a new version")
    check_draws(law, draws.astype(np.float64))
    ELEMENTS[law.name], SAMPLERS[law.name] = law, sampler
    return law.name


def _of_uniforms(draw: Callable[..., Any], n: int) -> Sampler:
    def pair(bits: Sequence[Bits], _: Sequence[Array]) -> tuple[Array, Array]:
        u = [uniform(b) for b in bits]
        return _like(draw(*u[:n]), u[0]), _like(draw(*u[n:]), u[0])

    return Sampler(pair, uniforms=2 * n)


def _of_keys(draw: Callable[..., Any]) -> Sampler:
    """Each element has a key of its own: two words of the hash of its place."""

    def one(high: Array, low: Array, like: Array) -> Array:
        words = jnp.stack([high, low], axis=-1).reshape(-1, 2)
        keys = jax.random.wrap_key_data(words, impl="threefry2x32")
        return _like(jnp.reshape(jax.vmap(draw)(keys), high.shape), like)

    def pair(bits: Sequence[Bits], _: Sequence[Array]) -> tuple[Array, Array]:
        like = uniform(bits[0])
        (a, b), (c, d) = (bits[0][0], bits[1][0]), (bits[2][0], bits[3][0])
        return one(a, b, like), one(c, d, like)

    return Sampler(pair, uniforms=4)


def _like(drawn: Any, like: Array) -> Array:
    value = jnp.asarray(drawn)
    if value.shape != like.shape:
        raise InputError(
            f"draw must give one element for each uniform or key, got shape {value.shape} for "
            f"{like.shape}; write it elementwise"
        )
    return value.astype(like.dtype)


def checked_draws(name: str, sampler: Sampler) -> NDArray[np.float32]:
    """The first draws of a law under a fixed key, which its moments are held against."""

    def some(lane: Array) -> Array:
        key = (jnp.uint32(_KEY_OF_CHECK[0]), jnp.uint32(_KEY_OF_CHECK[1]))
        words = random_words(key, lane, 0, jnp.uint32(0), sampler.uniforms)
        return jnp.stack(sampler.draw(to_bits(words, 1), ()))

    try:
        return np.asarray(jax.jit(some)(jnp.arange(CHECKED_DRAWS // 2, dtype=jnp.uint32)))
    except InputError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"draw of {name} must be a JAX function, got {said}") from error
