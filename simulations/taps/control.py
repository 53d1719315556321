"""Scans, loops and branches of a jaxpr, run from the inside, each array with its origin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from .origins import LEAF, UNKNOWN, Origin, reshaped


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """An array and where it came from."""

    value: Any
    origin: Origin = UNKNOWN


Inner = Callable[[Any, Sequence[Traced]], list[Traced]]
"""Runs a jaxpr that stands in an equation's parameters."""


def _scan(parameters: Any, inputs: list[Traced], inner: Inner) -> list[Traced]:
    fixed, carried = _counts_of_scan(parameters)
    consts, carry = inputs[:fixed], inputs[fixed : fixed + carried]
    stacked, length = inputs[fixed + carried :], parameters["length"]
    steps: list[list[Traced]] = [[] for _ in range(length)]
    for step in reversed(range(length)) if parameters["reverse"] else range(length):
        slices = [Traced(traced.value[step], _sliced(traced.origin, step)) for traced in stacked]
        made = inner(parameters["jaxpr"], [*consts, *carry, *slices])
        carry, steps[step] = made[:carried], made[carried:]
    if not length:
        avals = parameters["jaxpr"].out_avals[carried:]
        return [*carry, *(Traced(jnp.zeros((0, *aval.shape), aval.dtype)) for aval in avals)]
    joined = [
        Traced(jnp.stack([traced.value for traced in each]), _stacked(each))
        for each in zip(*steps, strict=True)
    ]
    return [*carry, *joined]


def _counts_of_scan(parameters: Any) -> tuple[int, int]:
    """How many inputs are constants and how many are carried; JAX 0.12 keeps them as trees."""
    if "num_consts" in parameters:
        return parameters["num_consts"], parameters["num_carry"]
    consts, carry, _ = parameters["ft_in"].unpack()
    return len(consts), len(carry)


def _sliced(origin: Origin, step: int) -> Origin:
    return LEAF if origin.leaf else reshaped(origin, lambda x: x[step])


def _stacked(slices: Sequence[Traced]) -> Origin:
    factors = {traced.origin.factor for traced in slices}
    return Origin(factor=factors.pop()) if len(factors) == 1 else UNKNOWN


def _while(parameters: Any, inputs: list[Traced], inner: Inner) -> list[Traced]:
    tested, repeated = parameters["cond_nconsts"], parameters["body_nconsts"]
    of_test, of_body = inputs[:tested], inputs[tested : tested + repeated]
    carry = inputs[tested + repeated :]
    while bool(inner(parameters["cond_jaxpr"], [*of_test, *carry])[0].value):
        carry = inner(parameters["body_jaxpr"], [*of_body, *carry])
    return carry


def _cond(parameters: Any, inputs: list[Traced], inner: Inner) -> list[Traced]:
    branches = parameters["branches"]
    chosen = min(max(int(inputs[0].value), 0), len(branches) - 1)
    return inner(branches[chosen], inputs[1:])


CONTROL = {"scan": _scan, "while": _while, "cond": _cond}
"""By the name of the primitive."""
