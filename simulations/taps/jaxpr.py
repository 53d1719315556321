"""Tap a function of JAX arrays: run its jaxpr and keep what every attention softmax gets.

A softmax is an `exp` (mostly of a `sub`, whose first operand is the logits) whose result, divided
or not, meets the values in a `dot_general`: the axis contracted there is that of the keys. Calls,
scans, loops, branches and custom derivatives are run from the inside.

What can go wrong: fused kernels (Pallas, cuDNN) keep their logits to themselves; nothing is found
in them, and `audit` then says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from numpy.typing import NDArray

from ...stats.arrays import rounding_of
from .control import CONTROL, Traced
from .origins import (
    EXPONENTIALS,
    LEAF,
    UNKNOWN,
    Origin,
    bent,
    joined,
    linear,
    projected,
    reshaped,
    scaled,
    uniform,
)
from .seen import Product, Projection, Seen, vectors

_CALLS = ("pjit", "jit", "closed_call", "core_call", "remat", "remat2", "checkpoint",
          "custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_lin")  # fmt: skip
_INNER = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_SHAPES = ("transpose", "reshape", "broadcast_in_dim", "squeeze", "expand_dims", "slice", "rev",
           "dynamic_slice")  # fmt: skip
_SAME = ("convert_element_type", "copy", "copy_p", "stop_gradient", "reduce_precision")
_LINEAR = ("add", "add_any", "sub", "neg", "select_n", "mul", "div")


def tapped_jax(function: Callable[..., Any], *inputs: Any) -> list[Seen]:
    """What every attention softmax in `function(*inputs)` gets, in the order of use.

    Arrays that the function closes over are its parameters. Nothing is compiled, and nothing of
    the library that made the function is known.

    Examples:
        >>> def attend(q, k, v):
        ...     return jax.nn.softmax(q @ k.T / 8) @ v
        >>> seen, = tapped_jax(attend, *jnp.ones((3, 5, 64)))
        >>> seen.logits.shape, float(seen.logits[0, 0])
        ((5, 5), 8.0)

    """
    closed = jax.make_jaxpr(function)(*inputs)
    found: list[Seen] = []
    leaves = [Traced(value, LEAF) for value in closed.consts]
    given = [Traced(jnp.asarray(leaf)) for leaf in jax.tree.leaves(inputs)]
    _run(closed.jaxpr, leaves, given, found)
    return found


def _run(
    jaxpr: Any, consts: Sequence[Traced], inputs: Sequence[Traced], found: list[Seen]
) -> list[Traced]:
    known: dict[Any, Traced] = {}
    known.update(zip(jaxpr.constvars, consts, strict=True))
    known.update(zip(jaxpr.invars, inputs, strict=True))

    def read(atom: Any) -> Traced:
        return Traced(atom.val, LEAF) if isinstance(atom, core.Literal) else known[atom]

    for equation in jaxpr.eqns:
        made = _step(equation, [read(atom) for atom in equation.invars], found)
        known.update(zip(equation.outvars, made, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _inner(closed: Any, inputs: Sequence[Traced], found: list[Seen]) -> list[Traced]:
    """Run a jaxpr that stands in an equation's parameters, closed or not."""
    if hasattr(closed, "consts"):
        consts = [Traced(value, LEAF) for value in closed.consts]
        return _run(closed.jaxpr, consts, inputs, found)
    return _run(closed, [], inputs, found)


def _step(equation: Any, inputs: list[Traced], found: list[Seen]) -> list[Traced]:
    name, parameters = equation.primitive.name, equation.params
    if name in _CALLS:
        inner = next(parameters[key] for key in _INNER if key in parameters)
        return _inner(inner, inputs, found)
    if name in CONTROL:
        return CONTROL[name](parameters, inputs, lambda inner, of: _inner(inner, of, found))
    outs = _evaluated(equation, [traced.value for traced in inputs])
    if equation.primitive.multiple_results:
        return [Traced(value, bent([t.origin for t in inputs])) for value in outs]
    (out,) = outs

    def again(*values: Any) -> Any:
        rest = [traced.value for traced in inputs[len(values) :]]
        return _evaluated(equation, [*values, *rest])[0]

    if name == "dot_general":
        return [Traced(out, _dot(inputs, out, parameters["dimension_numbers"], found))]
    return [Traced(out, _origin(name, inputs, out, again))]


def _evaluated(equation: Any, values: Sequence[Any]) -> list[Any]:
    """The results of one equation."""
    bound = equation.primitive.get_bind_params(equation.params)
    functions, parameters = bound if isinstance(bound, tuple) else ((), bound)  # by JAX's version
    made = equation.primitive.bind(*functions, *values, **parameters)
    return list(made) if equation.primitive.multiple_results else [made]


def _origin(name: str, inputs: list[Traced], out: Any, again: Callable[..., Any]) -> Origin:
    """Where the result of one operation with one result came from."""
    origins = [traced.origin for traced in inputs]
    if name in _SAME:
        return replace(origins[0], before=None)
    if name in _SHAPES:
        return reshaped(origins[0], again)
    if name in EXPONENTIALS:
        return _exponential(inputs[0], EXPONENTIALS[name])
    if name == "concatenate":
        return joined(origins, lambda parts: again(*parts))
    if name in ("mul", "div"):
        for index in (1, 0) if name == "mul" else (1,):
            other, number = inputs[1 - index], uniform(inputs[index].value)
            if number is not None and not other.origin.leaf:
                return scaled(other.origin, number if name == "mul" else _inverse(number))
        # weights over their sum are weights; anything over a scaled array is not linear
        if name == "div" and origins[1].factor != 1.0:
            return bent(origins)
    made = linear(origins) if name in _LINEAR else bent(origins)
    if (
        name in ("add", "sub")
        and isinstance(made.base, Projection)
        and any(o.leaf for o in origins)
    ):
        leaf = next(t.value for t in inputs if t.origin.leaf)
        made = replace(made, bias=leaf if made.bias is None else made.bias + leaf)
        made = replace(made, bias=jnp.broadcast_to(made.bias, out.shape))
    if name == "sub":
        made = replace(made, before=inputs[0].value)
    lost = made.index is not None and made.index.shape != out.shape
    if lost or (isinstance(made.base, Seen) and name not in _LINEAR):
        made = replace(made, base=None, index=None, bias=None)
    return made


def _inverse(number: float) -> float:
    return 1 / number if number else math.inf


def _exponential(operand: Traced, unit: float) -> Origin:
    """Weights, if this is the `exp` of a softmax: of a difference, or of what q.k became."""
    origin = operand.origin
    product = origin.base if isinstance(origin.base, Product) else None
    if origin.before is None and product is None:
        return bent([origin])
    logits = operand.value if origin.before is None else origin.before
    logits = logits if logits.shape == operand.value.shape else operand.value
    index = None if product is None else np.asarray(origin.index)
    rounding = rounding_of(operand.value)
    seen = Seen(np.asarray(logits, np.float64) * unit, product, index, rounding)
    return Origin(base=seen, index=jnp.arange(logits.size).reshape(logits.shape))


def _dot(inputs: list[Traced], out: Any, dimensions: Any, found: list[Seen]) -> Origin:
    """A product: of weights and values, of tokens and parameters, or of queries and keys."""
    contracted, batch = ([list(map(int, axes)) for axes in pair] for pair in dimensions)
    for traced, axes, batched in zip(inputs, contracted, batch, strict=True):
        if isinstance(traced.origin.base, Seen) and len(axes) == 1:
            found.append(_met(traced.origin, axes[0], batched))
            return UNKNOWN
    free = [
        [axis for axis in range(traced.value.ndim) if axis not in [*axes, *batched]]
        for traced, axes, batched in zip(inputs, contracted, batch, strict=True)
    ]
    leaves = [traced.origin.leaf for traced in inputs]
    if any(leaves):
        if all(leaves) or batch[0]:
            return UNKNOWN
        w = leaves.index(True)
        weight = _matrix(inputs[w].value, contracted[w], free[w])
        tokens = _matrix(inputs[1 - w].value, free[1 - w], contracted[1 - w])
        return projected(tokens, weight, out.shape, turned=w == 0)
    if len(contracted[0]) != 1:
        return UNKNOWN
    sides, factor = [], 1.0
    for traced, axes, batched, rest in zip(inputs, contracted, batch, free, strict=True):
        origin, order = traced.origin, [*batched, *rest, *axes]
        arrays = [
            None if x is None else np.asarray(x).transpose(order)
            for x in (traced.value, origin.index, origin.bias)
        ]
        assert arrays[0] is not None
        values = arrays[0].astype(np.float64)
        sides.append(vectors(values, origin.factor, origin.base, arrays[1], arrays[2]))
        factor *= origin.factor
    batches = math.prod(inputs[0].value.shape[axis] for axis in batch[0])
    index = jnp.arange(out.size).reshape(out.shape)
    values = np.asarray(out, np.float64).ravel() / factor
    return Origin(factor, base=Product(sides[0], sides[1], batches, values), index=index)


def _matrix(value: Any, rows: list[int], columns: list[int]) -> NDArray[Any]:
    """An array as a matrix: some of its axes down, the others across."""
    turned = np.asarray(value).transpose([*rows, *columns])
    height = math.prod(value.shape[axis] for axis in rows)
    return turned.reshape(height, -1)


def _met(origin: Origin, keys: int, batch: list[int]) -> Seen:
    """The softmax of weights that met their values, as rows over the axis contracted."""
    assert isinstance(origin.base, Seen)
    weights = np.asarray(origin.index)
    axes = [axis for axis in range(weights.ndim) if axis != keys]
    ids = weights.transpose([*axes, keys]).reshape(-1, weights.shape[keys])
    return origin.base.at(ids)
