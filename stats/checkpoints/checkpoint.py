"""A checkpoint as the audit sees it: tensors that are read when they are needed, and a config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import InputError
from ..shown import shortened
from .models import Config
from .safetensors import FLOATS


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor in a file: its type's name, its shape, and how to look at it.

    `look` gives an array-like of that shape which reads no more than what is sliced out of it.
    """

    dtype: str
    shape: tuple[int, ...]
    look: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Tensors by name, and what config.json declares (empty where there is none)."""

    name: str
    tensors: Mapping[str, Stored]
    config: Config

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor."""
        return {name: stored.shape for name, stored in self.tensors.items()}

    def part(self, name: str, *rows: slice) -> NDArray[np.float64]:
        """A part of a tensor as float64; InputError where it does not hold real numbers."""
        stored = self.tensors[name]
        if stored.dtype not in FLOATS.values():
            raise InputError(
                f"{shortened(name)} must hold floating-point numbers, got "
                f"{shortened(stored.dtype)}; give the weights before quantisation"
            )
        with np.errstate(invalid="ignore"):  # a nan may be of the kind that signals
            return np.asarray(stored.look()[rows]).astype(np.float64)

    def maybe(self, name: str) -> NDArray[np.float64] | None:
        """A whole vector or small matrix, or None where it is not there."""
        return self.part(name) if name in self.tensors else None
