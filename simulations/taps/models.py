"""A module that can be drawn anew, run on tokens, and tapped.

Besides classes that are known (`library`) and models of transformers (`hub`), a target may be a
module, a function of no argument that returns `(module, inputs)`, or one of a seed, which is
called for every draw of the weights.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...stats.checks import InputError
from ...stats.shown import error_said
from .seen import Seen

Scheme = Callable[[int, int, int], tuple[float, float]]
"""Variances of the elements of W_q and W_k, from D, d_k and the number of heads."""


@dataclass(frozen=True, slots=True)
class Model:
    """What is audited: `tap(seed)` draws weights and tokens and returns what softmaxes got.

    `redrawn` says whether another seed gives other weights. `scale(layer, d_k)` is the factor that
    is declared with its name, None where none is; `scheme` the variances that are declared, with
    `recipe` their name.
    """

    name: str
    facts: Mapping[str, str]
    tap: Callable[[int], Sequence[Seen]]
    batch: int = 1
    redrawn: bool = True
    scale: Callable[[int, int], tuple[float, str]] | None = None
    scheme: Scheme | None = None
    recipe: str = ""
    tokens: str = field(default="your inputs")


def is_factory(target: Any) -> bool:
    """Whether a target makes what is to be audited: a function of nothing, or of a seed.

    Examples:
        >>> is_factory(lambda seed: None), is_factory(lambda q, k, v: None)
        (True, False)
        >>> is_factory(lambda heads=4: None), is_factory(lambda *args: None)
        (True, False)

    """
    if not inspect.isroutine(target):
        return False
    try:
        needed = _needed(target)
        names = [*inspect.signature(target).parameters][:3]
    except Exception:  # a foreign object may raise anything when it is looked at
        return False
    return needed == ["seed"] or (not needed and not _takes_q_k_v(target, names))


def _takes_q_k_v(target: Any, names: list[str]) -> bool:
    """Whether a function that needs nothing is no factory: it takes (*args), or q, k and v."""
    first = next(iter(inspect.signature(target).parameters.values()), None)
    if first is not None and first.kind is first.VAR_POSITIONAL:
        return True  # a decorator that does not say what it wraps
    return [name.lower()[:1] for name in names] == ["q", "k", "v"]


def as_function(module: Any) -> Any:
    """The call of a module as a function, where what it takes first is q, k and v; else None."""
    called = getattr(module, "forward", module)
    try:
        parameters = inspect.signature(called).parameters.values()
    except Exception:  # a foreign object may raise anything when it is looked at
        return None
    names = [p.name.lower()[:1] for p in parameters][:3]
    bound = not isinstance(module, type) and framework_of(module) != "flax.linen"
    return called if names == ["q", "k", "v"] and bound else None


def _needed(target: Any) -> list[str]:
    """Names of the arguments that a function cannot be called without."""
    return [
        p.name
        for p in inspect.signature(target).parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def made_by(factory: Callable[..., Any], name: str) -> Model:
    """The model that a function makes; its name is that of the target.

    The seeds of torch and Keras are set before each call, and torch's put back after it.
    """
    seeded = _needed(factory) == ["seed"]

    def made(seed: int) -> tuple[Any, Any]:
        with _users_errors(name):
            returned = seeded_call(lambda: factory(seed) if seeded else factory(), seed)
        return _module_and_inputs(returned, name)

    def tap(seed: int) -> list[Seen]:
        module, inputs = made(seed)
        with _users_errors(name):
            return _tapped(module, inputs, seed)

    module, inputs = made(0)
    return Model(name, versions(module), tap, _batch_of(inputs))


@contextmanager
def _users_errors(name: str) -> Iterator[None]:
    """What goes wrong in a user's code is said in one line; the cause is kept for debugging."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"target {name} failed when run: {error_said(error)}") from error


def _module_and_inputs(made: Any, name: str) -> tuple[Any, Any]:
    parts = list(made) if isinstance(made, tuple) else []
    if len(parts) == 2 and callable(parts[0]):
        return parts[0], parts[1]
    raise InputError(
        f"target {name} must return (module, inputs), got {type(made).__name__}; inputs are an "
        "array, a tuple of them, or a dictionary by the names of arguments"
    )


def _batch_of(inputs: Any) -> int:
    """Sequences in the first array, if it has such an axis."""
    first = inputs
    while isinstance(first, tuple | list | Mapping) and first:
        first = next(iter(first.values() if isinstance(first, Mapping) else first))
    shape: tuple[int, ...] = tuple(getattr(first, "shape", ()))
    return int(shape[0]) if len(shape) > 1 else 1


def _tapped(module: Any, inputs: Any, seed: int) -> list[Seen]:
    """What the softmaxes of a module of any framework get from its inputs."""
    named = dict(inputs) if isinstance(inputs, Mapping) else {}
    given = () if named else tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    arrays = [*given, *named.values()]
    if framework_of(module) == "torch" or any(type(x).__module__ == "torch" for x in arrays):
        from .dispatch import tapped_torch

        return tapped_torch(module, *given, **named)
    from .jaxpr import tapped_jax

    if framework_of(module) == "flax.linen":
        import jax

        variables = module.init(jax.random.key(seed), *given, **named)
        return tapped_jax(lambda *x: module.apply(variables, *x, **named), *given)
    return tapped_jax(lambda *x: module(*x, **named), *given)


def framework_of(found: Any) -> str:
    """torch, flax.linen, flax.nnx, keras or equinox, "" for anything else."""
    classes = found.__mro__ if isinstance(found, type) else type(found).__mro__
    known = {("torch", "Module"): "torch", ("equinox", "Module"): "equinox",
             ("keras", "Layer"): "keras"}  # fmt: skip
    for each in classes:
        package = each.__module__.partition(".")[0]
        if package == "flax" and each.__name__ == "Module":
            return "flax.linen" if ".linen." in each.__module__ else "flax.nnx"
        if (package, each.__name__) in known:
            return known[package, each.__name__]
    return ""


def versions(*objects: Any) -> dict[str, str]:
    """Versions of the libraries that objects come from."""
    found = {}
    for each in objects:
        package = (framework_of(each) or "jax").partition(".")[0]
        found[package] = str(getattr(sys.modules.get(package), "__version__", "?"))
    return found


def seeded_call(make: Callable[[], Any], seed: int) -> Any:
    """Call with the global seeds of torch and Keras set, torch's put back afterwards."""
    torch, keras = sys.modules.get("torch"), sys.modules.get("keras")
    if keras is not None:
        keras.utils.set_random_seed(seed)
    if torch is None:
        return make()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()
