"""Name a factor of q.k from its values at several sizes: a convention, a mistake, or unknown.

At one d_k many formulas give the same number; over several d_k, numbers of heads and of keys few
do. What can go wrong: what was not varied cannot be told apart, so that every candidate is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..causes import COMMON_HEADS, written
from .known import KNOWN, Known, Point


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
