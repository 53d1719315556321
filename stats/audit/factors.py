"""Name a factor of q.k from its values at several sizes: a convention, a mistake, or unknown.

At one d_k many formulas give the same number; over several d_k, numbers of heads and of keys few
do. What can go wrong: what was not varied cannot be told apart, so that every candidate is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..causes import COMMON_HEADS, written

_PADDINGS = (16, 32, 64, 128, 8)


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


def _mscale(m: float) -> float:
    return (0.1 * m * math.log(40) + 1) ** 2


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
        lambda p: _mscale(1.0) * p.d_k**-0.5,
    ),
    Known(
        "mscale",
        "1.58963/sqrt(d_k)",
        "YaRN's mscale^2 (0.707) for a context stretched by 40, as in DeepSeek-V2",
        lambda p: _mscale(0.707) * p.d_k**-0.5,
    ),
    *map(_padded, _PADDINGS),
    Known(
        "padded-dk",
        "1/sqrt(d_k padded to a power of two)",
        "the head dimension as a kernel pads it",
        lambda p: (2 ** math.ceil(math.log2(p.d_k))) ** -0.5,
    ),
)  # fmt: skip


def named_factor(points: Sequence[Point], rtol: float) -> list[Known]:
    """Every formula that gives all the measured factors within `rtol`, the commonest first.

    A sign, a constant or a power of d_k is fitted where none of the known formulas is right.

    Examples:
        >>> points = [Point(d, 4, 16, 1 / d) for d in (16, 64, 80)]
        >>> [known.slug for known in named_factor(points, 1e-5)]
        ['dk']
        >>> [known.formula for known in named_factor([Point(64, 4, 16, 0.125)], 1e-5)]
        ['1/sqrt(d_k)']

    """
    if all(point.factor == 0 for point in points):
        return [Known("zero", "0", "a scale of 0 used literally, or q not used", lambda p: 0.0)]
    if all(point.factor < 0 for point in points):
        turned = [Point(p.d_k, p.n_heads, p.n_keys, -p.factor) for p in points]
        return [
            Known("negative", f"-{k.formula}", f"a minus sign too many; else {k.met}", k.factor)
            for k in named_factor(turned, rtol)
        ]
    found: list[Known] = []
    for known in KNOWN:
        values = [known.factor(point) for point in points]
        # padding that pads nothing here is the plain formula again
        seen_before = any(
            all(v == other.factor(p) for v, p in zip(values, points, strict=True))
            for other in found
        )
        right = all(abs(p.factor / v - 1) <= rtol for p, v in zip(points, values, strict=True))
        if right and not seen_before:
            found.append(known)
    if all(known.slug == "padded-dk" for known in found) and len({p.d_k for p in points}) > 1:
        # where nothing else is right: sizes that are all padded to one look like a constant
        found = [*_fitted(points, rtol), *found]
    return found or _fitted(points, rtol)


def exponent(points: Sequence[Point]) -> tuple[float, float] | None:
    """The slope of ln factor on ln d_k and its standard error; None where there is no line.

    Examples:
        >>> slope, error = exponent([Point(d, 1, 16, d**-0.5) for d in (16, 64, 128)])
        >>> round(slope, 9), error < 1e-12
        (-0.5, True)

    """
    if len({point.d_k for point in points}) < 2 or any(point.factor <= 0 for point in points):
        return None
    x = [math.log(point.d_k) for point in points]
    y = [math.log(point.factor) for point in points]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - x_mean) ** 2 for a in x)
    slope = sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True)) / spread
    left = sum((b - y_mean - slope * (a - x_mean)) ** 2 for a, b in zip(x, y, strict=True))
    return slope, math.sqrt(left / max(len(x) - 2, 1) / spread)


def _fitted(points: Sequence[Point], rtol: float) -> list[Known]:
    """A constant, or a constant times a power of d_k, where that is what the factors are."""
    first = points[0].factor
    if all(abs(point.factor / first - 1) <= 2 * rtol for point in points):
        shown, whole = written(first) or f"{first:.6g}", round(first**-2)
        met = "a constant, whatever d_k"
        if len(points) > 1 and abs(first**-2 / whole - 1) < 4 * rtol if whole else False:
            met += f": 1/sqrt(d_k) of d_k = {whole} alone"
        return [Known("constant", shown, met, lambda p: first)]
    line = exponent(points)
    if line is None or line[1] > 10 * rtol:
        return []
    power = round(2 * line[0]) / 2 if abs(line[0] * 2 - round(2 * line[0])) < 20 * rtol else line[0]
    times = math.exp(sum(math.log(p.factor * p.d_k**-power) for p in points) / len(points))
    if any(abs(p.factor / (times * p.d_k**power) - 1) > 2 * rtol for p in points):
        return []
    if power == -0.5:
        return _divided(times, rtol)
    if power == -1:
        met = f"{times:.6g} times the cosine, where q and k are normalised"
        return [Known("cosine", f"{times:.6g}/d_k", met, lambda p: times / p.d_k)]
    formula = f"{times:.6g} d_k^({power:.5g})"
    return [Known("power", formula, "no known convention", lambda p: times * p.d_k**power)]


def _divided(times: float, rtol: float) -> list[Known]:
    """`times/sqrt(d_k)`: another dimension under the root, or a whole number besides."""
    found, whole, heads = [], round(1 / times), round(times**-2)
    if heads > 1 and abs(times**-2 / heads - 1) < 4 * rtol:
        met = f"d_model of {heads} heads taken for the head dimension"
        found.append(Known("sqrt-dmodel", f"1/sqrt({heads} d_k)", met, _times(times)))
    if whole > 1 and abs(1 / times / whole - 1) < 2 * rtol:
        met = f"divided by a layer's number {whole} as well"
        found.append(Known("inverse-layer", f"1/({whole} sqrt(d_k))", met, _times(times)))
    more = round(times)
    if more > 1 and abs(times / more - 1) < 2 * rtol:
        met = f"multiplied by {more}: a layer's number that was divided out before?"
        found.append(Known("layer-multiplied", f"{more}/sqrt(d_k)", met, _times(times)))
    if heads not in COMMON_HEADS:
        found.reverse()
    unknown = Known("scaled-root", f"{times:.6g}/sqrt(d_k)", "no known convention", _times(times))
    return found or [unknown]


def _times(times: float) -> Callable[[Point], float]:
    return lambda p: times * p.d_k**-0.5
