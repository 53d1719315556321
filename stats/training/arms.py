"""Arms: the same Transformer but for what stands between q.k and the softmax, as numbers.

All arms run through one program; an arm is the numbers that it is handed:

    x = multiplier (q.k), or (q.k - mean) / sd over the keys seen (score_norm), p = softmax(x),
    out = value_factor sum_j p_j v_j, with q and k over their root mean square first (qk_norm).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..cases import Case
from ..checks import choice
from ..conventions import scale_factor

REFERENCE = "sqrt-dk"
"""The arm that every other one is compared with."""
CONTROL = "no-attention"
"""The arm whose attention adds nothing: what a loss is worth is told by the way down from it."""


@dataclass(frozen=True, slots=True)
class Arm:
    """The numbers of an arm; flags are 0 or 1, so that they can be traced."""

    multiplier: float
    learnable: float = 0.0
    qk_norm: float = 0.0
    score_norm: float = 0.0
    value_factor: float = 1.0


ARMS: dict[str, str] = {
    "sqrt-dk": "q.k / sqrt(d_k)",
    "none": "q.k",
    "dk": "q.k / d_k",
    "constant:10": "q.k / 10",
    "power:0.6": "q.k / d_k^0.6",
    "power:0.8": "q.k / d_k^0.8",
    "sqrt-dmodel": "q.k / sqrt(d_model)",
    "learnable:1": "a (q.k), a trained from 1",
    "learnable:sqrt-dk": "a (q.k), a trained from 1 / sqrt(d_k)",
    "score-layernorm": "q.k standardised over the keys seen",
    "v-compensation": "q.k, and V / sqrt(d_k)",
    "qk-rmsnorm": "q and k over their rms, times trained gains; then / sqrt(d_k)",
    CONTROL: "values times 0: what the rest of the model learns alone",
    "sd-15": "q.k times 15 / sqrt(d_k): logits of standard deviation 15 at the start",
}
"""Every arm and what it is; standard normal q and k give q.k the standard deviation sqrt(d_k)."""


def arm_of(name: str, d_k: int, d_model: int) -> Arm:
    """The numbers of an arm for heads of width d_k.

    Examples:
        >>> arm_of("learnable:sqrt-dk", 16, 128)
        Arm(multiplier=0.25, learnable=1.0, qk_norm=0.0, score_norm=0.0, value_factor=1.0)

    """
    choice("arm", name, ARMS)
    root = math.sqrt(d_k)
    special = {
        "learnable:1": Arm(1.0, learnable=1.0),
        "learnable:sqrt-dk": Arm(1 / root, learnable=1.0),
        "score-layernorm": Arm(1.0, score_norm=1.0),
        "v-compensation": Arm(1.0, value_factor=1 / root),
        "qk-rmsnorm": Arm(1 / root, qk_norm=1.0),
        "sd-15": Arm(15 / root),
        CONTROL: Arm(1 / root, value_factor=0.0),
    }
    if name in special:
        return special[name]
    return Arm(scale_factor(Case(d_k=d_k, d_model=d_model, scale=name)))
