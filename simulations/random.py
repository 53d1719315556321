"""Random bits and the transforms that turn them into floats, written so that XLA fuses them.

Everything here is elementwise. A transform takes `Bits`: one 32-bit word for a float32, two for
a float64. The float32 transforms are polynomials of our own (minimax fits by Lawson iteration),
several times faster than the library's on a CPU; float64 takes the library functions.

What can go wrong: a uniform that reaches 0 or 1 turns a logarithm into inf or a norm into 0, so
the grid is odd (symmetric, never 0) and `uniform` stays below 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array, lax

Bits = tuple[Array, ...]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA  # Threefish key-schedule constant, 32-bit form


def threefry_2x32(key0: Array, key1: Array, count0: Array, count1: Array) -> tuple[Array, Array]:
    """Two random words of a two-word key and a two-word counter (Threefry-2x32, 20 rounds).

    For a fixed key it is a bijection of the counter. All four are uint32, of any shapes that
    broadcast. The rounds are unrolled so that they fuse with what consumes the words.

    References:
        Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".

    Examples:
        >>> zero = jnp.uint32(0)
        >>> [hex(word) for word in threefry_2x32(zero, zero, zero, zero)]
        ['0x6b200159', '0x99ba4efe']

    """
    keys = (key0, key1, key0 ^ key1 ^ jnp.uint32(_PARITY))
    x0, x1 = count0 + key0, count1 + key1
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << rotation | x1 >> (32 - rotation)) ^ x0
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return x0, x1


def signed_unit(bits: Bits) -> Array:
    """Uniform on (-1, 1): the odd multiples of 2^-31 (2^-63), symmetric and never 0.

    In float32 the largest round to 1 exactly.
    """
    if len(bits) == 1:
        odd = lax.bitcast_convert_type(bits[0] | jnp.uint32(1), jnp.int32)
        value: Array = odd.astype(jnp.float32) * jnp.float32(2.0**-31)
        return value
    high, low = (word.astype(jnp.uint64) for word in bits)
    odd = lax.bitcast_convert_type(high << 32 | low | jnp.uint64(1), jnp.int64)
    value = odd.astype(jnp.float64) * jnp.float64(2.0**-63)
    return value


def with_sign(bits: Bits, x: Array) -> Array:
    """The values x with a random sign: the top bit, which is also the sign of `signed_unit`."""
    top = bits[0] & jnp.uint32(0x80000000)
    if len(bits) == 1:
        flipped = lax.bitcast_convert_type(x, jnp.uint32) ^ top
        return lax.bitcast_convert_type(flipped, jnp.float32)
    return jnp.where(top == 0, x, -x)


def uniform(bits: Bits) -> Array:
    """Uniform on (0, 1), fine near 0 (2^-31 or 2^-63), below 1; independent of `with_sign`."""
    below_one = 1 - 2.0**-24 if len(bits) == 1 else 1 - 2.0**-53
    magnitude = jnp.abs(signed_unit(bits))
    return jnp.minimum(magnitude, jnp.asarray(below_one, magnitude.dtype))


def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """Horner sum of `coefficients[i] x^i`, in the dtype of x."""
    total = jnp.asarray(coefficients[-1], x.dtype)
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + jnp.asarray(coefficient, x.dtype)
    return total


# -log(1 + f) / f on [sqrt(1/2) - 1, sqrt(2) - 1], relative error 2.6e-8
_LOG = (
    -0.9999999741892217,
    0.49999987969030524,
    -0.3333418563715455,
    0.250020736554696,
    -0.1995683282361872,
    0.16562401932300552,
    -0.14952283001453517,
    0.14366788247242313,
    -0.08722243416928503,
)
_SQRT_HALF_BITS = 0x3F3504F3


def negative_log(u: Array) -> Array:
    """`-log(u)` of normal positive u; float32 within 3 ulp on (0, 1)."""
    if u.dtype != jnp.float32:
        return -jnp.log(u)
    bits = lax.bitcast_convert_type(u, jnp.int32)
    exponent = (bits - jnp.int32(_SQRT_HALF_BITS)) >> 23
    f = lax.bitcast_convert_type(bits - (exponent << 23), jnp.float32) - jnp.float32(1)
    whole = exponent.astype(jnp.float32) * jnp.float32(-math.log(2))
    value: Array = whole + f * polynomial(f, _LOG)
    return value


# sin(pi s / 2) / s and cos(pi s / 2) in s^2 on [0, 1], errors 5e-9 relative and 2e-10 absolute
_SIN = (
    1.5707963184476794,
    -0.6459637105993454,
    0.07968967894549697,
    -0.004673766608857389,
    0.00015148512900881936,
)
_COS = (
    0.9999999997806502,
    -1.2337005343070568,
    0.2536693227711503,
    -0.02086268838465001,
    0.0009177248387541369,
    -2.3824918195320633e-05,
)


def cos_sin_quarter_turns(s: Array) -> tuple[Array, Array]:
    """`cos(pi s / 2), sin(pi s / 2)` for s in [-1, 1]; float32 within 2e-7 absolute."""
    if s.dtype != jnp.float32:
        angle = s * (math.pi / 2)
        return jnp.cos(angle), jnp.sin(angle)
    square = s * s
    return polynomial(square, _COS), s * polynomial(square, _SIN)


def box_muller(radius: Bits, angle: Bits) -> tuple[Array, Array]:
    """Two independent standard normals (Box and Muller 1958).

    The angle runs over half a turn; the sign that the radius' bits have to spare covers the
    other half. The largest value is sqrt(2 log 2^31) = 6.56 (9.35 in float64).
    """
    signed = with_sign(radius, jnp.sqrt(2 * negative_log(uniform(radius))))
    cos, sin = cos_sin_quarter_turns(signed_unit(angle))
    return signed * cos, signed * sin


def random_words(
    key: tuple[Array, Array], lane: Array, role: int, pair: Array, n_words: int
) -> list[Array]:
    """The first `n_words` (even) words of a lane's dimension pair in a block.

    Counter: (lane, role in 4 bits | hash in 4 bits | pair in 24 bits), so that no two roles,
    hashes or pairs share one; d_k up to 2^20 needs 19 bits of the 24.
    """
    words: list[Array] = []
    for call in range(n_words // 2):
        tag = jnp.uint32(role << 28 | call << 24) | pair.astype(jnp.uint32)
        words += threefry_2x32(key[0], key[1], lane, tag)
    return words


def to_bits(words: Sequence[Array], per_uniform: int) -> list[Bits]:
    """Words grouped for uniforms: one each (float32) or two each (float64)."""
    return [tuple(words[i : i + per_uniform]) for i in range(0, len(words), per_uniform)]
