"""The transforms of a case: parsed, in the stated order, with the lengths and shapes they imply."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..cases import Case
from ..checks import InputError, named, no_duplicates
from .catalogue import STEPS, TRANSFORMS

Stack = dict[str, tuple[float, ...]]
"""Transforms by name, in the stated order, with their parameters."""


def parse_transform(text: str) -> tuple[str, tuple[float, ...]]:
    """Name and parameters of one transform, written `name` or `name:A:B`.

    Examples:
        >>> parse_transform("top-k:8:64"), parse_transform("l2norm")
        (('top-k', (8, 64)), ('l2norm', (10.0,)))

    """
    takes = {name: t.parameters[0].symbol for name, t in TRANSFORMS.items() if t.parameters}
    name, given = named("transform", text, TRANSFORMS, takes.get)
    parameters = TRANSFORMS[name].parameters
    texts = [] if given is None else given.split(":")
    spelled = ":".join([name, *(p.symbol for p in parameters)])
    if len(texts) > len(parameters):
        raise InputError(f"transform {name} takes {spelled}, got {text!r}")
    values = []
    for i, parameter in enumerate(parameters):
        if i < len(texts):
            values.append(parameter.check(f"transform {name}'s {parameter.word}", texts[i]))
        elif parameter.default is not None:
            values.append(parameter.default)
        else:
            raise InputError(
                f"transform {name} needs its {parameter.word} ({parameter.meaning}); "
                f"write {spelled}"
            )
    return name, tuple(values)


def canonical_transform(text: str) -> tuple[str, ...]:
    """The transforms that `text` composes with `+`, each in its one spelling, in the stated order.

    Examples:
        >>> canonical_transform("causal+softcap:50.0+rope"), canonical_transform("none")
        (('rope:1', 'softcap:50', 'causal'), ())

    """
    if text == "none":
        return ()
    stack = dict(parse_transform(part) for part in text.split("+"))
    no_duplicates("transform", [part.partition(":")[0] for part in text.split("+")])
    return spelled(stack)


def spelled(stack: Stack) -> tuple[str, ...]:
    """A stack as a case holds it. InputError where two of its transforms do the same step."""
    by_step: dict[str, str] = {}
    for name in stack:
        step = TRANSFORMS[name].step
        if step in by_step:
            raise InputError(
                f"transform takes one {step} step, got {by_step[step]} and {name}; drop one"
            )
        by_step[step] = name
    ordered = [by_step[step] for step in STEPS if step in by_step]
    return tuple(":".join([name, *_written(stack[name])]) for name in ordered)


def _written(values: Iterable[float]) -> list[str]:
    return [repr(value).removesuffix(".0") for value in values if not math.isnan(value)]


def stack_of(case: Case) -> Stack:
    """The case's transforms with their parameters, in the stated order.

    Examples:
        >>> stack_of(Case(transform=("rope:1", "causal")))
        {'rope': (1,), 'causal': ()}

    """
    return dict(parse_transform(text) for text in case.transform)


def with_length(transform: tuple[str, ...], n: int, of_rows: bool) -> tuple[str, ...]:
    """The length N written where logit moments need it, and left out where the row has n_keys.

    Examples:
        >>> with_length(("top-k:8",), 64, False), with_length(("top-k:8:64",), 64, True)
        (('top-k:8:64',), ('top-k:8',))

    """
    stack = dict(parse_transform(text) for text in transform)
    for name, values in stack.items():
        if not TRANSFORMS[name].of_row:
            continue
        *others, given = values
        if of_rows and given not in (n,) and not math.isnan(given):
            raise InputError(
                f"transform {name}'s length must be n_keys = {n} in a row, got {given:g}; "
                "leave it out"
            )
        length = math.nan if of_rows else n if math.isnan(given) else given
        stack[name] = (*others, length)
    return spelled(stack)


def has_no_rows(transform: tuple[str, ...]) -> bool:
    """Whether there is no softmax, so that sweeps leave statistics of rows out."""
    return any(text.startswith("linear-attention") for text in transform)


def lengths(stack: Stack) -> set[float]:
    """The lengths N that its transforms are written with."""
    found = {values[-1] for name, values in stack.items() if TRANSFORMS[name].of_row}
    return {n for n in found if not math.isnan(n)}


def draw_shape(case: Case) -> tuple[int, int]:
    """Queries and keys that one replicate draws.

    Examples:
        >>> draw_shape(Case(n_keys=10)), draw_shape(Case(transform=("queries:4:10",)))
        ((1, 10), (4, 10))
        >>> draw_shape(Case(n_keys=10, transform=("top-k-position:3",)))
        (1, 3)

    """
    stack = stack_of(case)
    group = stack.get("gqa", stack.get("queries", (1,)))
    keys = case.n_keys or int(max(lengths(stack), default=1))
    if "top-k-position" in stack and (case.n_keys or lengths(stack)):
        keys = min(keys, int(stack["top-k-position"][0]))
    return int(group[0]), keys
