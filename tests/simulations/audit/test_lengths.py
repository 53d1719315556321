"""Decoding, cross-attention and shared key heads that go wrong by themselves, and what is none.

Each changes plain attention at one place only. Nothing is drawn but the inputs, and those from a
fixed seed: only rounding errs.
"""

import numpy as np
import pytest
import verify_variance as vv


def softmax(x):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


def core(q, k, v, factor=1.0, mask=None, bias=0.0):
    x = q @ k.swapaxes(-1, -2) * np.float32(factor * q.shape[-1] ** -0.5) + np.float32(bias)
    return softmax(x if mask is None else np.where(mask, x, np.float32(-np.inf))) @ v


def places(q, k):
    """Queries [n, 1] at the end of the keys [1, m], and whether lengths differ."""
    n, m = q.shape[-2], k.shape[-2]
    return np.arange(n)[:, None] + m - n, np.arange(m)[None], n != m


def placed(change):
    return lambda q, k, v: change(q, k, v, *places(q, k))


def rope(x, at):
    half = x.shape[-1] // 2
    angles = at.reshape(-1, 1) * 1e4 ** (-np.arange(half) / half)
    c, s = np.cos(angles).astype("f"), np.sin(angles).astype("f")
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, a * s + b * c], -1)


def slopes(q):
    h = q.shape[-3]
    return (2.0 ** (-8 * (np.arange(h) + 1) / h))[:, None, None]


def folded(axis):
    """Heads folded into the batch, as older code does: made for as many heads of k as of q."""

    def attention(q, k, v):
        shape = (q.shape[0] * q.shape[1], -1, q.shape[-1])
        if axis == 1:
            return core(*(x.reshape(shape) for x in (q, k, v))).reshape(q.shape)
        b, _, h, d = q.shape
        q, k, v = (x.reshape(b, -1, h, d).swapaxes(1, 2) for x in (q, k, v))
        return core(q, k, v).swapaxes(1, 2)

    return attention


def repeated(factor=lambda n, q, k: 1.0, keys=lambda k, n: k, values=None):
    def attention(q, k, v):
        n = q.shape[-3] // k.shape[-3]
        more = np.repeat(keys(k, n), n, -3)
        spread = np.concatenate([v] * n, -3) if values == "tiled" else np.repeat(v, n, -3)
        return core(q, more, spread, factor(n, q, k))

    return attention


def unlike_heads(q, k, v):
    mask = np.ones((q.shape[-3], q.shape[-2], k.shape[-2]), bool)
    mask[1:, :, k.shape[-2] // 2 :] = False
    return core(q, k, v, mask=mask)


def causal_but_one_head(q, k, v):
    i, j, _ = places(q, k)
    return core(q, k, v, mask=(j <= i) | (np.arange(q.shape[-3])[:, None, None] == 2))


def merged(q, k, v):
    out = core(q, k[::-1], v)
    return out.swapaxes(1, 2).reshape(out.shape[0], out.shape[2], -1)


def causes(attention, **options):
    audit = vv.audit(attention, **{"dk": [40, 64], "dtype": "float32"} | options)
    wrong = {r["cause"] for r in audit.record["rows"] if r["verdict"] in ("mismatch", "undecided")}
    return audit.verdict, wrong


SOUND = {
    "heads folded into the batch": folded(1),
    "heads folded, lengths first": folded(2),
    "a first row without any key, nan": placed(lambda q, k, v, i, j, _: core(q, k, v, mask=j < i)),
    "the first query sees itself, others not": placed(
        lambda q, k, v, i, j, _: core(q, k, v, mask=(j < i) | ((i == 0) & (j == 0)))),
    "earlier blocks and the first key": placed(
        lambda q, k, v, i, j, _: core(q, k, v, mask=(j // 4 < i // 4) | (j == 0))),
    "causal": placed(lambda q, k, v, i, j, _: core(q, k, v, mask=j <= i)),
    "causal with a window": placed(
        lambda q, k, v, i, j, _: core(q, k, v, mask=(j <= i) & (i - j < 8))),
    "causal RoPE": placed(
        lambda q, k, v, i, j, _: core(rope(q, i), rope(k, j), v, mask=j <= i)),
    "causal ALiBi": placed(
        lambda q, k, v, i, j, _: core(q, k, v, mask=j <= i, bias=-slopes(q) * abs(i - j))),
    "a mask for many queries alone": placed(
        lambda q, k, v, i, j, _: core(q, k, v, mask=(j <= i) if q.shape[-2] > 1 else None)),
    "causal in all heads but one": causal_but_one_head,
    "a first prefix for all": placed(
        lambda q, k, v, i, j, _: core(q, k, v, mask=(j <= i) | (j < 5))),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_passes(name):
    assert causes(SOUND[name]) == ("match", set())


WRONG = {
    "a head that loses keys": (unlike_heads, {"keys-dropped"}),
    "one key leaks if lengths differ": (
        placed(lambda q, k, v, i, j, ne: core(q, k, v, mask=j <= i + ne)), {"other-lengths"}),
    "no causal mask if lengths differ": (
        placed(lambda q, k, v, i, j, ne: core(q, k, v, mask=(j <= i) | ne)), {"other-lengths"}),
    "no first key if lengths differ": (
        placed(lambda q, k, v, i, j, ne: core(q, k, v, mask=(j <= i) & ((j > 0) | (not ne)))),
        {"other-lengths"}),
    "keys the other way round for one query": (
        placed(lambda q, k, v, i, j, ne: core(
            q, k[..., ::-1, :] if q.shape[-2] == 1 else k, v, mask=j <= i)), {"other-lengths"}),
    "nan for one query": (
        placed(lambda q, k, v, i, j, ne: q * np.float32(np.nan) if q.shape[-2] == 1
               else core(q, k, v, mask=j <= i)), {"not-finite"}),
    "ALiBi, half the scale if lengths differ": (
        placed(lambda q, k, v, i, j, ne: core(
            q, k, v, 0.5 if ne else 1, j <= i, -slopes(q) * abs(i - j))), {"factor-by-queries"}),
    "RoPE, k not turned if lengths differ": (
        placed(lambda q, k, v, i, j, ne: core(
            rope(q, i), k if ne else rope(k, j), v, mask=j <= i)), {"other-lengths"}),
    "RoPE, q off by one if lengths differ": (
        placed(lambda q, k, v, i, j, ne: core(rope(q, i + ne), rope(k, j), v, mask=j <= i)),
        {"other-lengths"}),
    "unscaled for one query and many keys": (
        lambda q, k, v: core(
            q, k, v, 8.0 if q.shape[-2] == 1 and k.shape[-2] > 64 else 1.0),
        {"factor-by-queries"}),
    "values tiled, keys repeated": (repeated(values="tiled"), {"value-heads"}),
    "another scale where one head of k serves all": (
        repeated(lambda n, q, k: 0.25 if n > 1 and k.shape[-3] == 1 else 1.0),
        {"factor-by-key-heads"}),
    "another scale where three share one": (
        repeated(lambda n, q, k: n**-0.5), {"factor-by-key-heads"}),
    "a batch mixed, heads merged": (merged, {"batch-mixed"}),
    "a batch mixed, in a dictionary": (
        lambda q, k, v: {"out": core(q, k[::-1], v)}, {"batch-mixed"}),
    "causal for few keys alone": (
        placed(lambda q, k, v, i, j, ne: core(q, k, v, mask=(j <= i) | (k.shape[-2] > 128))),
        {"mask-by-length"}),
    "three later keys seen among few": (
        placed(lambda q, k, v, i, j, ne: core(
            q, k, v, mask=(j <= i) | ((j - i <= 3) & (k.shape[-2] <= 128)))), {"mask-by-length"}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_not_called_sound(name):
    attention, wanted = WRONG[name]
    verdict, found = causes(attention, n_heads=3 if "three share" in name else 4)
    assert verdict in ("mismatch", "undecided")
    assert wanted <= found


def test_declared_heads_of_k_are_what_it_gets_or_nothing():
    assert causes(core, n_kv_heads=2) == ("undecided", {"no-weights"})
    assert causes(folded(1), n_kv_heads=4) == ("match", set())
    assert causes(folded(1), n_kv_heads=2)[0] == "mismatch"
    assert causes(repeated(keys=lambda k, n: k[:, ::-1]), n_kv_heads=2)[1] >= {"key-heads-order"}
    with pytest.raises(vv.InputError, match="n_kv_heads needs a layout with heads"):
        vv.audit(core, layout="bld", n_kv_heads=2)


def test_the_assertion_takes_no_other_heads_than_declared():
    with pytest.raises(AssertionError):
        vv.assert_logit_scale(core, n_heads=4, n_kv_heads=2)
    with pytest.raises(vv.InputError, match="n_kv_heads needs a layout with heads"):
        vv.assert_logit_scale(core, n_heads=4, n_kv_heads=2, layout="bld")

    def tiled(q, k, v):
        return core(q, *(np.concatenate([x] * (q.shape[1] // x.shape[1]), 1) for x in (k, v)))

    with pytest.raises(AssertionError, match="key heads are tiled"):
        vv.assert_logit_scale(tiled, n_heads=4, n_kv_heads=2)


def test_what_each_head_sees_is_told():
    audit = vv.audit(causal_but_one_head, dk=[40, 64], dtype="float32")
    (row,) = (row for row in audit.record["rows"] if row["check"] == "keys seen")
    assert row["said"].endswith("keys 0 to i in head 0, 1, 3; keys 0 to 271 in head 2.")


def test_a_scale_by_the_width_of_the_values_is_told_and_not_judged():
    def by_width(q, k, v):
        return core(q, k, v, (q.shape[-1] / v.shape[-1]) ** 0.5)

    audit = vv.audit(by_width, dk=[40, 64], dtype="float32")
    assert audit.verdict == "match"  # it is the same wherever values are as wide as keys
    (row,) = (row for row in audit.record["rows"] if row["cause"] == "factor-by-dv")
    assert row["estimate"] == pytest.approx(0.5**0.5, rel=1e-4)
