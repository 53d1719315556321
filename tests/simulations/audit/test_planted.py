"""The audit names planted mistakes, and leaves alone what was reported as one and is none.

Each is rebuilt as a small function from a real report (repository and number beside it). Nothing
is drawn but the inputs, and those from a fixed seed: only rounding errs.
"""

import math

import numpy as np
import pytest
from verify_variance.simulations.audit.function import audit_function
from verify_variance.stats.audit.options import audit_options

QUICK = {"dk": [40, 64, 72, 80, 96], "dtype": ["float32"]}


def turned(x):
    return x.swapaxes(-1, -2)


def softmax(x, axis=-1):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def attends(logits):
    """Attention over the last two axes from a function of q and k."""
    return lambda q, k, v: softmax(logits(q, k)) @ v


def times(factor):
    """Plain attention whose factor is a function of d_k."""
    return attends(lambda q, k: q @ turned(k) * np.float32(factor(q.shape[-1])))


def unit(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True))


def root(q):
    return np.float32(q.shape[-1] ** -0.5)


def pad(d, step):
    return -(-d // step) * step


def audited(attention, **options):
    return audit_function(attention, "planted", audit_options(QUICK | options))


def causes(audit):
    return {f.cause for f in audit.findings if f.verdict == "mismatch" and f.cause}


def inverse_layer(q, k, v):  # the kernel is not told of the layer
    return softmax(q @ turned(k) * root(q)) @ v


def biased(q, k, v, bias=None):
    logits = q @ turned(k)
    return softmax((logits if bias is None else logits + bias) * root(q)) @ v


def cap_after_mask(q, k, v, mask=None):
    logits = q @ turned(k) * root(q)
    logits = logits if mask is None else logits + np.where(mask, 0, np.float32(-1e9))
    return softmax(10 * np.tanh(logits / 10)) @ v


def scale_ignored(q, k, v, scale=None):
    return softmax(q @ turned(k) * root(q)) @ v


def gains_ignored(q, k, v, q_scale=None, k_scale=None):
    return softmax(unit(q) @ turned(unit(k)) * root(q)) @ v


def gains_used(q, k, v, q_scale=1.0, k_scale=1.0):
    return softmax((unit(q) * q_scale) @ turned(unit(k) * k_scale) * root(q)) @ v


def value_scale_ignored(q, k, v, attention_value_scale=0.707):
    return softmax(q @ turned(k) * root(q)) @ v


def root_forgotten(q, k, v, scale=None):
    if scale is not None:
        q = q * np.float32(scale / q.shape[-1])  # the default was meant to be divided out
    return softmax(q @ turned(k) * root(q)) @ v


def scale_multiplies(q, k, v, scale=1.0):
    return softmax(q @ turned(k) * root(q) * np.float32(scale)) @ v


def cap_ignored(q, k, v, logits_soft_cap=None):
    return softmax(q @ turned(k) * root(q)) @ v


def qk_norm_flash(q, k, v):  # default/scale in place of scale/default, on normalised vectors
    q, k = (x / np.sqrt((x**2).sum(-1, keepdims=True)) for x in (q, k))
    return softmax(q @ turned(k) * np.float32(1 / (10 * q.shape[-1]))) @ v


def online(q, k, v, block=64, rescale=True, later=1.0, rest=True, padding=0):
    """Attention block by block of keys with a running maximum, as kernels do it."""
    n = k.shape[-2] if rest else k.shape[-2] // block * block or k.shape[-2]
    best = np.full((*q.shape[:-1], 1), -np.inf, np.float32)
    total, out = 0.0, 0.0
    for first in range(0, n, block):
        keys, values = k[..., first : first + block, :], v[..., first : first + block, :]
        scale = root(q) * np.float32(1.0 if first == 0 else later)
        logits = q @ turned(keys) * scale
        if padding and (short := block - logits.shape[-1]):
            logits = np.concatenate([logits, np.zeros((*logits.shape[:-1], short), "f")], -1)
            values = np.concatenate(
                [values, np.zeros((*v.shape[:-2], short, v.shape[-1]), "f")], -2
            )
        top = np.maximum(best, logits.max(-1, keepdims=True))
        p = np.exp(logits - top)
        old = np.exp(best - top)
        total = total * old + p.sum(-1, keepdims=True)
        out = out * (old if rescale else 1.0) + p @ values
        best = top
    return out / total


def over_heads(q, k, v):  # wants (B, L, H, D) and attends over the axis before the last two
    w = np.einsum("bqhd,bkhd->bhqk", q, k) * root(q)
    return np.einsum("bhqk,bkhd->bqhd", softmax(w), v)


def splits(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def heads_inside(factor, heads=4):
    """Attention of (B, L, D) that makes heads of D; the factor is a function of D and d_k."""

    def attention(q, k, v):
        one, keys = splits(q, heads), splits(k, heads)
        logits = one @ turned(keys) * np.float32(factor(q.shape[-1], one.shape[-1]))
        return (softmax(logits) @ splits(v, heads)).swapaxes(1, 2).reshape(q.shape)

    return attention


def for_one_width(q, k, v):
    assert q.shape[-1] == 64
    return heads_inside(lambda d_model, d_k: d_k**-0.5)(q, k, v)


def score_mod_sink(q, k, v):  # the sink's normaliser is applied to weights, then softmax again
    logits = q @ turned(k) * root(q)
    top = np.maximum(logits.max(-1, keepdims=True), 0)
    e = np.exp(logits - top)
    return softmax(e / (e.sum(-1, keepdims=True) + np.exp(-top))) @ v


def with_sinks(logits, sink):
    """Attention with one more logit in each row, that no key has (GPT-OSS)."""

    def attention(q, k, v):
        x, s = logits(q, k), np.broadcast_to(sink, (q.shape[1],))[:, None, None].astype("f")
        top = np.maximum(x.max(-1, keepdims=True), s)
        e = np.exp(x - top)
        return e / (e.sum(-1, keepdims=True) + np.exp(s - top)) @ v

    return attention


def nan_where(condition):
    return lambda q, k, v: inverse_layer(q, k, v) * np.float32(np.nan if condition(q) else 1)


def masked_after(q, k, v):
    keep = np.tri(q.shape[-2], dtype=bool)
    return np.where(keep, softmax(q @ turned(k) * root(q)), 0) @ v


def rope(x):
    """Rotary position embedding of the halves of the last axis."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] * 10000.0 ** (-np.arange(half) / half)
    c, s, a, b = np.cos(angle), np.sin(angle), x[..., :half], x[..., half:]
    return np.concatenate([a * c - b * s, a * s + b * c], -1).astype(x.dtype)


def rope_of(part):
    """RoPE of the first elements alone."""

    def turn(x):
        width = int(part * x.shape[-1])
        return np.concatenate([rope(x[..., :width]), x[..., width:]], -1)

    return turn


def rms(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + np.float32(1e-6))


def altered(change, turn=lambda x: x):
    """Attention whose logits (..., n, n) are changed in place."""

    def logits(q, k):
        x = turn(q) @ turned(turn(k)) * root(q)
        change(x, x.shape[-1])
        return x

    return attends(logits)


def multiplied(*places, by):
    def change(x, n):
        x[(..., *places)] *= np.float32(by)

    return change


def rest_dropped(x, n):
    x[..., n // 64 * 64 or n :] = -np.inf


def later_keys_raised(x, n):
    x[..., 128:] += 1


def two_inside(q, k, v):
    halves = (np.split(x, 2, -1) for x in (q, k, v))
    return np.concatenate([inverse_layer(*each) for each in zip(*halves, strict=True)], -1)


def xpos(q, k):
    grows = np.float32(1.02) ** np.arange(q.shape[-2], dtype="f")[:, None]
    return (rope(q) * grows) @ turned(rope(k) / grows) * root(q)


MISTAKES = {
    "A1 inverse layer not passed on (transformers 44380)": (
        inverse_layer, {"expected": "inverse-layer:11"}, "sqrt-dk"),
    "A1 unscaled wanted, default kept (transformers 44380)": (
        inverse_layer, {"expected": "none"}, "sqrt-dk"),
    "A2 scaled before and in the kernel (transformers 38290)": (
        attends(lambda q, k: (q * root(q)) @ turned(k) * root(q)), {}, "dk"),
    "A3 multiplied by sqrt(d) (maxtext 1349)": (times(lambda d: d**0.5), {}, "upside-down"),
    "A4 mscale^2 missing (transformers 47435)": (
        times(lambda d: d**-0.5), {"expected": "mscale:40:0.707"}, "sqrt-dk"),
    "A4 mscale for mscale_all_dim (transformers 47435)": (
        times(lambda d: (0.1 * 0.707 * math.log(40) + 1) ** 2 * d**-0.5),
        {"expected": "mscale:40"}, "mscale"),
    "A5 no scale (mlc-llm 3426)": (times(lambda d: 1.0), {}, "none"),
    "A8 d_model of the heads there (vit-pytorch 65)": (
        attends(lambda q, k: q @ turned(k) * np.float32((q.shape[1] * q.shape[-1]) ** -0.5)),
        {}, "sqrt-dmodel"),
    "A8 d_model of 12 heads (ng-video-lecture 6)": (
        times(lambda d: (12 * d) ** -0.5), {}, "sqrt-dmodel"),
    "A8 d_model of heads made inside": (
        heads_inside(lambda d_model, d_k: d_model**-0.5), {}, "sqrt-dmodel"),
    "A8 d_model of 8 heads made inside, layout declared": (
        heads_inside(lambda d_model, d_k: d_model**-0.5, 8), {"layout": "bld"}, "sqrt-dmodel"),
    "A9 divided by d (cntkx 10)": (times(lambda d: 1 / d), {}, "dk"),
    "A9 scale 0 used literally (SKaiNET 880)": (times(lambda d: 0.0), {}, "zero"),
    "A10 inverted scale on normalised vectors (x-transformers 190)": (
        qk_norm_flash, {"expected": "cosine:10"}, "power"),
    "A11 root forgotten in the default (denoising-diffusion 314)": (
        root_forgotten, {}, "default-not-divided-out"),
    "A12 learned gains never applied (x-transformers 352)": (
        gains_ignored, {}, "argument-ignored"),
    "A14 bias scaled too (tt-metal 42891)": (biased, {}, "bias-scaled"),
    "A17 224 for 256 (transformers 31891)": (
        times(lambda d: 224**-0.5), {"expected": "query-pre-attn-scalar:256"}, "constant"),
    "A18 padded head dimension (ipex-llm 12619)": (
        times(lambda d: pad(d, 32) ** -0.5), {}, "padded-dk"),
    "A18 padded to a power of two (SageAttention 166)": (
        times(lambda d: (1 << (d - 1).bit_length()) ** -0.5), {}, "padded-dk"),
    "A19 A30 scale= accepted and ignored (timm 2280, torchtitan 2170)": (
        scale_ignored, {}, "argument-ignored"),
    "A21 weights as logits (transformers 41026)": (score_mod_sink, {}, "softmax-twice"),
    "A22 value scale read, never applied (Megatron-Bridge 4155)": (
        value_scale_ignored, {}, "argument-ignored"),
    "A24 softmax of the raw scores (RaBitQCache 1)": (times(lambda d: 1.0), {}, "none"),
    "A25 a port that scales what is unscaled (transformers 20828)": (
        times(lambda d: d**-0.5), {"expected": "none"}, "sqrt-dk"),
    "A27 attends over the heads (xformers 922)": (
        over_heads, {"layout": "bhld"}, "attends-over-heads"),
    "A29 overflow before the scale (ultralytics 24990)": (
        attends(lambda q, k: q @ turned(k) * root(q).astype(q.dtype)),
        {"dtype": ["float16"]}, "overflow-before-scale"),
    "a constant that is right at 64": (times(lambda d: 1 / 8), {}, "constant"),
    "sqrt of the number of heads": (
        attends(lambda q, k: q @ turned(k) * np.float32(q.shape[1] ** -0.5)), {}, "sqrt-heads"),
    "sqrt of the length": (
        attends(lambda q, k: q @ turned(k) * np.float32(q.shape[-2] ** -0.5)), {}, "sqrt-length"),
    "half the roots": (times(lambda d: d**-0.25), {}, "half-the-roots"),
    "a minus sign": (times(lambda d: -(d**-0.5)), {}, "negative"),
    "exp2 without log2(e)": (times(lambda d: math.log(2) * d**-0.5), {}, "exp2-without-log2e"),
    "softmax over queries": (
        lambda q, k, v: softmax(q @ turned(k) * root(q), axis=-2) @ v, {}, "softmax-over-queries"),
    "softmax over heads": (
        lambda q, k, v: softmax(q @ turned(k) * root(q), axis=1) @ v, {}, "softmax-over-heads"),
    "softmax over the batch": (
        lambda q, k, v: softmax(q @ turned(k) * root(q), axis=0) @ v, {}, "softmax-over-batch"),
    "softmax twice": (
        attends(lambda q, k: softmax(q @ turned(k) * root(q))), {}, "softmax-twice"),
    "half the scale in all rows but the last": (
        altered(multiplied(slice(0, -1), slice(None), by=0.5)), {}, "factor-by-query"),
    "another scale in the first row": (
        altered(multiplied(0, slice(None), by=2)), {}, "factor-by-query"),
    "another scale for the first keys": (
        altered(multiplied(slice(0, 8), by=3)), {}, "factor-by-key"),
    "RoPE, another scale from key 128 on": (
        altered(multiplied(slice(128, None), by=1.5), rope), {}, "factor-by-key"),
    "RoPE, the rest of the keys dropped": (altered(rest_dropped, rope), {}, "keys-dropped"),
    "k of the first in a batch for all": (
        attends(lambda q, k: q @ turned(k[:1]) * root(q)), {}, "batch-mixed"),
    "sqrt of the batch besides": (
        attends(lambda q, k: q @ turned(k) * root(q) * np.float32(len(q) ** -0.5)),
        {}, "batch-mixed"),
    "half of d_k dropped": (
        attends(lambda q, k: q[..., ::2] @ turned(k[..., ::2]) * root(q)), {}, "elements-dropped"),
    "q and k changed places": (attends(lambda q, k: k @ turned(q) * root(q)), {}, "swapped"),
    "RoPE, 1/d_k": (attends(lambda q, k: rope(q) @ turned(rope(k)) * root(q) ** 2), {}, "dk"),
    "nan for long rows": (nan_where(lambda q: q.shape[-2] > 100), {}, "not-finite"),
    "nan at one head dimension": (nan_where(lambda q: q.shape[-1] == 40), {}, "not-finite"),
    "a mask after the softmax, not renormalised": (masked_after, {}, "row-sums"),
    "accumulator not rescaled": (
        lambda q, k, v: online(q, k, v, rescale=False), {}, "block-rescaling"),
    "later blocks scaled again": (
        lambda q, k, v: online(q, k, v, later=0.5), {}, "factor-by-key"),
    "the rest of the keys dropped": (
        lambda q, k, v: online(q, k, v, rest=False), {}, "keys-dropped"),
    "padding keys counted": (lambda q, k, v: online(q, k, v, padding=1), {}, "padding-counted"),
    "cap after the mask": (cap_after_mask, {}, "mask-leaks"),
    "cap accepted and ignored": (cap_ignored, {}, "argument-ignored"),
    "scale= times the default": (scale_multiplies, {}, "scale-on-top-of-default"),
    "output scaled": (lambda q, k, v: inverse_layer(q, k, v) * np.float32(2**0.5), {},
                      "output-scaled"),
    "a scale for one head of its own": (
        attends(lambda q, k: q @ turned(k) * root(q)
                * np.linspace(1, 2, q.shape[1], dtype="f")[:, None, None]), {}, "factor-by-head"),
    "a scale that grows with the position": (
        attends(lambda q, k: q @ turned(k) * root(q)
                * (1 + np.arange(q.shape[-2], dtype="f") // 64)[:, None]), {}, "factor-by-query"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_named(name):
    attention, options, cause = MISTAKES[name]
    audit = audited(attention, **options)
    assert audit.verdict == "mismatch"
    assert cause in causes(audit)
    first = next(f for f in audit.findings if f.cause == cause and f.said)
    assert first.verdict == "mismatch"


def shifted(q, k, v, bias=None):
    logits = q @ turned(k) * root(q) + np.float32(30)
    return softmax(logits if bias is None else logits + bias) @ v


def exp2(q, k, v):
    logits = q @ turned(k) * (root(q) * np.float32(math.log2(math.e)))
    p = np.exp2(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def masked(q, k, v, mask=None):
    logits = q @ turned(k) * root(q)
    return softmax(logits if mask is None else np.where(mask, logits, -np.inf)) @ v


def scaled(q, k, v, scale=None, softcap=None):
    logits = q @ turned(k) * (root(q) if scale is None else np.float32(scale))
    return softmax(logits if softcap is None else softcap * np.tanh(logits / softcap)) @ v


def causal(q, k, v):
    logits = q @ turned(k) * root(q)
    return softmax(np.where(np.tri(*logits.shape[-2:], dtype=bool), logits, -np.inf)) @ v


def strictly_causal(q, k, v):  # the first row has no key, and comes out as 0
    keep = np.tri(q.shape[-2], k=-1, dtype=bool)
    e = np.exp(q @ turned(k) * root(q)) * keep
    return e / np.maximum(e.sum(-1, keepdims=True), np.float32(1e-30)) @ v


def capped(q, k):
    return 50 * np.tanh(q @ turned(k) * root(q) / 50)


def capped_in_window(q, k):
    i = np.arange(q.shape[-2])
    return np.where((i[:, None] >= i) & (i[:, None] - i < 8), capped(q, k), -np.inf)


def alibi(q, k):
    slopes = 2.0 ** -np.arange(1, q.shape[1] + 1, dtype="f")[:, None, None]
    i = np.arange(q.shape[-2], dtype="f")
    return q @ turned(k) * root(q) - np.abs(i[:, None] - i) * slopes


def half_out(q, k, v):
    return inverse_layer(q, k, v).astype(np.float16)


def masked_within(sees):
    """Attention with a mask of its own, `sees` of key less query, and one that is given."""

    def attention(q, k, v, mask=None, is_causal=False):
        places = np.arange(k.shape[-2])
        seen = sees(places - places[:, None])
        seen = seen & (places <= places[:, None]) if is_causal else seen
        logits = np.where(seen, q @ turned(k) * root(q), np.float32(-1e30))
        return softmax(logits if mask is None else np.where(mask, logits, np.float32(-1e30))) @ v

    return attention


def by_distance(q, k, v):
    squares = ((q[..., :, None, :] - k[..., None, :, :]) ** 2).sum(-1)
    return softmax(-squares / 2 * root(q)) @ v


def layer_norm(x):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + np.float32(1e-6))


def in_place(q, k, v):
    q *= root(q)
    return softmax(q @ turned(k)) @ v


NON_MISTAKES = {
    "plain": (times(lambda d: d**-0.5), {}),
    "B1 scales q, not the product (transformers 22444)": (
        attends(lambda q, k: (q * root(q)) @ turned(k)), {}),
    "B2 square root twice (guided-diffusion 38)": (
        attends(lambda q, k: (q * np.sqrt(root(q))) @ turned(k * np.sqrt(root(q)))), {}),
    "B3 layer divided out and multiplied back (Megatron-LM 320)": (
        attends(lambda q, k: (q @ turned(k) * (root(q) / 12)).astype("f") * 12), {}),
    "B4 the dimension of the values (gpt-2 49)": (
        lambda q, k, v: softmax(q @ turned(k) * np.float32(v.shape[-1] ** -0.5)) @ v,
        {"dk": [16, 64]}),
    "B6 unscaled after QK-norm (mlc-llm 3485)": (
        attends(lambda q, k: unit(q) @ turned(unit(k))), {"expected": "none"}),
    "QK-norm, then 1/sqrt(d_k)": (gains_used, {}),
    "a constant added": (shifted, {}),
    "exp2 with log2(e)": (exp2, {}),
    "the maximum not subtracted": (
        lambda q, k, v: (p := np.exp(q @ turned(k) * root(q))) / p.sum(-1, keepdims=True) @ v, {}),
    "block by block": (online, {}),
    "heads made inside": (heads_inside(lambda d_model, d_k: d_k**-0.5), {}),
    "12 heads made inside": (heads_inside(lambda d_model, d_k: d_k**-0.5, 12), {"layout": "bld"}),
    "heads made inside, of one width": (for_one_width, {"layout": "bld"}),
    "made for 4 heads": (heads_inside(lambda d_model, d_k: d_k**-0.5), {"layout": "blhd"}),
    "QK-LayerNorm with an epsilon": (
        attends(lambda q, k: layer_norm(q) @ turned(layer_norm(k)) * root(q)), {}),
    "causal, and a mask besides": (masked_within(lambda ahead: ahead <= 0), {}),
    "a window of 3, and a mask besides": (
        masked_within(lambda ahead: (ahead <= 0) & (ahead > -3)), {}),
    "L2 attention": (by_distance, {}),
    "a boolean mask": (masked, {}),
    "scale= and softcap= used": (scaled, {}),
    "causal": (causal, {}),
    "a cap of 50": (attends(lambda q, k: 50 * np.tanh(q @ turned(k) * root(q) / 50)), {}),
    "softmax1": (
        lambda q, k, v: (p := np.exp(q @ turned(k) * root(q))) / (1 + p.sum(-1, keepdims=True)) @ v,
        {}),
    "q scaled in place": (in_place, {}),
    "a cap of 50 at every precision": (
        attends(capped), {"dk": [40, 64], "dtype": ["float32", "bfloat16", "float16"]}),
    "a clip at 50 at every precision": (
        attends(lambda q, k: np.clip(q @ turned(k) * root(q), -50, 50)),
        {"dk": [40, 64], "dtype": ["float32", "bfloat16", "float16"]}),
    "a cap in a window of 8": (attends(capped_in_window), {}),
    "RoPE": (attends(lambda q, k: rope(q) @ turned(rope(k)) * root(q)), {}),
    "RoPE of a quarter": (altered(lambda x, n: None, rope_of(0.25)), {}),
    "RoPE and a cap of 50": (attends(lambda q, k: capped(rope(q), rope(k))), {}),
    "RoPE after QK-norm (Qwen3)": (
        attends(lambda q, k: rope(rms(q)) @ turned(rope(rms(k))) * root(q)), {}),
    "QK-norm with an epsilon": (attends(lambda q, k: rms(q) @ turned(rms(k)) * root(q)), {}),
    "RoPE and a sink": (
        with_sinks(lambda q, k: rope(q) @ turned(rope(k)) * root(q), np.linspace(-1, 2, 4)), {}),
    "ALiBi": (attends(alibi), {}),
    "two heads inside": (two_inside, {}),
    "strictly causal": (strictly_causal, {}),
    "a sink for each head (GPT-OSS)": (
        with_sinks(lambda q, k: q @ turned(k) * root(q), np.linspace(-1, 2, 4)), {}),
    "a sink beside ALiBi": (with_sinks(alibi, 0.7), {}),
    "float32 in, float16 out": (half_out, {}),
    "muP": (times(lambda d: 1 / d), {"expected": "dk"}),
    "T5": (times(lambda d: 1.0), {"expected": "none"}),
    "16-bit, q scaled first": (
        attends(lambda q, k: (q * root(q).astype(q.dtype)) @ turned(k)), {"dtype": ["float16"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", NON_MISTAKES)
def test_what_is_no_mistake_passes(name):
    attention, options = NON_MISTAKES[name]
    audit = audited(attention, **options)
    assert audit.verdict == "match", [f for f in audit.findings if f.verdict != "match"]


def sigmoid(q, k, v):
    return 1 / (1 + np.exp(-q @ turned(k) * root(q))) @ v


def summed(q, k, v):
    w = np.abs(q @ turned(k))
    return w / w.sum(-1, keepdims=True) @ v


def tf32(x):
    """float32 rounded to the 10 bits that TF32 keeps."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


UNDECIDED = {
    "sigmoid": (sigmoid, "not-odd"),
    "|q.k| over its sum": (summed, "not-odd"),
    "one head of k for all": (attends(lambda q, k: q @ turned(k[:, :1]) * root(q)), "shared-keys"),
    "products in TF32": (attends(lambda q, k: tf32(q) @ turned(tf32(k)) * root(q)), "unknown"),
    "xPos: a factor that decays with the distance": (attends(xpos), "places"),
    "only k rotated": (attends(lambda q, k: q @ turned(rope(k)) * root(q)), "unknown"),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_cannot_be_told_is_undecided(name):
    attention, form = UNDECIDED[name]
    audit = audited(attention)
    assert audit.verdict == "undecided"
    assert audit.findings[0].cause == form
    assert ("TF32" in audit.findings[0].said) == ("TF32" in name)


def test_what_places_add_to_logits_is_said():
    for attention in (attends(alibi), altered(later_keys_raised)):
        audit = audited(attention, dk=[64])
        said = [f.said for f in audit.findings if f.check == "bias"]
        assert audit.verdict == "match"
        assert len(said) == 1
    assert not [f for f in audited(inverse_layer, dk=[64]).findings if f.check == "bias"]


def test_the_table_is_long_enough():
    assert len(MISTAKES) >= 20
    assert len(NON_MISTAKES) >= 8


def test_the_exponent_is_that_of_one_number_of_heads():
    attention, options, _ = MISTAKES["A8 d_model of the heads there (vit-pytorch 65)"]
    audit = audited(attention, **options)
    assert [f.verdict for f in audit.findings if f.check == "exponent of d_k"] == ["match"]


def form_of(attention):
    return next(f for f in audited(attention, dk=[64, 80]).findings if f.check == "form")


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        (lambda k: 3 * k[..., 0], "linear"),
        (lambda k: -(k**2).sum(-1) * root(k), "quadratic"),
        (lambda k: abs(k[..., 0]) ** 3, "alone besides q.k: is"),
    ],
)
def test_a_term_of_the_keys_is_no_multiple_of_their_product(term, kind):
    form = form_of(attends(lambda q, k: q @ turned(k) * root(q) + term(k)[..., None, :]))
    assert (form.cause, form.verdict) == ("key-term", "undecided")
    assert kind in form.said


def test_attention_by_distance_is_recognised():
    form = form_of(by_distance)
    assert (form.cause, form.verdict) == ("l2-distance", "measured")
    assert "bias" not in {f.check for f in audited(by_distance, dk=[64]).findings}
