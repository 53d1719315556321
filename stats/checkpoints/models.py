"""How each type of model scales its logits and what its projections read, as plain data.

Read in transformers 5.24, `modeling_*.py` of the type's name. What can go wrong: a model type that
is not listed may scale in a way of its own, so that its 1/sqrt(d_k) is an assumption, which the
audit states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Norm:
    """The norm whose output the projections read, by the places where its weights may stand.

    `names` follow the path of the layer; with `previous` they follow the layer before, and `first`
    is the norm before layer 0. A centred norm (LayerNorm) takes the mean off; `offset` is added to
    the gain (1 in gemma).
    """

    names: tuple[str, ...]
    centred: bool = True
    offset: float = 0.0
    previous: bool = False
    first: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """A model type: its scale from config and layer, as `--scale` writes it, and the norm before.

    `folded`: W_q is initialised smaller by 1/sqrt(d_k), in place of a scale.
    """

    scale: Callable[[Config, int], str] = lambda config, layer: "sqrt-dk"
    norm: Norm | None = None
    folded: bool = False


def _gpt2(config: Config, layer: int) -> str:
    """Both switches of modeling_gpt2.py, `_scale_attn_weights` and by_inverse_layer_idx."""
    inverse = bool(config.get("scale_attn_by_inverse_layer_idx"))
    if config.get("scale_attn_weights", True):
        return f"inverse-layer:{layer}" if inverse else "sqrt-dk"
    return f"multiplier:{1 / (layer + 1)!r}" if inverse else "none"


def _number(config: Config, name: str, scale: str, default: str) -> str:
    value = config.get(name)
    return default if value is None else f"{scale}:{value}"


def _none(config: Config, layer: int) -> str:
    return "none"


def _mpt(config: Config, layer: int) -> str:
    inner = config.get("attn_config")
    table = inner if isinstance(inner, Mapping) else {}
    return _number(table, "softmax_scale", "multiplier", "sqrt-dk")


def _bigcode(config: Config, layer: int) -> str:
    return "sqrt-dk" if config.get("scale_attn_weights", True) else "none"


def _pre_attn_scalar(config: Config, layer: int) -> str:
    default = "query-pre-attn-scalar:256"  # that of the three configuration classes
    return _number(config, "query_pre_attn_scalar", "query-pre-attn-scalar", default)


def _multiplier(config: Config, layer: int) -> str:
    return _number(config, "attention_multiplier", "multiplier", "multiplier:1.0")


def _deberta(config: Config, layer: int) -> str:
    terms = config.get("pos_att_type")  # a list, or one text: c2p|p2c
    terms = terms.split("|") if isinstance(terms, str) else terms
    return f"deberta:{1 + len(terms) if isinstance(terms, list) else 1}"


_RMS = Norm(("input_layernorm",), centred=False)
_LAYER = Norm(("input_layernorm",))
_GEMMA = Norm(("input_layernorm",), centred=False, offset=1.0)
_LN_1 = Norm(("ln_1",))
_SELF = Norm(("self_attn_layer_norm",))
_CLIP = Norm(("layer_norm1",))
_T5 = Norm(("layer.0.layer_norm",), centred=False)
_BERT = Norm(("output.LayerNorm",), previous=True, first="embeddings.LayerNorm")
_DISTILBERT = Norm(("output_layer_norm",), previous=True, first="embeddings.LayerNorm")


def _plain(*names: str, norm: Norm | None = None) -> dict[str, Model]:
    return {name: Model(norm=norm) for name in names}


MODELS: dict[str, Model] = {
    **_plain(
        *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "phi3"),
        *("smollm3", "olmoe", "ministral", "internlm2", "yi", "arcee", "seed_oss", "gpt_oss"),
        norm=_RMS,
    ),
    **_plain("phi", "gpt_neox", "bloom", "stablelm", "starcoder2", "persimmon", norm=_LAYER),
    **_plain("olmo2", "olmo3", "bart", "marian", "swin", "esm", "dbrx", "modernbert"),
    **_plain("falcon", norm=Norm(("ln_attn", "input_layernorm"))),
    **_plain("gptj", norm=_LN_1),
    **_plain("whisper", norm=_SELF),
    **_plain("clip", "clip_text_model", "clip_vision_model", norm=_CLIP),
    **_plain("siglip", "siglip_text_model", "siglip_vision_model", norm=_CLIP),
    **_plain("vit", "deit", norm=Norm(("layernorm_before",))),
    **_plain("bert", "roberta", "xlm-roberta", "camembert", "electra", norm=_BERT),
    **_plain("distilbert", norm=_DISTILBERT),
    "opt": Model(norm=_SELF),
    "gpt2": Model(_gpt2, _LN_1),
    "gpt_bigcode": Model(_bigcode, _LN_1),
    "gpt_neo": Model(_none, _LN_1),
    "mpt": Model(_mpt, Norm(("norm_1",))),
    "deberta-v2": Model(_deberta, _BERT),
    **{
        name: Model(_none, _T5, folded=True)
        for name in ("t5", "mt5", "umt5", "longt5", "switch_transformers")
    },
    "gemma": Model(norm=_GEMMA),
    **{
        name: Model(_pre_attn_scalar, _GEMMA)
        for name in ("gemma2", "gemma3", "gemma3_text", "t5gemma")
    },
    **{name: Model(_multiplier, _RMS) for name in ("granite", "granitemoe", "hyperclovax")},
    **{name: Model(lambda config, layer: "sqrt-half-dk") for name in ("zamba", "zamba2")},
}
