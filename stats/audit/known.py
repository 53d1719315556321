"""Formulas of the factor of q.k: of published models, and of mistakes; plain data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..causes import PADDINGS
from ..scales import mscale


@dataclass(frozen=True, slots=True)
class Point:
    """A measured factor of q.k, and the sizes of the arrays that it was measured with."""

    d_k: int
    n_heads: int
    n_keys: int
    factor: float


@dataclass(frozen=True, slots=True)
class Known:
    """A formula of the factor, and where it is met: in published models, or as a mistake."""

    slug: str
    formula: str
    met: str
    factor: Callable[[Point], float]


def _padded(step: int) -> Known:
    return Known(
        "padded-dk",
        f"1/sqrt(d_k padded to a multiple of {step})",
        "the head dimension as a kernel pads it",
        lambda p: (-(-p.d_k // step) * step) ** -0.5,
    )


KNOWN = (
    Known("sqrt-dk", "1/sqrt(d_k)", "as in most models", lambda p: p.d_k**-0.5),
    Known(
        "none",
        "no scale",
        "as in T5 and GPT-Neo, or where a divisor is missing",
        lambda p: 1.0,
    ),
    Known(
        "dk",
        "1/d_k",
        "as in muP, or where both the caller and the kernel divide by sqrt(d_k)",
        lambda p: 1 / p.d_k,
    ),
    Known(
        "sqrt-dmodel",
        "1/sqrt(d_model)",
        "d_model = heads x d_k taken for the head dimension",
        lambda p: (p.n_heads * p.d_k) ** -0.5,
    ),
    Known("dmodel", "1/d_model", "d_model for sqrt(d_k)", lambda p: 1 / (p.n_heads * p.d_k)),
    Known(
        "sqrt-heads",
        "1/sqrt(number of heads)",
        "the axis of the heads taken for that of d_k",
        lambda p: p.n_heads**-0.5,
    ),
    Known(
        "sqrt-length",
        "1/sqrt(number of keys)",
        "the axis of the keys taken for that of d_k",
        lambda p: p.n_keys**-0.5,
    ),
    Known("length", "1/(number of keys)", "a mean over the keys", lambda p: 1 / p.n_keys),
    Known(
        "upside-down",
        "sqrt(d_k)",
        "multiplied by sqrt(d_k) where a division was meant",
        lambda p: p.d_k**0.5,
    ),
    Known("times-dk", "d_k", "multiplied by d_k", lambda p: float(p.d_k)),
    Known(
        "half-the-roots",
        "d_k^(-1/4)",
        "d_k^(-1/4) applied to q or to k alone",
        lambda p: p.d_k**-0.25,
    ),
    Known(
        "default-not-divided-out",
        "d_k^(-3/2)",
        "a default scale divided out as d_k, not as d_k^(-1/2)",
        lambda p: p.d_k**-1.5,
    ),
    Known(
        "scaled-twice", "d_k^(-2)", "1/d_k applied twice, or the default without its root",
        lambda p: p.d_k**-2.0,
    ),
    Known("sqrt-half-dk", "sqrt(2/d_k)", "as in zamba", lambda p: (2 / p.d_k) ** 0.5),
    Known(
        "exp2-without-log2e",
        "ln(2)/sqrt(d_k)",
        "exp2 without its factor log2(e)",
        lambda p: math.log(2) * p.d_k**-0.5,
    ),
    Known(
        "log2e-twice",
        "log2(e)/sqrt(d_k)",
        "a factor log2(e) with exp, not exp2",
        lambda p: p.d_k**-0.5 / math.log(2),
    ),
    Known(
        "log-n",
        "ln(number of keys)/sqrt(d_k)",
        "scalable softmax",
        lambda p: math.log(p.n_keys) * p.d_k**-0.5,
    ),
    Known(
        "mscale",
        "1.87385/sqrt(d_k)",
        "YaRN's mscale^2 for a context stretched by 40, as in DeepSeek-V3",
        lambda p: mscale(40) ** 2 * p.d_k**-0.5,
    ),
    Known(
        "mscale",
        "1.58963/sqrt(d_k)",
        "YaRN's mscale^2 (0.707) for a context stretched by 40, as in DeepSeek-V2",
        lambda p: mscale(40, 0.707) ** 2 * p.d_k**-0.5,
    ),
    *map(_padded, PADDINGS),
    Known(
        "padded-dk",
        "1/sqrt(d_k padded to a power of two)",
        "the head dimension as a kernel pads it",
        lambda p: (2 ** math.ceil(math.log2(p.d_k))) ** -0.5,
    ),
)  # fmt: skip
