"""Attention layers of libraries: how each is made, fed with tokens, and said to be initialised."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...stats.audit.options import AuditOptions
from ...stats.cases import Case
from ...stats.checks import InputError
from ...stats.weights.layers import layer_of
from .models import Model, framework_of, seeded_call, versions
from .seen import Seen

BATCH, LENGTH = 4, 32  # sequences and tokens of each: enough that tokens average out
Tokens = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Known:
    """How a layer is made from (d_model, heads, seed), and the scheme of its q and k."""

    make: Callable[[Any, int, int, int], Any]
    recipe: str
    width: str = ""  # attribute that holds d_model, "" where the input decides
    arguments: int = 1  # how often the tokens are handed over


def _nnx(cls: Any, d_model: int, heads: int, seed: int) -> Any:
    rngs = importlib.import_module("flax.nnx").Rngs(seed)
    return cls(num_heads=heads, in_features=d_model, decode=False, rngs=rngs)


def _equinox(cls: Any, d_model: int, heads: int, seed: int) -> Any:
    return cls(heads, d_model, key=importlib.import_module("jax").random.key(seed))


def _torch(cls: Any, d_model: int, heads: int, seed: int) -> Any:
    return cls(d_model, heads, batch_first=True)


LAYERS: dict[tuple[str, str], Known] = {
    ("torch", "MultiheadAttention"): Known(_torch, "xavier-packed-uniform", "embed_dim", 3),
    ("torch", "TransformerEncoderLayer"): Known(_torch, "xavier-packed-uniform"),
    ("equinox", "MultiheadAttention"): Known(_equinox, "torch-linear", "query_size", 3),
    ("flax.nnx", "MultiHeadAttention"): Known(_nnx, "lecun-truncated", "in_features"),
    ("flax.linen", "MultiHeadDotProductAttention"): Known(
        lambda cls, d_model, heads, seed: cls(num_heads=heads), "lecun-truncated"
    ),
    ("keras", "MultiHeadAttention"): Known(
        lambda cls, d_model, heads, seed: cls(heads, d_model // heads), "xavier-uniform", "", 2
    ),
}
"""By framework and class. What is not here is audited through a function that makes it."""

_WAY_OUT = "write a function of seed that returns (module, inputs) and give its name"


def is_layer(found: Any) -> bool:
    """Whether a class, or the class of a module, is one of `LAYERS`."""
    cls = found if isinstance(found, type) else type(found)
    return (framework_of(found), cls.__name__) in LAYERS


def library_model(found: Any, name: str, options: AuditOptions) -> Model:
    """The model of a known class, made with --d-model and --n-heads, or of one of its instances.

    Raises InputError for a module that is not in `LAYERS`, with the way to audit it.
    """
    framework = framework_of(found)
    cls = found if isinstance(found, type) else type(found)
    known = LAYERS.get((framework, cls.__name__))
    if known is None:
        raise InputError(f"how to make or call {name} is not known; {_WAY_OUT}")
    recipe, width, heads = known.recipe, options.d_model, options.heads
    if not isinstance(found, type):
        if not (known.width and hasattr(found, known.width)):
            raise InputError(f"the width of the tokens of {name} is not known; {_WAY_OUT}")
        width = int(getattr(found, known.width))
    elif width % heads:
        raise InputError(f"d_model must be a multiple of n_heads = {heads}, got {width}")

    def tap(seed: int) -> Sequence[Seen]:
        module = found
        if isinstance(found, type):
            module = seeded_call(lambda: known.make(found, width, heads, seed), seed)
        rng = np.random.default_rng(seed)
        tokens = rng.standard_normal((BATCH, LENGTH, width), np.float32)
        return _tapped(framework, module, tokens, known.arguments, seed)

    def scheme(width: int, d_k: int, heads: int) -> tuple[float, float]:
        layer = layer_of(Case(d_k, weights=recipe, d_model=width, heads=heads))
        return layer.variance_q, layer.variance_k

    facts, redrawn = versions(found), isinstance(found, type)
    drawn = f"{BATCH} x {LENGTH} unit normal tokens of {width}"
    return Model(name, facts, tap, BATCH, redrawn, None, scheme, recipe, drawn)


def _keras_backend() -> str:
    """The framework that runs Keras's layers. Raises InputError for one that has no tap."""
    backend = str(importlib.import_module("keras").config.backend())
    if backend not in ("jax", "torch"):
        raise InputError(f"Keras runs on {backend} here; set KERAS_BACKEND to jax or torch")
    return backend


def _tapped(framework: str, module: Any, x: Tokens, arguments: int, seed: int) -> Sequence[Seen]:
    if framework == "keras":
        framework = _keras_backend()
        seeded_call(lambda: module(*[x] * arguments), seed)  # weights are drawn by the first call
    if framework == "torch":
        import torch

        from .dispatch import tapped_torch

        return tapped_torch(module, *[torch.from_numpy(x)] * arguments)
    import jax

    from .jaxpr import tapped_jax

    def call(*inputs: Any) -> Any:
        return module(*inputs)

    if framework == "flax.linen":
        variables = module.init(jax.random.key(seed), x)
        return tapped_jax(lambda y: module.apply(variables, y), x)
    if framework == "equinox":  # made for one sequence
        return tapped_jax(jax.vmap(lambda y: call(*[y] * arguments)), x)
    return tapped_jax(lambda y: call(*[y] * arguments), x)
