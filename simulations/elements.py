"""Samplers of the element laws: random bits to pairs of elements with mean 0 and sd 1.

`SAMPLERS` is the whole list; a new law is one new entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array, lax

from ..stats.elements import parse_elements
from ..stats.laws.element_moments import truncated_normal_raw
from .random import (
    Bits,
    box_muller,
    cos_sin_quarter_turns,
    negative_log,
    polynomial,
    signed_unit,
    uniform,
    with_sign,
)

Constants = tuple[float, ...]
Draw = Callable[[Sequence[Bits], Sequence[Array]], tuple[Array, Array]]


@dataclass(frozen=True, slots=True)
class Sampler:
    """How a law makes two independent elements of mean 0 and sd 1 from `uniforms` uniforms.

    `draw(bits, constants)` takes one `Bits` per uniform; their number of words decides the float
    type. `constants` maps the law's parameter to the numbers that `draw` needs, in float64 on the
    host: they enter the kernel at run time, so that no parameter costs a compilation. With
    `normalised` the whole vector is scaled to the norm sqrt(d_k). With `packed` the elements are
    signs, and two such vectors meet by counting bits.
    """

    draw: Draw
    uniforms: int = 2
    constants: Callable[[float], Constants] = lambda parameter: ()
    normalised: bool = False
    packed: bool = False


def sampler_of(law: str) -> tuple[Sampler, Constants]:
    """The sampler of a law's name, such as `normal` or `student-t:9`, and its constants.

    Examples:
        >>> sampler_of("student-t:9")[1]
        (0.2222222222222222, 7.0)

    """
    name, parameter = parse_elements(law)
    sampler = SAMPLERS[name]
    return sampler, sampler.constants(math.nan if parameter is None else parameter)


def _normal(bits: Sequence[Bits], _: Sequence[Array]) -> tuple[Array, Array]:
    return box_muller(bits[0], bits[1])


def _uniform(bits: Sequence[Bits], _: Sequence[Array]) -> tuple[Array, Array]:
    return math.sqrt(3) * signed_unit(bits[0]), math.sqrt(3) * signed_unit(bits[1])


def _rademacher(bits: Sequence[Bits], _: Sequence[Array]) -> tuple[Array, Array]:
    one = jnp.ones(bits[0][0].shape, jnp.float32 if len(bits[0]) == 1 else jnp.float64)
    return with_sign(bits[0], one), with_sign(bits[1], one)


def _laplace(bits: Sequence[Bits], _: Sequence[Array]) -> tuple[Array, Array]:
    """A random sign times an exponential, over sqrt(2)."""
    first, second = (with_sign(b, math.sqrt(0.5) * negative_log(uniform(b))) for b in bits)
    return first, second


def _exponential(bits: Sequence[Bits], _: Sequence[Array]) -> tuple[Array, Array]:
    return negative_log(uniform(bits[0])) - 1, negative_log(uniform(bits[1])) - 1


def _student_t(bits: Sequence[Bits], constants: Sequence[Array]) -> tuple[Array, Array]:
    """`sqrt((nu - 2) (u^(-2/nu) - 1)) cos(2 pi v)` (Bailey 1994).

    The sine beside the cosine would depend on it, so that each element takes a pair of uniforms.
    """
    return _polar_t(bits[0], bits[1], constants), _polar_t(bits[2], bits[3], constants)


def _polar_t(radius: Bits, angle: Bits, constants: Sequence[Array]) -> Array:
    two_over_nu, nu_minus_2 = constants
    squared = nu_minus_2 * jnp.expm1(two_over_nu * negative_log(uniform(radius)))
    cos, _ = cos_sin_quarter_turns(signed_unit(angle))
    return with_sign(radius, jnp.sqrt(squared) * cos)


# sqrt(2) erfinv(x) / x as a function of w = -log(1 - x^2), minimax fits in w - 3 up to w = 6 and
# in sqrt(w) - 3.5 from there to the last w, 20.9; relative errors 5.0e-8 and 5.4e-8
_PROBIT_CENTRE = (
    2.2960352329449694,
    0.3417168832176259,
    -0.008115578554415222,
    -0.001182383662094644,
    0.00027644527986590915,
    -1.804144204762823e-05,
    -2.666264143977367e-06,
    6.442908266740049e-07,
    -6.130483173124131e-09,
    -8.240314035773813e-09,
)
_PROBIT_TAIL = (
    4.717088915590893,
    1.4246335855238361,
    0.004641971581796694,
    -0.0029048015564359644,
    0.001501495046042478,
    -0.0009998387233495225,
    0.0007016070444446929,
    -0.00028662257091937096,
    3.377204141901752e-05,
)


def _truncated_normal(bits: Sequence[Bits], constants: Sequence[Array]) -> tuple[Array, Array]:
    first, second = (_truncated_probit(b, constants) for b in bits)
    return first, second


def _truncated_probit(bits: Bits, constants: Sequence[Array]) -> Array:
    """Inverse cdf from the side of the tail: p = P(|Z| > |z|) runs from P(|Z| > A) to 1."""
    inside, outside, factor = constants
    u = uniform(bits)
    return with_sign(bits, factor * two_sided_probit(outside + inside * u, inside * (1 - u)))


def two_sided_probit(p: Array, x: Array) -> Array:
    """The z >= 0 with `P(|Z| > z) = p = 1 - x`; p and x are both given, each to full accuracy.

    float32 within 1e-6 relative (p >= 2^-31), float64 by the library with z up to 8.2.
    """
    if p.dtype != jnp.float32:
        return math.sqrt(2) * lax.erf_inv(jnp.minimum(x, 1 - 2.0**-53))
    w = negative_log(p * (1 + x))
    centre = polynomial(w - 3, _PROBIT_CENTRE)
    tail = polynomial(jnp.sqrt(w) - 3.5, _PROBIT_TAIL)
    return x * jnp.where(w < 6, centre, tail)


def _truncation(bound: float, sd: float) -> Constants:
    return math.erf(bound / math.sqrt(2)), math.erfc(bound / math.sqrt(2)), 1 / sd


def _logistic(bits: Sequence[Bits], _: Sequence[Array]) -> tuple[Array, Array]:
    """Random sign times log((1 + x) / (1 - x)) of a uniform x, over pi / sqrt(3)."""
    tails = [uniform(b) for b in bits]
    factor = math.sqrt(3) / math.pi
    first, second = (factor * (negative_log(p) - negative_log(2 - p)) for p in tails)
    return with_sign(bits[0], first), with_sign(bits[1], second)


def _sparse(bits: Sequence[Bits], constants: Sequence[Array]) -> tuple[Array, Array]:
    probability, height = constants
    first, second = (
        jnp.where(uniform(b) < probability, height * z, 0)
        for b, z in zip(bits[2:], box_muller(bits[0], bits[1]), strict=True)
    )
    return first, second


def _lognormal(bits: Sequence[Bits], constants: Sequence[Array]) -> tuple[Array, Array]:
    """`(exp(S z - S^2/2) - 1) / sqrt(exp(S^2) - 1)`."""
    s, shift, factor = constants
    first, second = (factor * jnp.expm1(s * z - shift) for z in box_muller(bits[0], bits[1]))
    return first, second


SAMPLERS: dict[str, Sampler] = {
    "normal": Sampler(_normal),
    "uniform": Sampler(_uniform),
    "rademacher": Sampler(_rademacher, packed=True),
    "laplace": Sampler(_laplace),
    "logistic": Sampler(_logistic),
    "truncated-normal": Sampler(
        _truncated_normal,
        constants=lambda a: _truncation(a, math.sqrt(truncated_normal_raw(2, a))),
    ),
    "truncated-normal-raw": Sampler(_truncated_normal, constants=lambda a: _truncation(a, 1.0)),
    "student-t": Sampler(_student_t, uniforms=4, constants=lambda nu: (2 / nu, nu - 2)),
    "exponential": Sampler(_exponential),
    "sparse": Sampler(_sparse, uniforms=4, constants=lambda p: (p, 1 / math.sqrt(p))),
    "lognormal": Sampler(
        _lognormal, constants=lambda s: (s, s * s / 2, 1 / math.sqrt(math.expm1(s * s)))
    ),
    "sphere": Sampler(_normal, normalised=True),
}
