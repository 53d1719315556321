"""Layouts, scales and norms against transformers: its models' own attention weights come back.

A tiny model of each kind is drawn, saved and read by us. The first attention's input is recorded,
and from the matrices we read, the scale we take from config.json and the norm we fold in come the
logits; the model's own weights are their softmax. Positions do no harm: a rotation is that of
position 0 for all tokens, and what is added to the logits is seen with q and k at zero.
"""

import numpy as np
import pytest
from verify_variance.reports.audit.checkpoints import open_checkpoint
from verify_variance.stats.checkpoints.architecture import Declared
from verify_variance.stats.checkpoints.projections import (
    all_projections,
    attentions,
    norm_before,
)
from verify_variance.stats.checkpoints.qk_norms import qk_norm

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

transformers.utils.logging.disable_progress_bar()

LENGTH = 7
COMMON = {"vocab_size": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WIDE = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1}
GATED = {**WIDE, "intermediate_size": 16}
UNCAPPED = {"attn_logit_softcapping": None}
SPREAD = {"initializer_range": 0.3}
NEO = {"attention_types": [[["global"], 1]], "num_layers": 1, "num_heads": 4, "hidden_size": 32}
GPT = {"n_embd": 32, "n_head": 4, "n_layer": 1, **SPREAD}
WHISPER = {
    **{"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4},
    **{"decoder_attention_heads": 2, "num_mel_bins": 4, "max_source_positions": 16},
    **{"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "init_std": 0.3},
}

# class, configuration, does it rotate
MODELS = {
    "llama": ("Llama", {**GATED, "num_key_value_heads": 2, **SPREAD}),
    "llama, wide heads": ("Llama", {**GATED, "head_dim": 12, "num_key_value_heads": 1, **SPREAD}),
    "llama, yarn": (
        "Llama",
        {
            **GATED,
            **SPREAD,
            "rope_parameters": {
                **{"rope_type": "yarn", "factor": 8.0, "rope_theta": 1e4},
                "original_max_position_embeddings": 64,
            },
        },
    ),
    "mistral": ("Mistral", {**GATED, "num_key_value_heads": 2, **SPREAD}),
    "qwen2": ("Qwen2", {**GATED, "num_key_value_heads": 2, **SPREAD}),
    "qwen3": ("Qwen3", {**GATED, "num_key_value_heads": 2, "head_dim": 8, **SPREAD}),
    "gemma": ("Gemma", {**GATED, "num_key_value_heads": 1, "head_dim": 16, **SPREAD}),
    "gemma2": (
        "Gemma2",
        {
            **GATED,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "query_pre_attn_scalar": 9,
            **UNCAPPED,
            **SPREAD,
        },
    ),
    "granite": ("Granite", {**GATED, "num_key_value_heads": 2, "attention_multiplier": 0.2}),
    "phi": ("Phi", {**GATED, **SPREAD}),
    "phi3": ("Phi3", {**GATED, "num_key_value_heads": 2, **SPREAD}),
    "olmo2": ("Olmo2", {**GATED, "num_key_value_heads": 2, **SPREAD}),
    "stablelm": ("StableLm", {**GATED, "num_key_value_heads": 2, **SPREAD}),
    "starcoder2": ("Starcoder2", {**GATED, "num_key_value_heads": 2, **SPREAD}),
    "gptj": ("GPTJ", {**GPT, "rotary_dim": 4}),
    "gpt_neox": ("GPTNeoX", {**GATED, **SPREAD}),
    "gpt_neo": ("GPTNeo", {**NEO, **SPREAD}),
    "gpt2": ("GPT2", GPT),
    "gpt2, not scaled": ("GPT2", {**GPT, "scale_attn_weights": False}),
    "gpt2, by layer": ("GPT2", {**GPT, "scale_attn_by_inverse_layer_idx": True}),
    "gpt_bigcode": ("GPTBigCode", GPT),
    "gpt_bigcode, every head": ("GPTBigCode", {**GPT, "multi_query": False}),
    "opt": ("OPT", {**WIDE, "ffn_dim": 16, "word_embed_proj_dim": 32, "init_std": 0.3}),
    "bloom": ("Bloom", {"hidden_size": 32, "n_head": 4, "n_layer": 1, **SPREAD}),
    "falcon, one key": ("Falcon", {**WIDE, "alibi": False, **SPREAD}),
    "falcon, a key each": ("Falcon", {**WIDE, "multi_query": False, "bias": True, **SPREAD}),
    "falcon, groups": (
        "Falcon",
        {**WIDE, "new_decoder_architecture": True, "num_kv_heads": 2, **SPREAD},
    ),
    "mpt": ("Mpt", {"d_model": 32, "n_heads": 4, "n_layers": 1, **SPREAD}),
    "persimmon": ("Persimmon", {**GATED, **SPREAD}),
    "bert": ("Bert", {**GATED, **SPREAD}),
    "roberta": ("Roberta", {**GATED, **SPREAD}),
    "esm": ("Esm", {**GATED, "position_embedding_type": "absolute", **SPREAD}),
    "deberta_v2": ("DebertaV2", {**GATED, **SPREAD}),
    "electra": ("Electra", {**GATED, "embedding_size": 32, **SPREAD}),
    "distilbert": ("DistilBert", {"dim": 32, "n_heads": 4, "n_layers": 1, "hidden_dim": 16}),
    "modernbert": ("ModernBert", {**GATED, "classifier_pooling": "mean"}),
    "t5": ("T5Encoder", {"d_model": 32, "d_kv": 6, "num_heads": 4, "num_layers": 1, "d_ff": 16}),
    "whisper": ("Whisper", WHISPER),
    "bart": ("Bart", {k: v for k, v in WHISPER.items() if "mel" not in k and "source" not in k}),
    "vit": ("ViT", {**GATED, "image_size": 8, "patch_size": 4, **SPREAD}),
    "clip": ("CLIPTextModel", {**GATED, "projection_dim": 8}),
    "siglip": ("SiglipVisionModel", {**GATED, "image_size": 8, "patch_size": 4}),
}


def drawn(name):
    """A model of this kind with every parameter drawn, norms and biases too."""
    kind, options = MODELS[name]
    torch.manual_seed(len(name))
    base = kind.removesuffix("Encoder").removesuffix("Model")
    base = base.replace("Text", "").replace("Vision", "")
    if kind.endswith("TextModel"):
        base += "Text"
    if kind.endswith("VisionModel"):
        base += "Vision"
    config = getattr(transformers, f"{base}Config")(
        **({} if "image_size" in options else COMMON), **options
    )
    model = getattr(transformers, kind if kind.endswith("Model") else f"{kind}Model")
    model = model._from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        for named, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.normal_(1.0 if "weight" in named else 0.0, 0.3)
            elif "weight" in named and parameter.std() < 0.25 and parameter.ndim == 2:
                parameter.mul_(0.25 / parameter.std().clamp(min=1e-3))
    return model


def inputs_of(model):
    tokens = torch.arange(3, 3 + LENGTH)[None]
    config = model.config
    if hasattr(config, "image_size"):
        return {"pixel_values": torch.randn(1, 3, config.image_size, config.image_size)}
    if hasattr(config, "num_mel_bins"):
        return {"input_features": torch.randn(1, 4, 32), "decoder_input_ids": tokens}
    if hasattr(config, "rope_parameters") or config.model_type == "gptj":
        return {"input_ids": tokens, "position_ids": torch.zeros_like(tokens)}
    return {"input_ids": tokens}


def attention_weights(model, inputs):
    """The weights of its first attention, (heads, queries, keys)."""
    with torch.no_grad():
        seen = model(**inputs, output_attentions=True)
    found = seen.get("attentions") or seen.get("encoder_attentions")
    return found[0][0].double().numpy()


def module_of(model, checkpoint, name):
    """The module that has the tensor of this name in the file, where it may be named otherwise."""
    weight = torch.tensor(checkpoint.part(name))
    return next(
        module
        for module in model.modules()
        if isinstance(found := getattr(module, "weight", None), torch.Tensor)
        and torch.equal(found.double(), weight)
    )


def recorded(model, inputs, modules):
    """What modules are given, and the attention weights, of one forward pass."""
    given = [[] for _ in modules]

    def keep(into):
        return lambda module, arguments: into.append(arguments[0].double().numpy())

    hooks = [m.register_forward_pre_hook(keep(g)) for m, g in zip(modules, given, strict=True)]
    weights = attention_weights(model, inputs)
    for hook in hooks:
        hook.remove()
    return [first[0].reshape(-1, first[0].shape[-1]) for first in given], weights


def silenced(modules):
    """Put these projections at zero, so that what is added to the logits is left."""
    with torch.no_grad():
        for module in modules:
            module.weight.zero_()
            if module.bias is not None:
                module.bias.zero_()


def normalised(x, centred):
    x = x - x.mean(-1, keepdims=True) if centred else x
    return x / np.sqrt((x**2).mean(-1, keepdims=True))


def logits_of(checkpoint, attention, x, folded):
    """The logits of tokens x, from the matrices and the scale that we read."""
    shared = attention.heads.n_heads // attention.heads.n_kv_heads
    before, norm = norm_before(checkpoint, attention), qk_norm(checkpoint, attention)
    vectors = [
        [
            x @ side.matrix.T + (0.0 if side.bias is None else side.bias)
            for side in (map(before.applied, pair) if folded else pair)
        ]
        for pair in all_projections(checkpoint, attention)
    ]
    q, k = (np.stack([pair[i] for pair in vectors]) for i in range(2))
    if norm is not None:
        if norm.sizes is None:
            q, k = normalised(q, norm.centred), normalised(k, norm.centred)
        else:  # one norm over all heads: each key counts once
            q, k = (
                v / np.sqrt((v[::n] ** 2).mean((0, 2)))[:, None] for v, n in ((q, 1), (k, shared))
            )
        repeated = np.repeat(norm.gains[1], shared, 0), np.repeat(norm.shifts[1], shared, 0)
        q = q * norm.gains[0][:, None] + norm.shifts[0][:, None]
        k = k * repeated[0][:, None] + repeated[1][:, None]
    return attention.factor * q @ k.swapaxes(1, 2)


def agrees(logits, weights, added):
    """Whether softmax(logits + what is added) gives the weights, where they are seen."""
    seen = (weights > 1e-30) & (added > 1e-30)
    expected = np.where(seen, logits, 0.0)
    got = np.where(seen, np.log(np.where(seen, weights / added, 1.0)), 0.0)
    count = seen.sum(-1, keepdims=True)
    for array in (expected, got):
        array -= np.where(seen, array.sum(-1, keepdims=True) / count, array)
    assert seen.sum() >= 20
    assert expected.std() > 0.05
    return np.abs(expected - got).max() <= 2e-4 * (1 + np.abs(expected).max())


def read(name, tmp_path):
    model = drawn(name)
    model.save_pretrained(tmp_path)
    checkpoint = open_checkpoint(str(tmp_path))
    found = attentions(checkpoint, Declared())
    attention = next((one for one in found if "decoder" not in one.site.path), found[0])
    return model, checkpoint, attention


@pytest.mark.parametrize("name", MODELS)
def test_the_weights_of_a_model_follow_from_what_is_read(name, tmp_path):
    model, checkpoint, attention = read(name, tmp_path)
    assert attention.known
    site, inputs = attention.site, inputs_of(model)
    norm = norm_before(checkpoint, attention)
    names = dict.fromkeys([site.query, site.key])
    projections = [module_of(model, checkpoint, named) for named in names]
    norms = [module_of(model, checkpoint, f"{norm.name}.weight")] if norm else []
    (x, *before), weights = recorded(model, inputs, [projections[0], *norms])
    silenced(projections)
    added = attention_weights(model, inputs)
    logits = logits_of(checkpoint, attention, x, folded=False)
    assert agrees(logits, weights, added)
    assert not agrees(1.01 * logits, weights, added)
    assert not agrees(logits[::-1], weights, added)
    if norm:
        white = normalised(before[0], norm.centred)
        if norm.centred:  # white noise has its D dimensions, what LayerNorm gives D - 1
            white *= np.sqrt(1 - 1 / attention.inputs)
        assert agrees(logits_of(checkpoint, attention, white, folded=True), weights, added)
