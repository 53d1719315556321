"""Names and arrangements: rows counted by hand, as each model's own code splits them."""

import numpy as np
import pytest
from verify_variance.stats.checkpoints.architecture import Declared, Heads, heads_of, scale_of
from verify_variance.stats.checkpoints.layouts import LAYOUTS, Layout, find_sites, head_starts
from verify_variance.stats.checks import InputError

GROUPED, STACKED = (Layout("", "", arrangement=a) for a in ("grouped", "stacked"))


def test_fused_rows_are_those_of_a_reshape():
    n, d = 6, 3
    rows = np.arange(3 * n * d)
    interleaved = rows.reshape(n, 3, d)  # modeling_bloom.py, modeling_gpt_neox.py
    assert head_starts(GROUPED, n, n, d) == (
        interleaved[:, 0, 0].tolist(),
        interleaved[:, 1, 0].tolist(),
    )
    q, k, _ = rows.reshape(3, n, d)  # modeling_gpt2.py, modeling_mpt.py
    assert head_starts(STACKED, n, n, d) == (q[:, 0].tolist(), k[:, 0].tolist())
    groups = np.arange((n + 2 * 2) * d).reshape(2, n // 2 + 2, d)  # modeling_falcon.py
    queries, keys = head_starts(GROUPED, n, 2, d)
    assert queries == groups[:, :-2, 0].ravel().tolist()
    assert keys == np.repeat(groups[:, -2, 0], 3).tolist()
    one = np.arange((n + 2) * d).reshape(n + 2, d)  # falcon with one key for all heads
    assert head_starts(GROUPED, n, 1, d) == (one[:-2, 0].tolist(), [one[-2, 0]] * n)
    separate = Layout("", "", "k")
    assert head_starts(separate, 4, 2, d) == ([0, 3, 6, 9], [0, 0, 3, 3])


NAMES = {
    "model.layers.0.self_attn.q_proj.weight": "llama",
    "transformer.h.0.attn.attention.q_proj.weight": "llama",
    "bert.encoder.layer.0.attention.self.query.weight": "bert",
    "vit.encoder.layer.0.attention.attention.query.weight": "bert",
    "distilbert.transformer.layer.0.attention.q_lin.weight": "distilbert",
    "encoder.block.0.layer.0.SelfAttention.q.weight": "t5",
    "h.0.attn.c_attn.weight": "gpt2",
    "model.layers.0.self_attn.qkv_proj.weight": "phi3",
    "transformer.blocks.0.attn.Wqkv.weight": "mpt",
    "blocks.0.attn.qkv.weight": "timm",
    "layers.0.self_attn.in_proj_weight": "torch",
    "in_proj_weight": "torch",
    "gpt_neox.layers.0.attention.query_key_value.weight": "gpt_neox",
    "layers.0.attention.wq.weight": "llama as Meta",
}


def beside(name):
    for query, key in (("q_proj", "k_proj"), ("query.", "key."), ("q_lin", "k_lin"), ("wq", "wk")):
        name = name.replace(query, key)
    return name.replace("Attention.q.", "Attention.k.")


@pytest.mark.parametrize("name", NAMES)
def test_each_layout_is_known_by_its_name(name):
    (site,) = find_sites({name: (24, 8), beside(name): (24, 8), "other.weight": (8, 8)})
    assert site.layout.models.startswith(NAMES[name])
    assert site.query == name


def test_a_shared_name_is_told_apart_by_the_model_type():
    shapes = {"h.0.attn.c_attn.weight": (24, 8)}
    found = {kind: find_sites(shapes, kind)[0].layout for kind in ("gpt2", "gpt_bigcode", "qwen")}
    assert found["gpt2"].inputs_first
    assert (found["gpt_bigcode"].arrangement, found["qwen"].arrangement) == ("grouped", "stacked")
    assert not found["qwen"].inputs_first


def test_layers_come_in_their_order_and_biases_are_named_like_their_matrix():
    shapes = {f"h.{i}.{x}_proj.weight": (8, 8) for i in (10, 9, 0) for x in "qk"}
    assert [site.layer for site in find_sites(shapes)] == [0, 9, 10]
    assert [layout.bias for layout in LAYOUTS if layout.tensor != ".weight"] == ["in_proj_bias"]


@pytest.mark.parametrize(
    ("names", "model_type", "said"),
    [
        (["conv.weight", "fc\n.weight"], "", "got 'conv.weight', 'fc\\\\n.weight'; known: llama"),
        ([f"block{i}.w" for i in range(50)], "", "and 42 more"),
        ([], "", "got no tensors"),
        (["l.0.self_attn.kv_a_proj_with_mqa.weight"], "", "multi-head latent attention"),
        (["l.0.q_proj.weight", "l.0.q_proj.qweight"], "", "quantised"),
        (["l.0.q_proj.weight", "l.0.q_proj.weight_scale_inv"], "", "quantised"),
        (["h.0.attn.qkv_proj.weight"], "codegen", "4 devices"),
    ],
)
def test_what_is_not_known_says_what_was_seen(names, model_type, said):
    with pytest.raises(InputError, match=said) as raised:
        find_sites(dict.fromkeys(names, (8, 8)), model_type)
    assert str(raised.value).isprintable()


def split(query, key=None, config=None, **given):
    shapes = {"h.0.q_proj.weight": query, "h.0.k_proj.weight": key}
    if key is None:
        shapes = {"h.0.qkv.weight": query}
    (site,) = find_sites(shapes)
    return heads_of(site, shapes, config or {}, Declared(**given))


def test_heads_come_from_config_or_options_and_agree_with_the_shapes():
    assert split((64, 32), (16, 32), {"num_attention_heads": 8}) == Heads(8, 2, 8)
    assert split((64, 32), (16, 32), {"n_head": 8, "head_dim": 8}) == Heads(8, 2, 8)
    assert split((64, 32), (16, 32), n_heads=4) == Heads(4, 1, 16)
    assert split((64, 32), (16, 32), d_k=16) == Heads(4, 1, 16)
    assert split((96, 32), config={"n_head": 4}) == Heads(4, 4, 8)
    assert split((48, 32), config={"n_head": 4}) == Heads(4, 1, 8)  # one key for all
    layer = {"n_head": 4, "head_dim": 8, "global_head_dim": 16}
    assert split((64, 32), (32, 32), layer) == Heads(4, 2, 16)


@pytest.mark.parametrize(
    ("query", "key", "config", "said"),
    [
        ((64, 32), (64, 32), {}, "give --n-heads"),
        ((64, 32), (64, 32), {"n_head": 7}, "does not split into 7 heads"),
        ((64, 32), (24, 32), {"n_head": 4}, "does not split"),
        ((64, 32), (64, 32), {"n_head": 4, "head_dim": 8}, "does not split into 4 heads of 8"),
        ((60, 32), None, {"n_head": 4}, "does not split"),
        ((0, 32), (0, 32), {"n_head": 4}, "no query and key projections"),
        ((64, 32), (64, 32), {"n_head": "many"}, "n_head must be a positive integer"),
        ((64, 32), (64, 32), {"n_head": -4}, "n_head must be a positive integer"),
        ((64, 32), (64, 32), {"n_head": 10**30}, "at most"),
    ],
)
def test_a_split_that_does_not_fit_is_refused(query, key, config, said):
    with pytest.raises(InputError, match=said):
        split(query, key, config)


@pytest.mark.parametrize(
    ("config", "layer", "factor"),
    [
        ({"model_type": "llama"}, 0, 1 / 8),
        ({"model_type": "gpt_neo"}, 0, 1.0),
        ({"model_type": "t5"}, 0, 1.0),
        ({"model_type": "gpt2"}, 3, 1 / 8),
        ({"model_type": "gpt2", "scale_attn_weights": False}, 3, 1.0),
        ({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": True}, 3, 1 / 32),
        ({"model_type": "gemma2", "query_pre_attn_scalar": 144}, 0, 1 / 12),
        ({"model_type": "gemma3"}, 0, 1 / 16),
        ({"model_type": "granite", "attention_multiplier": 0.015625}, 0, 1 / 64),
        ({"model_type": "granite"}, 0, 1.0),
        ({"model_type": "mpt", "attn_config": {"softmax_scale": 0.5}}, 0, 0.5),
        ({"model_type": "mpt"}, 0, 1 / 8),
        ({"model_type": "zamba2"}, 0, (2 / 64) ** 0.5),
        ({"model_type": "deberta-v2", "pos_att_type": ["p2c", "c2p"]}, 0, (3 * 64) ** -0.5),
    ],
)
def test_scales_are_those_of_the_models(config, layer, factor):
    assert scale_of(config, layer, 64, Declared())[1:] == (pytest.approx(factor, rel=1e-12), True)


def test_stretched_contexts_put_their_factor_on_the_logits():
    """0.1 ln 40 + 1 = 1.36889, squared 1.87385 (DeepSeek-V3's YaRN, transformers PR 47435)."""
    yarn = {"rope_type": "yarn", "factor": 40.0}
    assert scale_of({"rope_scaling": yarn}, 0, 64, Declared())[1] * 8 == pytest.approx(
        1.87385, 1e-5
    )
    both = {**yarn, "mscale": 0.707, "mscale_all_dim": 0.707}
    assert scale_of({"rope_scaling": both}, 0, 64, Declared())[1] * 8 == 1.0
    given = {**yarn, "attention_factor": 2.0}
    assert scale_of({"rope_parameters": given}, 0, 64, Declared())[1] * 8 == 4.0
    phi3 = {"type": "longrope", "original_max_position_embeddings": 4096}
    config = {"rope_scaling": phi3, "max_position_embeddings": 131072}
    scaled = scale_of(config, 0, 64, Declared())[1] * 8
    assert scaled == pytest.approx(1 + np.log(32) / np.log(4096), rel=1e-12)
    assert scale_of({"rope_scaling": {"rope_type": "linear"}}, 0, 64, Declared())[1] * 8 == 1.0


def test_a_model_that_is_not_known_is_said_to_be_assumed():
    assert scale_of({"model_type": "new"}, 0, 64, Declared()) == ("sqrt-dk", 0.125, False)
    assert scale_of({}, 0, 64, Declared(scale="none")) == ("none", 1.0, True)
