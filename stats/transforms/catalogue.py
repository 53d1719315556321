"""Attention variants: what happens to q, k, logits and softmax, as plain data with sources.

`STEPS` is the stated order in which they act, whatever the order in which they are written:

    normalise q and k, rotate them, q.k, scale (local keys by more), normalise the row of scores,
    cap, add a bias, mask, keep the largest, softmax

so that a cap comes before bias and mask, and neither is multiplied by the scale. Key j of a row
stands j positions before the nearest one, and "local", "causal" and "by position" count from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..checks import MAX_N_KEYS, count, number
from ..scales import Check, Parameter

STEPS = (
    "queries", "norm", "rotation", "divisor", "locality", "scores", "cap", "bias", "constant",
    "mask", "selection", "softmax",
)  # fmt: skip
VECTOR_STEPS = ("norm", "rotation")


@dataclass(frozen=True, slots=True)
class Transform:
    """One variant: where it acts, what it does, and what it does to theory.

    `of_row`: the logit moments are those of a key drawn from a row, whose length N is the last
    parameter (n_keys where it is not written).
    """

    step: str
    formula: str
    theory: str
    source: str
    parameters: tuple[Parameter, ...] = ()
    of_row: bool = False


def _whole(least: int, most: int = MAX_N_KEYS) -> Check:
    return lambda name, value: count(name, value, least=least, most=most)


def _real(low: float, high: float) -> Check:
    rule = f"from {low:g} to {high:g}"
    return lambda name, value: number(name, value, rule, lambda x: low <= x <= high)


def _length(least: int = 1) -> Parameter:
    return Parameter("N", "N, keys of a row (n_keys if not given)", _whole(least), "length",
                     math.nan)  # fmt: skip


_CAP = Parameter("C", "C, the cap, from 0.1", _real(0.1, 1e6), "cap")
_KEPT = Parameter("K", "K, the keys kept", _whole(1), "number of keys")

TRANSFORMS: dict[str, Transform] = {
    "gqa": Transform(
        "queries",
        "G queries share their keys; the replicate is the group",
        "means unchanged; over one key Var(mean x^2) has design effect 1 + (G-1)/(d+3) for normals",
        "Ainslie et al. 2023 (2305.13245); G = 8 in Llama 3 70B",
        (Parameter("G", "G, queries of a group", _whole(1, 1024), "group"),),
    ),
    "queries": Transform(
        "queries",
        "M queries on the same N keys; the replicate is the pair of matrices",
        "means unchanged; Var(mean x^2) has design effect 1 + (M+N-2)/(d+3) for normals",
        "every implementation; stats.sampling_errors.design_effect",
        (Parameter("M", "M, the queries", _whole(1, 1024), "queries"), _length()),
        of_row=True,
    ),
    "qk-rmsnorm": Transform(
        "norm",
        "q sqrt(d) / |q|, k sqrt(d) / |k|",
        "x = d cos: variance d exactly, (1 + cos)/2 ~ Beta((d-1)/2, (d-1)/2), exact rows",
        "Henry et al. 2020 (2010.04245); qwen3, olmo2, gemma3",
    ),
    "qk-layernorm": Transform(
        "norm",
        "(q - mean q) / sd q, (k - mean k) / sd k, over the elements",
        "the same in d - 1 dimensions: variance d^2 / (d - 1)",
        "Dehghani et al. 2023 (2302.05442); chameleon",
    ),
    "l2norm": Transform(
        "norm",
        "T cos(q, k)",
        "variance T^2 / d, the same Beta law",
        "Henry et al. 2020 (2010.04245); swinv2, x-transformers (T = 10)",
        (Parameter("T", "T, the temperature's inverse (10 if not given)", _real(1e-3, 1e6),
                   "factor", 10.0),),
    ),
    "rope": Transform(
        "rotation",
        "plane i of q turns by m 10000^(-2i/d) against k, m = M + j the distance of key j",
        "mean and variance unchanged, for normal elements the law; else the kurtosis changes",
        "Su et al. 2021 (2104.09864), eq. 15",
        (Parameter("M", "M, distance of the nearest key (1 if not given)", _whole(0), "distance",
                   1.0),),
    ),
    "v-compensation": Transform(
        "divisor",
        "softmax(q.k) (factor v): the scale multiplies the values, not the logits",
        "logits, softmax and J are those of scale none",
        "a proposal to scale the other path",
    ),
    "locality": Transform(
        "locality",
        "the W nearest keys are divided by sqrt(d/2) where the others are by sqrt(d)",
        "sum p^2, entropy, tr J, |J|_F^2 exact (independent keys of two spreads); else measured",
        "local attention with a scale of its own",
        (Parameter("W", "W, the local keys", _whole(0), "width"), _length()),
        of_row=True,
    ),
    "score-layernorm": Transform(
        "scores",
        "(x - mean x) / sd x over the row",
        "mean 0 and variance 1 exactly, a sphere of n - 1 dimensions; a temperature of its own for "
        "each row, so that scale and d drop out; rows measured",
        "LayerNorm on attention scores",
        (_length(2),),
        of_row=True,
    ),
    "softcap": Transform(
        "cap",
        "C tanh(x / C)",
        "exact for normal elements: the cap of an iid normal row is an iid row",
        "gemma2 (C = 50)",
        (_CAP,),
    ),
    "clip": Transform(
        "cap",
        "min(max(x, -C), C)",
        "logit moments exact for normal elements; rows measured",
        "clipped scores",
        (_CAP,),
    ),
    "alibi": Transform(
        "bias",
        "x_j - SLOPE j",
        "sum p^2, entropy, tr J, |J|_F^2 exact (independent keys of unlike means); else measured",
        "Press et al. 2022 (2108.12409), slopes 2^(-8 h / heads)",
        (
            Parameter("SLOPE", "SLOPE (0.5 if not given)", _real(0, 100), "slope", 0.5),
            _length(),
        ),
        of_row=True,
    ),
    "row-constant": Transform(
        "constant",
        "x + C for every key of the row",
        "rows unchanged: exp(x - 1) over its sum is plain softmax",
        "shift invariance of softmax",
        (Parameter("C", "C, the constant", _real(-1e4, 1e4), "constant"),),
    ),
    "causal": Transform(
        "mask",
        "only the first t keys, t uniform on 1 ... n",
        "the mean over rows of 1 ... n keys, exactly",
        "decoder self-attention",
    ),
    "top-k-position": Transform(
        "mask",
        "only the K nearest keys",
        "a row of K keys; the logits' variance is unchanged",
        "sliding window attention: Beltagy et al. 2020 (2004.05150)",
        (_KEPT,),
    ),
    "top-k": Transform(
        "selection",
        "only the K largest logits of the row",
        "kept logits: E x^r = E|q|^r (n/K) int z^r phi(z) P(Bin(n-1, Q(z)) < K) dz; rows measured",
        "Gupta et al. 2021 (2106.06899)",
        (_KEPT, _length()),
        of_row=True,
    ),
    "softmax1": Transform(
        "softmax",
        "exp(x_j) / (1 + sum exp(x)): one more key, whose logit is 0 and value nothing",
        "sum p^2, entropy, tr J, |J|_F^2 of the n + 1 probabilities exact; else measured",
        "Miller 2023, Attention is off by one; Megatron softmax off-by-one",
    ),
    "linear-attention": Transform(
        "softmax",
        "sum_j (q.k_j) v_j, one element of the output, v standard normal; no softmax",
        "variance N d, so that 1/sqrt(d) leaves N: chi_d chi_N times a normal, exactly",
        "Katharopoulos et al. 2020 (2006.16236), identity features",
        (_length(),),
        of_row=True,
    ),
}  # fmt: skip
