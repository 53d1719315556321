"""Key heads that are shared, and fewer queries than keys: what passes, what is wrong, what is told.

Nothing is drawn but the inputs, and those from a fixed seed: only rounding errs.
"""

import numpy as np
import pytest
from verify_variance.simulations.audit.assertion import assert_logit_scale
from verify_variance.simulations.audit.black_box import BlackBox
from verify_variance.simulations.audit.compared import compared
from verify_variance.simulations.audit.function import audit_function
from verify_variance.simulations.audit.key_heads import in_its_order, served
from verify_variance.simulations.audit.probe import probe_factor
from verify_variance.stats.audit.options import audit_options
from verify_variance.stats.checks import InputError


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, k, v, factor=1.0, mask=None):
    x = q @ k.swapaxes(-1, -2) * np.float32(factor * q.shape[-1] ** -0.5)
    return softmax(x if mask is None else np.where(mask, x, np.float32(-1e9))) @ v


def repeated(times=None, factor=lambda heads, few, d: 1.0, tile=False, axis=1):
    """Attention that repeats the heads of k and v, by itself or a number of times."""

    def attention(q, k, v):
        heads, few = q.shape[axis], k.shape[axis]
        n = times or heads // few
        more = np.concatenate([k] * n, axis) if tile else np.repeat(k, n, axis)
        values = np.concatenate([v] * n, axis) if tile else np.repeat(v, n, axis)
        q, more, values = (x.swapaxes(1, 2) if axis == 2 else x for x in (q, more, values))
        out = attend(q, more, values, factor(heads, few, q.shape[-1]))
        return out.swapaxes(1, 2) if axis == 2 else out

    return attention


ANY_NUMBER = repeated()


def one_head_of_k(q, k, v):
    if k.shape[1] != 1:
        raise ValueError("k must have one head")
    return attend(q, k, v)


def capped_and_tiled(q, k, v):
    k, v = (np.concatenate([x, x], 1) for x in (k, v))
    x = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    return softmax(5 * np.tanh(x / 5)) @ v


def rope(x):
    n, half = x.shape[-2], x.shape[-1] // 2
    angles = np.arange(n)[:, None] * 1e4 ** (-np.arange(half) / half)
    c, s = np.cos(angles).astype("f"), np.sin(angles).astype("f")
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, a * s + b * c], -1)


def roped_and_repeated(q, k, v):
    return repeated(2)(rope(q), rope(k), v)


def at_start(q, k, v):
    return attend(q, k, v, mask=np.tril(np.ones((q.shape[-2], k.shape[-2]), bool)))


def at_end(q, k, v):
    n, m = q.shape[-2], k.shape[-2]
    return attend(q, k, v, mask=np.tril(np.ones((n, m), bool), m - n))


def flagged(q, k, v, is_causal=False):
    return (at_start if is_causal else attend)(q, k, v)


def made_for_square(q, k, v):
    if q.shape[-2] != k.shape[-2]:
        raise ValueError("lengths differ")
    return attend(q, k, v)


def roped(q, k, v):
    return attend(rope(q), rope(k), v)


def by_queries(q, k, v):
    return attend(q, k, v, (1 + np.log(q.shape[-2])) / (1 + np.log(16)))


def audited(attention, **options):
    return audit_function(
        attention, "f", audit_options({"dk": [40, 64], "dtype": ["float32"]} | options)
    )


def of(audit, check):
    return [(f.where, f.verdict, f.cause) for f in audit.findings if f.check == check]


@pytest.mark.parametrize(
    ("attention", "where", "layout"),
    [
        (repeated(2), "4 heads, 2 of k", "bhld"),
        (repeated(4), "4 heads, 1 of k", "bhld"),
        (repeated(2, axis=2), "4 heads, 2 of k", "blhd"),
        (ANY_NUMBER, "4 heads, 2 of k", "bhld"),
        (one_head_of_k, "4 heads, 1 of k", "bhld"),
        (roped_and_repeated, "4 heads, 2 of k", "bhld"),
    ],
)
def test_attention_made_for_fewer_heads_of_k_is_audited_as_it_is(attention, where, layout):
    audit = audited(attention)
    assert audit.verdict == "match"
    assert audit.facts["layout"].startswith(layout)
    found = of(audit, "key heads")
    assert found[0] == (where, "match", None)
    # one of any number is tried with one head of k for all as well
    assert found[1:] == [("4 heads, 1 of k", "match", None)] * (attention is ANY_NUMBER)


@pytest.mark.parametrize(
    "attention", [repeated(2, tile=True), repeated(tile=True), capped_and_tiled]
)
def test_heads_in_another_order_than_everybodys_are_caught(attention):
    audit = audited(attention)
    assert {f.cause for f in audit.findings if f.verdict == "mismatch"} == {"key-heads-tiled"}
    assert ("4 heads, 2 of k", "mismatch", "key-heads-tiled") in of(audit, "key heads")


def test_six_heads_share_two_or_three_of_k():
    for few, times in ((2, 3), (3, 2)):
        audit = audited(repeated(times), n_heads=6)
        assert audit.verdict == "match"
        assert of(audit, "key heads") == [(f"6 heads, {few} of k", "match", None)]
        declared = audited(repeated(times), n_heads=6, n_kv_heads=few)
        assert declared.findings == audit.findings
    with pytest.raises(InputError, match="n_kv_heads must divide the heads"):
        audited(repeated(), n_heads=6, n_kv_heads=4)


@pytest.mark.parametrize("times", [2, 4])
def test_a_missing_scale_is_seen_where_heads_of_k_are_shared(times):
    audit = audited(repeated(times, factor=lambda heads, few, d: d**0.5))
    assert audit.verdict == "mismatch"
    assert {cause for _, verdict, cause in of(audit, "factor") if verdict == "mismatch"} == {"none"}


def test_a_factor_that_depends_on_the_heads_of_k_is_caught():
    audit = audited(repeated(factor=lambda heads, few, d: (few / heads) ** 0.5))
    found = [f for f in audit.findings if f.check == "key heads"]
    assert [(f.verdict, f.cause) for f in found] == [("mismatch", "factor-by-key-heads")] * 2
    assert [f.measured for f in found] == pytest.approx([0.125 / 2**0.5, 0.125 / 2], rel=1e-4)


def test_an_array_that_is_too_short_and_read_anyhow_is_told_and_not_judged():
    def clamped(q, k, v):  # as an index out of bounds is in compiled code
        index = np.minimum(np.arange(q.shape[1]), k.shape[1] - 1)
        return attend(q, k[:, index], v[:, index])

    audit = audited(clamped)
    assert audit.verdict == "match"
    two, one = (f for f in audit.findings if f.check == "key heads")
    assert (two.verdict, two.cause) == ("measured", "own-key-heads")
    assert "it may not be made for that" in two.said
    assert one.verdict == "match"  # one head for all leaves nothing to mistake


def test_which_query_heads_a_key_head_serves():
    q, k = np.random.default_rng(1).standard_normal((2, 6, 5, 8))
    for tile, heads in ((False, (0, 1)), (True, (0, 3))):
        box = BlackBox(repeated(2, tile=tile), "bhld", lambda x: x, sharing=2)
        found = in_its_order(box, q, k)
        assert found.tiled == tile
        assert served(found, q, found.shared(k)) == heads


@pytest.mark.parametrize(
    ("attention", "cause"),
    [
        (at_start, "aligned-to-start"),
        (at_end, "aligned-to-end"),
        (roped, "aligned-to-start"),
        (flagged, "aligned-to-start"),
        (attend, None),
    ],
)
def test_to_which_end_queries_are_aligned_is_told_and_not_judged(attention, cause):
    audit = audited(attention)
    assert audit.verdict == "match"
    assert [c for _, _, c in of(audit, "alignment")] == ([cause] if cause else [])
    assert [(w, v) for w, v, _ in of(audit, "lengths")] == [
        ("1 query, 16 keys", "match"),
        ("5 queries, 16 keys", "match"),
        ("1 query, 272 keys", "match"),
    ]


def test_a_function_of_equal_lengths_says_so_once():
    assert of(audited(made_for_square), "lengths") == [
        ("1 query, 16 keys", "measured", "equal-lengths")
    ]


def test_a_factor_that_depends_on_the_number_of_queries_is_caught():
    audit = audited(by_queries)
    found = next(f for f in audit.findings if f.check == "lengths")
    assert (found.verdict, found.cause) == ("mismatch", "factor-by-queries")
    assert found.measured == pytest.approx(0.125 / (1 + np.log(16)), rel=1e-4)


def cut(q, k, v):
    return attend(q, k[..., : q.shape[-2], :], v[..., : q.shape[-2], :])


def by_ratio(q, k, v):
    return attend(q, k, v, k.shape[-2] / q.shape[-2])


def one_more_by_queries(q, k, v):
    more = np.zeros((*q.shape[:-1], k.shape[-2]), "f")
    more[..., 0] = max(16 - q.shape[-2], 0) / 16
    return softmax(q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5) + more) @ v


@pytest.mark.parametrize(
    ("attention", "cause"),
    [
        (cut, "keys-dropped"),
        (by_ratio, "factor-by-queries"),
        (one_more_by_queries, "other-lengths"),
    ],
)
def test_lengths_that_change_the_weights_are_caught(attention, cause):
    audit = audited(attention)
    assert {f.cause for f in audit.findings if f.verdict == "mismatch"} == {cause}


def test_a_window_made_for_equal_lengths_is_not_judged_at_others():
    def window(q, k, v):  # the mask of one query hides nothing
        n = q.shape[-2]
        i = np.arange(n)
        return attend(q, k, v, mask=np.abs(i[:, None] - i) < 4)

    audit = audited(window)
    assert audit.verdict == "match"
    assert of(audit, "lengths") == [("1 query, 16 keys", "measured", "equal-lengths")]


def test_what_two_sets_of_weights_have_in_common():
    x = np.random.default_rng(2).standard_normal((2, 3, 6))
    same = compared(softmax(x), softmax(x))
    assert (same.off, same.slope) == (0.0, pytest.approx(1.0, rel=1e-12))
    assert compared(softmax(2.5 * x), softmax(x)).slope == pytest.approx(2.5, rel=1e-12)
    hidden = softmax(np.where(np.arange(6) < 4, x, -np.inf))
    assert compared(hidden, softmax(x)).off == np.inf
    assert compared(np.eye(6)[None], np.eye(6)[None]).slope is None
    assert not compared(softmax(x[::-1]), softmax(x)).scaled(0.1)


def test_the_assertion_takes_fewer_heads_of_k():
    assert probe_factor(repeated(2), 64, n_heads=4, n_kv_heads=2).factor == pytest.approx(0.125)
    assert_logit_scale(repeated(tile=True), d_k=[32, 64], n_heads=4, n_kv_heads=1)
    with pytest.raises(AssertionError, match="measured factor 1"):
        assert_logit_scale(repeated(2, lambda *_: 8.0), n_heads=4, n_kv_heads=2)
    with pytest.raises(InputError, match="n_kv_heads must divide n_heads, got 3 with 4"):
        probe_factor(repeated(), 64, n_heads=4, n_kv_heads=3)


@pytest.mark.parametrize("few", [None, 1])
def test_a_function_of_one_query_at_a_time_is_audited_so(few):
    def decode(q, k, v):
        if q.shape[-2] != 1 or (few and k.shape[1] != few):
            raise ValueError("one query, please")
        return attend(q, k, v)

    audit = audited(decode)
    assert audit.verdict == "match"
    assert audit.facts["layout"].endswith(", one query at a time")
    assert audited(lambda q, k, v: decode(q / 8, k, v)).verdict == "mismatch"
