"""The layer that a case with weights describes, what goes together in it, and its words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..cases import Case
from ..checks import InputError, choice
from .schemes import WEIGHTS, Shape, parse_weights
from .tokens import TOKENS

PAIRS = {
    "off-diagonal": "query and key of two independent tokens",
    "diagonal": "query and key of one token",
}
ENSEMBLES = {
    "weights": "fresh weights and tokens in every replicate",
    "tokens": "fresh tokens through one drawn pair of weights",
}


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one head, as a case names them: everything that theory and drawing need."""

    d_model: int
    d_k: int
    law: str
    variance_q: float
    variance_k: float
    tied: bool

    @property
    def gaussian(self) -> bool:
        """Whether the entries are independent normals."""
        return self.law == "normal"


def layer_of(case: Case) -> Layer:
    """The layer that a case with weights describes.

    The number of heads counts in some fan-outs; without it there are d_model / d_k. Raises
    InputError where d_model or d_k is missing, where d_k does not divide d_model and heads are
    needed, and for more orthonormal rows than columns.

    Examples:
        >>> layer_of(Case(d_k=64, weights="xavier-head-normal", d_model=512)).variance_q * 512
        1.7777777777777777

    """
    if case.weights is None:
        raise InputError("weights must be named, got None; for example lecun-normal")
    if case.d_model is None:
        raise InputError(f"weights {case.weights} need d_model, got none; give --d-model 512")
    if case.d_k is None:
        raise InputError(f"weights {case.weights} need d_k, got none; give --dk 64")
    name, parameter, tied = parse_weights(case.weights)
    entry = WEIGHTS[name]
    if entry.law == "orthogonal" and case.d_k > case.d_model:
        raise InputError(
            f"d_k must be at most d_model for orthogonal rows, got {case.d_k} > {case.d_model}; "
            "give a larger --d-model"
        )
    heads = case.heads
    if heads is None and "heads" in entry.needs and case.d_model % case.d_k:
        raise InputError(
            f"weights {name} need the number of heads, got none and d_k = {case.d_k} does not "
            f"divide d_model = {case.d_model}; give --heads"
        )
    shape = Shape(
        case.d_model,
        case.d_k,
        heads or max(case.d_model // case.d_k, 1),
        math.nan if parameter is None else parameter,
    )
    variance_q, variance_k = entry.variance(shape)
    variance_k = variance_q if tied else variance_k
    return Layer(case.d_model, case.d_k, entry.law, variance_q, variance_k, tied)


def check_weights(case: Case) -> None:
    """Refuse a case whose weights and tokens do not go together, and say which do not."""
    layer_of(case)
    choice("tokens", case.tokens, TOKENS)
    choice("pair", case.pair, PAIRS)
    choice("ensemble", case.ensemble, ENSEMBLES)
    if case.rounds:
        raise InputError(
            f"weights take products and sums in float32 or float64, got dtype {case.dtype}; "
            "drop --dtype-products and --dtype-accumulate, or --weights"
        )
    if case.tokens == "layernorm" and case.d_model == 1:
        raise InputError("layernorm tokens need d_model of at least 2, got 1; use rmsnorm")
    if case.pair == "diagonal" and case.n_keys is not None:
        raise InputError(
            "pair must be off-diagonal for statistics of rows, whose query is not among the "
            f"keys, got {case.pair}; drop --pair or ask for logit moments"
        )


_FORMULAS = {
    "untied": {
        "variance": "d vq vk E|x|^2 |y|^2",
        "mean": "0, since -W_Q is as likely as W_Q",
        "skewness": "0, since -W_Q is as likely as W_Q",
        "kurtosis": "E s^4 / (E s^2)^2 - 3 with E q_i^4 = vq^2 (3|x|^4 + (kappa-3) sum x_j^4)",
    },
    "tied": {
        "variance": "d v^2 (E |x|^2|y|^2 + (x.y)^2 + (kappa-3) sum x_i^2 y_i^2) + d^2 v^2 Var x.y",
        "mean": "d v E x.y",
    },
    "off-diagonal": {
        "variance": "tr(A C A' C), A = W_Q' W_K, C = cov(x)",
        "mean": "0, since -x is as likely as x",
        "skewness": "0, since -x is as likely as x",
    },
    "diagonal": {
        "variance": "2 D^2/(n (n+2)) sum (l - mean l)^2, l the n eigenvalues of (A + A')/2",
        "mean": "tr(A C), A = W_Q' W_K, C = cov(x)",
    },
}


def described(case: Case, quantity: str) -> tuple[str, str]:
    """Assumptions and formula, in words, of a logit moment of a case with weights."""
    tied = parse_weights(str(case.weights))[2]
    drawn = ENSEMBLES[case.ensemble]
    words = f"{drawn}; {case.tokens} tokens; " + ("W_K = W_Q" if tied else "W_Q, W_K independent")
    fixed = case.ensemble == "tokens"
    formulas = _FORMULAS[case.pair if fixed else "tied" if tied else "untied"]
    of_variance = formulas["variance"]
    if fixed and case.tokens == "normal" and case.pair == "diagonal":
        of_variance = "2 sum l^2, l eigenvalues of (A + A')/2, A = W_Q' W_K"
    known = {"variance": of_variance, "std": f"sqrt({of_variance})"} | {
        name: formula for name, formula in formulas.items() if name != "variance"
    }
    return words, known.get(quantity, f"{quantity} from the moments of the quadratic form")
