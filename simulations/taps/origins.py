"""What is known of where an array inside a module came from.

Every array that a module makes is followed from the operations that made it: the numbers that have
multiplied it since its last matrix product, and which elements of that product it is made of. So
the logits of a softmax lead to q.k, q and k to the tokens and to the columns of the weights that
they came from, whatever the layout, the names and the fusing of projections. The rules are those
of any framework; `jaxpr` and `dispatch` know the names of their operations.

What can go wrong: a factor that a norm undoes again is none, so that whatever a scaled array goes
through besides linear operations spoils the factor of all that it multiplies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .seen import Product, Projection, Seen

EXPONENTIALS = {"exp": 1.0, "exp2": math.log(2.0)}
"""Functions whose normalised values are a softmax, and what multiplies the logits in them."""


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Where an array came from.

    `factor` has multiplied it since its last matrix product, `base`, and `index` (of its shape)
    says which element of it each element is made of; `bias` is what parameters have added. `bent`
    is a product that it depends on other than linearly, after a factor; `leaf` says that it is a
    parameter or a constant; `before` is what a row constant was subtracted from. The base of the
    weights of a softmax is what it got.
    """

    factor: float = 1.0
    bent: Product | Projection | Seen | None = None
    leaf: bool = False
    base: Product | Projection | Seen | None = None
    index: Any = None
    bias: Any = None
    before: Any = None


UNKNOWN = Origin()
LEAF = Origin(leaf=True)


def uniform(value: Any) -> float | None:
    """The number that all elements of an array are, None where they differ.

    Examples:
        >>> uniform(np.full((2, 3), 0.125)), uniform(np.arange(3.0)), uniform(8)
        (0.125, None, 8.0)

    """
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or not array.size:
        return None
    first = array.flat[0]
    return float(first) if np.isfinite(first) and bool((array == first).all()) else None


def scaled(origin: Origin, number: float) -> Origin:
    """The origin of `number` times an array; a factor of 0 is left to what it makes of logits."""
    kept = replace(origin, leaf=False, before=None)
    lost = origin.bent is not None or number == 0 or not np.isfinite(number)
    return kept if lost else replace(kept, factor=origin.factor * number)


def linear(origins: Sequence[Origin]) -> Origin:
    """The origin of a sum or a choice of arrays, or of a product with unscaled ones.

    A scaled array that meets a bent one of the same product, its own norm, is taken to be without
    its factor again. Tables of positions and the like, of no product, say nothing.
    """
    carried = _carried(origins)
    of = [o for o in origins if o.base is not None] or [o for o in origins if not o.leaf]
    factors = {origin.factor for origin in of if origin.factor != 1.0}
    bends = [origin.bent for origin in origins if origin.bent is not None]
    if carried.base is None:
        bend = bends[0] if bends else None
        return replace(carried, factor=factors.pop() if len(factors) == 1 else 1.0, bent=bend)
    if any(bend is carried.base for bend in bends) or len(factors) > 1:
        return replace(carried, bent=None if factors else carried.base)
    return replace(carried, factor=factors.pop() if factors else 1.0)


def bent(origins: Sequence[Origin]) -> Origin:
    """The origin of any other function of arrays, element by element."""
    spoiled = [o for o in origins if o.bent is not None or o.factor != 1.0]
    bend = next((o.base if o.bent is None else o.bent for o in spoiled), None)
    return replace(_carried(origins), bent=bend)


def _carried(origins: Iterable[Origin]) -> Origin:
    """The first matrix product among the arrays that meet."""
    first = next((o for o in origins if o.base is not None), UNKNOWN)
    return Origin(base=first.base, index=first.index, bias=first.bias)


def joined(origins: Sequence[Origin], join: Any) -> Origin:
    """The origin of arrays put side by side: known where all are of one product."""
    made = linear(origins)
    if made.base is None or any(o.base is not made.base for o in origins):
        return replace(made, base=None, index=None, bias=None)
    return replace(made, index=join([o.index for o in origins]), bias=None)


def reshaped(origin: Origin, again: Any) -> Origin:
    """The origin of an array of the same elements in other places."""
    return replace(
        origin,
        index=None if origin.index is None else again(origin.index),
        bias=None if origin.bias is None else again(origin.bias),
        before=None,
    )


def projected(tokens: Any, weight: Any, shape: tuple[int, ...], *, turned: bool) -> Origin:
    """The origin of tokens [n, D] times weights [D, out], of a shape with (`turned`) out first."""
    index = np.arange(len(tokens) * weight.shape[1]).reshape(len(tokens), -1)
    placed = (index.T if turned else index).reshape(shape)
    return Origin(base=Projection(tokens, weight), index=placed)
