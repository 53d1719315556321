"""One layer over all draws of a module's weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .heads import Layer
from .seen import Array


@dataclass(frozen=True, slots=True)
class Draws:
    """The same softmax of a module in every draw of its weights."""

    index: int
    layers: Sequence[Layer]

    @property
    def first(self) -> Layer:
        """The first draw's."""
        return self.layers[0]

    @property
    def where(self) -> str:
        """Its place in words."""
        return f"layer {self.index}"

    @property
    def heads(self) -> int:
        """Query heads."""
        return len(self.first.groups)

    def replicates(self, values: Iterable[Array]) -> Array:
        """Values [heads] of every draw as the means of the heads that share a key head.

        Given the tokens these are independent: weights of other heads and draws are.
        """
        means = [
            of[layer.groups == group].mean()
            for layer, of in zip(self.layers, values, strict=True)
            for group in np.unique(layer.groups)
        ]
        return np.array(means)
