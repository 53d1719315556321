"""Arguments besides q, k and v: what each does is told, conventions from mistakes.

Nothing is drawn but the inputs, and those from a fixed seed: only rounding errs.
"""

import numpy as np
import pytest
from verify_variance.simulations.audit.function import audit_function
from verify_variance.stats.audit.options import audit_options

QUICK = {"dk": [40, 64], "dtype": ["float32"]}
LN10 = np.log(10)
noise = np.random.default_rng(0)


def turned(x):
    return x.swapaxes(-1, -2)


def softmax(x):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


def root(q):
    return np.float32(q.shape[-1] ** -0.5)


def scaled(q, k):
    return q @ turned(k) * root(q)


def unit(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True))


def direction(x):
    return x / np.sqrt((x**2).sum(-1, keepdims=True))


def rope(x):
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] * 10000.0 ** (-np.arange(half) / half)
    c, s, a, b = np.cos(angle), np.sin(angle), x[..., :half], x[..., half:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype("f")


def window(logits, width, causal=True):
    ahead = np.arange(logits.shape[-1]) - np.arange(logits.shape[-2])[:, None]
    seen = (ahead <= 0) & (ahead > -width) if causal else np.abs(ahead) < width
    return np.where(seen, logits, -np.inf)


def tril(logits, k=0):
    return np.where(np.tri(*logits.shape[-2:], k=k, dtype=bool), logits, -np.inf)


def audited(attention, **options):
    return audit_function(attention, "planted", audit_options(QUICK | options))


def with_scale(factor_of):
    def attention(q, k, v, scale=None):
        factor = root(q) if scale is None else factor_of(np.float32(scale), q)
        return softmax(q @ turned(k) * np.float32(factor)) @ v

    return attention


def with_cap(logits, cap):
    def attention(q, k, v, softcap=None):
        x = logits(q, k)
        return softmax(x if softcap is None else cap(x, np.float32(softcap))) @ v

    return attention


def with_mask(apply, name="mask"):
    """An attention whose mask argument `name` acts on logits by `apply`."""
    space = {"apply": apply, "scaled": scaled, "softmax": softmax}
    exec(
        f"def attention(q, k, v, {name}=None):\n"
        f"    x = scaled(q, k)\n"
        f"    return softmax(x if {name} is None else apply(x, {name})) @ v",
        space,
    )
    return space["attention"]


def softcapped(x, cap):
    return cap * np.tanh(x / cap)


def flagged(q, k, v, scale=True):
    return softmax(scaled(q, k) if scale else q @ turned(k)) @ v


def flag_ignored(q, k, v, scale=True):
    return softmax(scaled(q, k)) @ v


def divisor(q, k, v, attn_scale=None):
    return softmax(q @ turned(k) / np.float32(attn_scale or q.shape[-1] ** 0.5)) @ v


def swin(q, k, v, logit_scale=LN10):  # Swin-V2
    s = np.exp(np.minimum(logit_scale, np.log(100)), dtype="f")
    return softmax(direction(q) @ turned(direction(k)) * s) @ v


def swin_learned(q, k, v, logit_scale=None):  # the argument has a value for each head
    s = np.float32(10) if logit_scale is None else np.exp(logit_scale.clip(max=4.6))
    assert s.ndim in (0, 3)
    return softmax(direction(q) @ turned(direction(k)) * s) @ v


def cosine(q, k, v, scale=10):  # x-transformers
    return softmax(direction(q) @ turned(direction(k)) * np.float32(scale)) @ v


def causal_argument(k, renormalise=True):
    def attention(q, key, v, is_causal=False):
        x = scaled(q, key)
        if not renormalise:
            return softmax(x) * (np.tri(x.shape[-1]) if is_causal else 1) @ v
        return softmax(tril(x, k) if is_causal else x) @ v

    return attention


def causal_ignored(q, k, v, is_causal=False):
    return softmax(scaled(q, k)) @ v


def after_softmax(q, k, v, mask=None):
    p = softmax(scaled(q, k))
    return (p if mask is None else p * mask) @ v


def windowed(q, k, v, window_size=None):
    return softmax(window(scaled(q, k), window_size or 10**6)) @ v


def window_ignored(q, k, v, window_size=None):
    return softmax(scaled(q, k)) @ v


def alibi_scaled(q, k, v, alibi=None):
    x = q @ turned(k)
    return softmax((x if alibi is None else x + alibi) * root(q)) @ v


def random_with_mask(q, k, v, mask=None):
    x = scaled(q, k)
    return softmax(x if mask is None else x + noise.normal(size=x.shape).astype("f")) @ v


MISTAKES = {
    "a scale flag that is ignored": (flag_ignored, "argument-ignored", "accepted and ignored"),
    "scale= on q and on k": (with_scale(lambda s, q: s * s), "scale-squared", "q and k"),
    "the root of scale=": (with_scale(lambda s, q: s**0.5), "scale-misused", "square root"),
    "scale= divides": (with_scale(lambda s, q: 1 / s), "scale-divides", "is 1 divided by it"),
    "scale= divides the default": (
        with_scale(lambda s, q: root(q) / s), "scale-divides", "1/sqrt(d_k) divided by it"),
    "minus scale=": (with_scale(lambda s, q: -s), "negative", "is minus the argument"),
    "scale= times the default": (
        with_scale(lambda s, q: s * root(q)), "scale-on-top-of-default", "multiplies the default"),
    "scale= gives nan": (with_scale(lambda s, q: s * np.nan), "not-finite", "no output is finite"),
    "the division of a cap forgotten": (
        with_cap(scaled, lambda x, c: c * np.tanh(x)), "softcap-misused", "2 tanh(x/2)"),
    "the product of a cap forgotten": (
        with_cap(scaled, lambda x, c: np.tanh(x / c)), "softcap-misused", "2 tanh(x/2)"),
    "cap before the scale": (
        with_cap(scaled, lambda x, c: softcapped(x * 8, c) / 8), "softcap-misused", "2 tanh(x/2)"),
    "the division forgotten, with RoPE": (
        with_cap(lambda q, k: scaled(rope(q), rope(k)), lambda x, c: c * np.tanh(x)),
        "softcap-misused", "2 tanh(x/2)"),
    "mask transposed": (
        with_mask(lambda x, m: np.where(turned(m), x, -np.inf)), "mask-transposed", "transposed"),
    "mask of -10 added": (
        with_mask(lambda x, m: x + np.where(m, 0, np.float32(-10))), "mask-leaks", "by -10,"),
    "mask of -10 put": (
        with_mask(lambda x, m: np.where(m, x, np.float32(-10))), "mask-leaks", "takes the place"),
    "mask after the softmax": (after_softmax, "mask-after-softmax", "after the softmax"),
    "a padding mask of -10": (
        with_mask(lambda x, m: np.where(m[:, None, None, :], np.float32(-10), x),
                  "key_padding_mask"), "mask-leaks", "takes the place"),
    "bias transposed": (with_mask(lambda x, m: x + turned(m), "bias"), "bias-transposed", "pair"),
    "half the bias": (with_mask(lambda x, m: x + m / 2, "bias"), "bias-misused", "by 0.5 times"),
    "ALiBi scaled too": (alibi_scaled, "bias-scaled", "multiplied by the scale"),
    "is_causal= ignored": (causal_ignored, "argument-ignored", "accepted and ignored"),
    "is_causal= off by one": (causal_argument(1), "causal-off-by-one", "up to 1 after its own"),
    "is_causal= after the softmax": (
        causal_argument(0, renormalise=False), "mask-after-softmax", "after the softmax"),
    "window_size= ignored": (window_ignored, "argument-ignored", "accepted and ignored"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_misused_argument_is_named(name):
    attention, cause, said = MISTAKES[name]
    audit = audited(attention)
    (found,) = (f for f in audit.findings if f.verdict == "mismatch")
    assert (found.check, found.cause) == ("argument", cause)
    assert said in found.said


def normed(q, k):
    return scaled(unit(q), unit(k))


def capped_in_a_window(q, k, v, softcap=None):
    x = scaled(q, k)
    return softmax(window(x if softcap is None else softcapped(x, np.float32(softcap)), 8)) @ v


def hf(x, m):  # 2-D, 1 keeps a key
    return x + (1 - m[:, None, None, :].astype("f")) * np.float32(-1e9)


NON_MISTAKES = {
    "a scale flag": (flagged, {}),
    "attn_scale= divides (TransformerLens)": (divisor, {}),
    "logit_scale= is a logarithm (Swin-V2)": (swin, {"expected": "cosine:10"}),
    "a learned one": (swin_learned, {"expected": "cosine:10"}),
    "scale= multiplies the cosine": (cosine, {"expected": "cosine:10"}),
    "scale=": (with_scale(lambda s, q: s), {}),
    "softcap=": (with_cap(scaled, softcapped), {}),
    "softcap= and QK-norm": (with_cap(normed, softcapped), {}),
    "softcap= and RoPE": (with_cap(lambda q, k: scaled(rope(q), rope(k)), softcapped), {}),
    "softcap=, QK-norm and RoPE": (
        with_cap(lambda q, k: scaled(rope(unit(q)), rope(unit(k))), softcapped), {}),
    "softcap= in a window": (capped_in_a_window, {}),
    "a clip": (with_cap(scaled, lambda x, c: np.clip(x, -c, c)), {}),
    "a padding mask, True drops a key (torch)": (
        with_mask(lambda x, m: np.where(m[:, None, None, :], -np.inf, x), "key_padding_mask"), {}),
    "a mask (batch, key), 1 keeps it (transformers)": (with_mask(hf, "attention_mask"), {}),
    "a mask of numbers": (with_mask(lambda x, m: x + m), {}),
    "masked_fill(mask == 0)": (with_mask(lambda x, m: np.where(m == 0, np.float32(-1e9), x)), {}),
    "a mask on causal attention": (with_mask(lambda x, m: tril(np.where(m, x, -np.inf))), {}),
    "bias": (with_mask(lambda x, m: x + m, "bias"), {}),
    "is_causal=": (causal_argument(0), {}),
    "window_size=": (windowed, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", NON_MISTAKES)
def test_an_argument_that_does_what_its_name_says_passes(name):
    attention, options = NON_MISTAKES[name]
    audit = audited(attention, **options)
    assert audit.verdict == "match", [f for f in audit.findings if f.verdict != "match"]
    assert "could not be tried" not in " ".join(f.said for f in audit.findings)


@pytest.mark.parametrize(
    ("attention", "slug", "said"),
    [
        (random_with_mask, "random", "outputs are random"),
        (causal_argument(-1), "causal-hides", "does not see its own key"),
    ],
)
def test_what_cannot_be_told_of_an_argument(attention, slug, said):
    audit = audited(attention)
    found = next(f for f in audit.findings if f.cause == slug)
    assert audit.verdict == found.verdict == "undecided"
    assert said in found.said


def test_what_a_flag_and_a_window_do_is_said():
    flag = next(f for f in audited(flagged).findings if f.check == "argument")
    assert "scale=False q.k is multiplied by 1," in flag.said
    assert "scale=True q.k is multiplied by 0.125" in flag.said
    seen = next(f for f in audited(windowed).findings if f.check == "argument")
    assert "query i sees keys i-3 to i+0;" in seen.said
