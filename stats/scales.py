"""Scale conventions: what multiplies q.k before the softmax, as plain data with sources.

File names are those of transformers 5 (`modeling_*.py`) unless another project is named.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .cases import Case
from .checks import InputError, count, magnitude, number

Check = Callable[[str, object], float]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number written after a scale's name: its symbol, what it is, and what it may be.

    Without a `default` it must be given; `check(name, text)` makes it a number or complains.
    """

    symbol: str
    meaning: str
    check: Check = magnitude
    word: str = "parameter"
    default: float | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """One convention: its factor as a function of the case and its parameters.

    `place` says what is multiplied: the product q.k, the query before it, or both vectors by the
    factor's root. The factor is the same; in half precision the place decides what overflows.
    """

    formula: str
    source: str
    factor: Callable[..., float]
    parameters: tuple[Parameter, ...] = ()
    needs: tuple[str, ...] = ("d_k",)
    place: Literal["product", "query", "both"] = "product"


def _root(case: Case, times: float = 1.0) -> float:
    """`1 / sqrt(times d_k)`."""
    assert case.d_k is not None  # scale_factor has checked the needs
    return 1.0 / math.sqrt(times * case.d_k)


def mscale(factor: float, m: float = 1.0) -> float:
    """YaRN's `0.1 m ln(factor) + 1` of q and of k, and 1 where the context is not stretched.

    Logits get its square (Peng et al. 2023, arXiv:2309.00071).

    Examples:
        >>> round(mscale(40) ** 2, 5), round(mscale(40, 0.707) ** 2, 5)
        (1.87385, 1.58963)

    """
    return 0.1 * m * math.log(factor) + 1.0 if factor > 1 else 1.0


def _log_length(case: Case, n: float) -> float:
    """Logarithm of the length that is given, or of the row's number of keys."""
    length = case.n_keys if math.isnan(n) else n
    if length is None:
        raise InputError(
            f"scale {case.scale} needs n_keys, which logit moments have not; "
            "write the length after the other parameter, as in log-n:1:1024, or give --n-keys"
        )
    if length < 2:
        raise InputError(f"scale {case.scale} needs a length of at least 2, got {length:g}")
    return math.log(length)


def _whole(least: int) -> Check:
    return lambda name, value: count(name, value, least=least, most=10**9)


def _between(low: float, high: float) -> Check:
    rule = f"from {low:g} to {high:g}"
    return lambda name, value: number(name, value, rule, lambda x: low <= x <= high)


_FACTOR = Parameter("FACTOR", "FACTOR by which the context is stretched", word="factor")
_LENGTH = Parameter("N", "N, the length (n_keys if not given)", _whole(2), "length", math.nan)

SCALES: dict[str, Scale] = {
    "none": Scale(
        "1", "Luong attention; T5 folds the scale into W_q; gpt_neo", lambda case: 1.0, needs=()
    ),
    "sqrt-dk": Scale("1 / sqrt(d_k)", "Vaswani et al. 2017, section 3.2.1", _root),
    "dk": Scale(
        "1 / d_k",
        "muP: Yang et al. 2022, Tensor Programs V; inkling",
        lambda case: 1.0 / case.d_k,
    ),
    "constant": Scale(
        "1 / C",
        "a fixed temperature",
        lambda case, c: 1.0 / c,
        (Parameter("C", "C > 0, the divisor"),),
        (),
    ),
    "multiplier": Scale(
        "C",
        "attention_multiplier of granite",
        lambda case, c: c,
        (Parameter("C", "C > 0, the factor"),),
        (),
    ),
    "power": Scale(
        "d_k^-P",
        "interpolates none (0), sqrt-dk (0.5) and dk (1)",
        lambda case, p: float(case.d_k) ** -p,
        (Parameter("P", "P, the exponent", _between(-4, 4), "exponent"),),
    ),
    "query-only": Scale(
        "1 / sqrt(d_k), on q before the product",
        "opt, whisper, esm; flax.linen.dot_product_attention",
        _root,
        place="query",
    ),
    "fourth-root": Scale(
        "d_k^(-1/4) on q and d_k^(-1/4) on k",
        "openai/improved-diffusion unet.py (issue 54); openai_privacy_filter",
        _root,
        place="both",
    ),
    "sqrt-half-dk": Scale("sqrt(2 / d_k)", "zamba, zamba2", lambda case: _root(case, 0.5)),
    "sqrt-dmodel": Scale(
        "1 / sqrt(d_model)",
        "a mistake: karpathy/ng-video-lecture PR 6, lucidrains/vit-pytorch issue 65",
        lambda case: 1.0 / math.sqrt(case.d_model),
        needs=("d_model",),
    ),
    "sqrt-dv": Scale(
        "1 / sqrt(d_v)",
        "the dimension of the values; d_v = d_k in most models (openai/gpt-2 issue 49)",
        lambda case: 1.0 / math.sqrt(case.d_v),
        needs=("d_v",),
    ),
    "inverse-layer": Scale(
        "1 / (sqrt(d_k) (L + 1))",
        "scale_attn_by_inverse_layer_idx of gpt2; Megatron apply_query_key_layer_scaling",
        lambda case, layer: _root(case) / (layer + 1),
        (Parameter("L", "L, the layer counted from 0", _whole(0), "layer"),),
    ),
    "query-pre-attn-scalar": Scale(
        "V^(-1/2)",
        "gemma2 (9B 256, 27B 144 at d_k = 128), gemma3",
        lambda case, v: v**-0.5,
        (Parameter("V", "V > 0, in place of d_k"),),
        (),
    ),
    "deberta": Scale(
        "1 / sqrt(K d_k)",
        "deberta_v2, K = 1 + its relative-position terms",
        _root,
        (Parameter("K", "K, from 1 to 3", _between(1, 3)),),
    ),
    "yarn": Scale(
        "(0.1 ln(FACTOR) + 1)^2 / sqrt(d_k)",
        "Peng et al. 2023 (2309.00071), on cos and sin of q and k; modeling_rope_utils.py",
        lambda case, factor: mscale(factor) ** 2 * _root(case),
        (_FACTOR,),
    ),
    "mscale": Scale(
        "(0.1 M ln(FACTOR) + 1)^2 / sqrt(d_k)",
        "multi-head latent attention: deepseek_v3 (M = 1, factor 40), DeepSeek-V2 (M = 0.707)",
        lambda case, factor, m: mscale(factor, m) ** 2 * _root(case),
        (
            _FACTOR,
            Parameter(
                "M", "M, mscale_all_dim (1 if not given)", word="mscale_all_dim", default=1.0
            ),
        ),
    ),
    "longrope": Scale(
        "(1 + ln(FACTOR) / ln(L)) / sqrt(d_k)",
        "LongRoPE, on cos and sin of q and k; modeling_rope_utils.py",
        lambda case, factor, length: (
            (1 + math.log(max(factor, 1)) / math.log(length)) * _root(case)
        ),
        (_FACTOR, Parameter("L", "L, the trained length", _whole(2), "length")),
    ),
    "log-n": Scale(
        "S ln(n) / sqrt(d_k)",
        "scalable softmax: Nakanishi 2025 (2501.19399), S learned",
        lambda case, s, n: s * _log_length(case, n) * _root(case),
        (Parameter("S", "S > 0 (1 if not given)", default=1.0), _LENGTH),
    ),
    "log-n-position": Scale(
        "max(1, ln(n) / ln(L)) / sqrt(d_k)",
        "use_logn_attn of QwenLM/Qwen, n the position of the query, L the trained length",
        lambda case, length, n: max(1.0, _log_length(case, n) / math.log(length)) * _root(case),
        (Parameter("L", "L, the trained length", _whole(2), "length"), _LENGTH),
    ),
    "cosine": Scale(
        "S / d_k",
        "S cos(q, k) where |q| = |k| = sqrt(d_k) (elements sphere); x-transformers, S = 10",
        lambda case, s: s / case.d_k,
        (Parameter("S", "S > 0 (10 if not given)", default=10.0),),
    ),
    "logit-scale": Scale(
        "min(exp(T), 100) / d_k",
        "learnable, on cos(q, k) as cosine; swinv2, where T starts at ln 10",
        lambda case, t: min(math.exp(t), 100.0) / case.d_k,
        (
            Parameter(
                "T",
                "T, the learned logarithm (ln 10 if not given)",
                _between(-20, 20),
                default=math.log(10),
            ),
        ),
    ),
}
