"""The initialisations that the query and key weights can have, as plain data.

q = W_Q x and k = W_K y with W_Q, W_K of shape [d_k, d_model], one head of H. All entries have
mean 0; an entry's law is its unit law times the root of its variance, which depends on d_model
(the fan-in), d_k and H alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ..checks import InputError, named, positive
from ..elements import element_moment

CUT = element_moment("truncated-normal-raw:2", 2)
"""Variance that is left of a standard normal cut at 2 standard deviations, 0.7737 = 0.8796^2."""


class Shape(NamedTuple):
    """What an entry's variance depends on."""

    d_model: int
    d_k: int
    heads: int
    parameter: float


@dataclass(frozen=True, slots=True)
class Initialisation:
    """One initialisation: the variances of the entries of W_Q and W_K and their unit law.

    `law` is a name of `stats.elements.ELEMENTS` in its unit form, or `orthogonal` where rows are
    orthonormal and entries are not independent. `scale` is what multiplies q.k in models that are
    initialised so. `symbol` names the parameter, `default` stands where it is not given.
    """

    formula: str
    source: str
    variance: Callable[[Shape], tuple[float, float]]
    law: str = "normal"
    needs: tuple[str, ...] = ("d_model",)
    scale: str = "sqrt-dk"
    symbol: str | None = None
    default: float | None = None


def _same(variance: Callable[[Shape], float]) -> Callable[[Shape], tuple[float, float]]:
    """The variance of W_Q and of W_K where the two are alike."""
    return lambda shape: (variance(shape), variance(shape))


_FANS: dict[str, tuple[str, Callable[[Shape], float], tuple[str, ...], str]] = {
    "lecun": (
        "1/D",
        lambda s: 1 / s.d_model,
        ("d_model",),
        "LeCun et al. 1998; flax.linen.Dense",
    ),
    "xavier": (
        "2/(D + H d_k)",
        lambda s: 2 / (s.d_model + s.heads * s.d_k),
        ("d_model", "heads"),
        "Glorot and Bengio 2010, eq. 16; a layer of H heads, as in Keras",
    ),
    "xavier-head": (
        "2/(D + d_k)",
        lambda s: 2 / (s.d_model + s.d_k),
        ("d_model",),
        "Glorot and Bengio 2010, each head on its own",
    ),
    "xavier-packed": (
        "2/(D + 3D)",
        lambda s: 1 / (2 * s.d_model),
        ("d_model",),
        "torch.nn.MultiheadAttention, q, k, v in one matrix (pytorch issue 166378)",
    ),
    "he": ("2/D", lambda s: 2 / s.d_model, ("d_model",), "He et al. 2015, eq. 10"),
}
_LAWS = {
    "normal": ("N(0, {})", "normal", 1.0, "torch"),
    "uniform": ("U(-a, a): variance {}", "uniform", 1.0, "torch, JAX"),
    "truncated": (
        "N cut at 2 sd, then divided by 0.8796: variance {}",
        "truncated-normal:2",
        1.0,
        "jax.nn.initializers.variance_scaling",
    ),
    "truncated-raw": (
        "N cut at 2 sd: variance 0.7737 {}",
        "truncated-normal:2",
        CUT,
        "Keras and TensorFlow before they divided by 0.8796",
    ),
}
WEIGHTS: dict[str, Initialisation] = {
    f"{fan}-{name}": Initialisation(
        shown.format(variance),
        f"{source}; {home}",
        _same(lambda s, of=of, left=left: left * of(s)),  # type: ignore[misc]
        law,
        needs,
    )
    for fan, (variance, of, needs, source) in _FANS.items()
    for name, (shown, law, left, home) in _LAWS.items()
} | {
    "torch-linear": Initialisation(
        "U(-1/sqrt(D), 1/sqrt(D)): variance 1/(3D)",
        "torch.nn.Linear.reset_parameters",
        _same(lambda s: 1 / (3 * s.d_model)),
        "uniform",
    ),
    "normal": Initialisation(
        "N(0, S^2)",
        "GPT-2, and initializer_range = 0.02 of Hugging Face models",
        _same(lambda s: s.parameter**2),
        symbol="S",
        default=0.02,
    ),
    "truncated-normal": Initialisation(
        "N cut at 2 sd, then divided by 0.8796: variance S^2",
        "jax.nn.initializers.truncated_normal with stddev / 0.8796",
        _same(lambda s: s.parameter**2),
        "truncated-normal:2",
        symbol="S",
        default=0.02,
    ),
    "truncated-normal-raw": Initialisation(
        "N(0, S^2) cut at 2 S: variance 0.7737 S^2",
        "BERT, tf.initializers.TruncatedNormal, jax.nn.initializers.truncated_normal",
        _same(lambda s: CUT * s.parameter**2),
        "truncated-normal:2",
        symbol="S",
        default=0.02,
    ),
    "t5": Initialisation(
        "W_Q: N(0, 1/(D d_k)), W_K: N(0, 1/D), no divisor",
        "Raffel et al. 2020; transformers T5Attention",
        lambda s: (1 / (s.d_model * s.d_k), 1 / s.d_model),
        scale="none",
    ),
    "mup": Initialisation(
        "N(0, 1/D), logits divided by d_k",
        "Yang et al. 2022, Tensor Programs V, table 8",
        _same(lambda s: 1 / s.d_model),
        scale="dk",
    ),
    "orthogonal": Initialisation(
        "orthonormal rows, uniform (Haar): variance 1/D",
        "Saxe et al. 2014; torch.nn.init.orthogonal_, jax.nn.initializers.orthogonal",
        _same(lambda s: 1 / s.d_model),
        "orthogonal",
        needs=("d_model >= d_k",),
    ),
}

TIED = Initialisation(
    "W_K = W_Q, drawn as NAME",
    "two initialisers with one seed, or one that ignores its seed",
    _same(lambda s: math.nan),  # that of NAME
    symbol="NAME",
)
"""Not in `WEIGHTS`, since its parameter is a name of them: `tied:lecun-normal`."""

_SYNONYMS = {"glorot": "xavier", "kaiming": "he", "gpt2": "normal", "bert": "truncated-normal-raw"}


def parse_weights(text: str) -> tuple[str, float | None, bool]:
    """Name, parameter and whether W_K = W_Q, of `name`, `name:parameter` or `tied:` before either.

    Underscores are dashes; glorot is xavier, kaiming is he, gpt2 is normal:0.02 and bert is
    truncated-normal-raw:0.02. Raises InputError for an unknown name or a wrong parameter.

    Examples:
        >>> parse_weights("glorot_uniform"), parse_weights("tied:normal:0.1")
        (('xavier-uniform', None, False), ('normal', 0.1, True))

    """
    tied = text.partition(":")[0] == "tied"
    wanted = (text.partition(":")[2] or "lecun-normal") if tied else text
    start, dash, rest = wanted.lower().replace("_", "-").partition("-")
    spelled = _SYNONYMS.get(start, start) + dash + rest
    name, written = named("weights", spelled, WEIGHTS, lambda known: WEIGHTS[known].symbol)
    entry = WEIGHTS[name]
    if tied and entry.law == "orthogonal":
        raise InputError(f"tied weights need independent entries, got {text}; take tied:normal:1")
    if entry.symbol is None:
        return name, None, tied
    if written is None:
        return name, entry.default, tied
    parameter = positive(f"{entry.symbol} of {name}", written)
    if not 1e-6 <= parameter <= 1e3:
        raise InputError(f"{entry.symbol} of {name} must be from 1e-06 to 1000, got {written}")
    return name, parameter, tied


def canonical_weights(text: str) -> str:
    """The one spelling of an initialisation, its parameter always written.

    Examples:
        >>> canonical_weights("gpt2"), canonical_weights("tied:glorot-normal")
        ('normal:0.02', 'tied:xavier-normal')

    """
    name, parameter, tied = parse_weights(text)
    number = "" if parameter is None else f":{repr(parameter).removesuffix('.0')}"
    return f"{'tied:' if tied else ''}{name}{number}"


def default_scale(text: str | None) -> str:
    """The scale that models with this initialisation use; none where there are no weights."""
    if text is None:
        return "none"
    name, _, _ = parse_weights(text)
    return WEIGHTS[name].scale
