"""What is measured of ours: the variance of the logit from the fused kernel."""

from __future__ import annotations

from functools import reduce

from verify_variance.simulations.logits import BLOCK, measure_pairs, to_moments
from verify_variance.stats.cases import Case
from verify_variance.stats.moments import Moments


def variance(law: str, pairs: int, d_k: int, seed: int) -> float:
    """Variance of the logit, its blocks merged as a run merges them."""
    case = Case(d_k=d_k, elements_q=law, elements_k=law)
    blocks = -(-pairs // BLOCK)
    last = pairs - (blocks - 1) * BLOCK
    rows = measure_pairs(case, seed, 0, blocks, last, None)
    return reduce(Moments.merge, (to_moments(row)["logit"] for row in rows)).central(2)
