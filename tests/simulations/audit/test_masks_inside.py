"""Masks that a function has of its own: what a query sees is told, one later key alone is wrong.

Nothing is drawn but the inputs, and those from a fixed seed: only rounding errs.
"""

import numpy as np
import pytest
import verify_variance as vv


def masked(hidden):
    """Attention where hidden(key - query) is left out."""

    def attention(q, k, v):
        ahead = np.arange(k.shape[-2]) - np.arange(q.shape[-2])[:, None]
        x = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
        x = np.where(hidden(ahead), -np.inf, x)
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

    return attention


def seen(attention):
    audit = vv.audit(attention, dk=[40, 64], dtype="float32")
    return audit.verdict, [f for f in audit.record["rows"] if f["check"] == "keys seen"]


@pytest.mark.parametrize(
    ("hidden", "said", "cause"),
    [
        (lambda a: a > 0, "query i sees keys 0 to i.", "causal"),
        (lambda a: (a > 0) | (a < -15), "query i sees keys i-15 to i.", "window"),
        (lambda a: abs(a) > 8, "query i sees keys i-8 to i+8.", "window"),
        (lambda a: (a > 0) | ((a < 0) & (a % 2 == 1)), "in no band.", "mask"),
    ],
)
def test_what_a_query_sees_is_told(hidden, said, cause):
    verdict, rows = seen(masked(hidden))
    assert verdict == "match"
    assert [(row["verdict"], row["cause"]) for row in rows] == [("measured", cause)]
    assert said in rows[0]["said"]


def test_a_causal_mask_that_leaks_the_next_key_is_caught():
    verdict, rows = seen(masked(lambda ahead: ahead > 1))
    assert verdict == "mismatch"
    assert rows[0]["cause"] == "causal-off-by-one"


def test_without_a_mask_nothing_is_said():
    assert seen(masked(lambda ahead: ahead > 1000)) == ("match", [])


def test_arguments_that_are_not_looked_at_are_named():
    def attention(q, k, v, sinks=None, is_causal=False, **more):
        return masked(lambda a: is_causal & (a > 0))(q, k, v)

    audit = vv.audit(attention, dk=[40, 64], dtype="float32")
    assert audit.verdict == "match"
    (row,) = (row for row in audit.record["rows"] if row["cause"] == "unknown-arguments")
    assert row["said"].endswith(": sinks=.")


@pytest.mark.parametrize("slope", [0.5, -0.5, 4.0])
def test_keys_whose_weights_vanish_by_a_bias_are_not_taken_for_dropped(slope):
    def attention(q, k, v):
        x = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
        x = x - np.float32(slope) * np.arange(k.shape[-2], dtype="f")
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

    verdict, rows = seen(attention)
    assert verdict == "match"
    assert rows == []
