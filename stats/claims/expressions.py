"""A small language for quantities: arithmetic, the functions of the subject, and given names.

`1 - max_prob - second_prob`, `softmax([0, 1, 2])`, `log(float32_max)`. Nothing else of Python is
reachable: an expression is parsed, and every node that is not listed here is refused.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import InputError, near_names
from ..laws.dot_product import rope_kurtosis
from ..transforms.top_k import top_k_variance

Array = NDArray[np.float64]
Names = Mapping[str, Any]
_LONGEST = 500  # characters: no figure of a paper needs more, and the parser stays shallow


def softmax(x: ArrayLike) -> Array:
    """`p_i = exp(x_i) / sum_j exp(x_j)` along the last axis.

    Examples:
        >>> [round(float(p), 5) for p in softmax([0, 1, 2])]
        [0.09003, 0.24473, 0.66524]

    """
    shifted = np.asarray(x, np.float64) - np.max(x, axis=-1, keepdims=True)
    return share(np.exp(shifted))


def softmax1(x: ArrayLike) -> Array:
    """`exp(x_i) / (1 + sum_j exp(x_j))`: softmax with one more logit of 0 (Miller 2023)."""
    with_zero = np.append(np.asarray(x, np.float64), 0.0)
    return softmax(with_zero)[:-1]


def share(x: ArrayLike) -> Array:
    """`x_i / sum_j x_j`."""
    values = np.asarray(x, np.float64)
    return np.asarray(values / values.sum(-1, keepdims=True))


def temper(p: ArrayLike, temperature: float) -> Array:
    """Probabilities at another temperature, `p_i^(1/T)` normalised."""
    return share(np.asarray(p, np.float64) ** (1 / temperature))


def jacobian(x: ArrayLike) -> Array:
    """`J = diag(p) - p p'` of the softmax at x.

    Examples:
        >>> jacobian([0.0, 0.0]).tolist()
        [[0.25, -0.25], [-0.25, 0.25]]

    """
    p = softmax(x)
    return np.diag(p) - np.outer(p, p)


def jacobian_by_differences(x: ArrayLike) -> Array:
    """The same from central differences of softmax; step 1e-5, error 1e-10."""
    point, step = np.asarray(x, np.float64), 1e-5
    moves = step * np.eye(point.size)
    columns = [(softmax(point + e) - softmax(point - e)) / (2 * step) for e in moves]
    return np.stack(columns, axis=1)


def layer_norm(x: ArrayLike) -> Array:
    """`(x - mean) / sqrt(var + 1e-5)`, var with divisor n, as in torch.nn.functional.layer_norm."""
    values = np.asarray(x, np.float64)
    centred = values - values.mean()
    return np.asarray(centred / np.sqrt(np.mean(centred**2) + 1e-5))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "entry": lambda matrix, *at: matrix[tuple(int(i) for i in at)],
    "exp": np.exp,
    "jacobian": jacobian,
    "jacobian_by_differences": jacobian_by_differences,
    "layer_norm": layer_norm,
    "log": np.log,
    "max": np.max,
    "average": np.mean,
    "min": np.min,
    "rope_kurtosis": lambda d_k, position: rope_kurtosis(int(d_k), position),
    "share": share,
    "softmax": softmax,
    "softmax1": softmax1,
    "sqrt": np.sqrt,
    "sum": np.sum,
    "temper": temper,
    "top_k_variance": lambda n, k, d_k: top_k_variance(int(n), int(k), int(d_k)),
}
CONSTANTS = {
    "float16_max": 65504.0,
    "float32_max": float(np.finfo(np.float32).max),
    "pi": math.pi,
}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def check_expression(text: str, names: Names) -> list[str]:
    """The given names that an expression uses, in order; InputError where it breaks a rule.

    Examples:
        >>> check_expression("1 - max_prob - second_prob", {"max_prob": 0, "second_prob": 0})
        ['max_prob', 'second_prob']

    """
    known = {**names, **CONSTANTS, **FUNCTIONS}
    used: dict[str, tuple[int, int]] = {}
    for node in ast.walk(_parsed(text)):
        if not isinstance(node, (*_NODES, *_OPERATORS)):
            kind = type(node).__name__.lower()
            raise InputError(f"an expression may be arithmetic and calls, got {kind} in {text!r}")
        if isinstance(node, ast.Constant) and type(node.value) not in (int, float):
            raise InputError(f"an expression may hold numbers, got {node.value!r} in {text!r}")
        if isinstance(node, ast.Call) and (node.keywords or not isinstance(node.func, ast.Name)):
            raise InputError(f"a call in an expression must be name(value, ...), got {text!r}")
        if isinstance(node, ast.Name):
            if node.id not in known:
                raise InputError(f"unknown name {node.id!r}; {near_names(node.id, known)}")
            if node.id in names:
                place = (node.lineno, node.col_offset)
                used[node.id] = min(place, used.get(node.id, place))
    return sorted(used, key=lambda name: used[name])


def evaluate(text: str, names: Names) -> Array:
    """The value of an expression: a float64 array, of shape () for a number.

    Examples:
        >>> round(float(evaluate("log(float16_max)", {})), 4)
        11.0899

    """
    check_expression(text, names)
    try:
        with np.errstate(over="ignore"):
            return np.asarray(_value(_parsed(text).body, names), np.float64)
    except InputError:
        raise
    except (ArithmeticError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(f"expression {text!r} has no value: {error}") from None


_NODES: tuple[type[ast.AST], ...] = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.Call,
    ast.List,
    ast.Name,
    ast.Load,
    ast.Constant,
)


def _parsed(text: str) -> ast.Expression:
    if len(text) > _LONGEST:
        raise InputError(f"an expression may have {_LONGEST} characters, got {len(text)}")
    try:
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        said = getattr(error, "msg", str(error))
        raise InputError(f"expression {text!r} cannot be read: {said}") from None


def _value(node: ast.AST, names: Names) -> Any:
    if isinstance(node, ast.Constant):
        return np.float64(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.List):
        return np.array([_value(item, names) for item in node.elts])
    if isinstance(node, ast.Name):
        return CONSTANTS[node.id] if node.id in CONSTANTS else names[node.id]
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand, names))
    if isinstance(node, ast.BinOp):
        operands = _value(node.left, names), _value(node.right, names)
        return _OPERATORS[type(node.op)](*operands)
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    function = names.get(node.func.id) or FUNCTIONS.get(node.func.id)
    if not callable(function):
        raise InputError(f"{node.func.id} is a value, not a function; write it without brackets")
    return function(*(_value(argument, names) for argument in node.args))
