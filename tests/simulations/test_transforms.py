"""Transformed logits against float64 NumPy written from the definitions, and planted errors.

Every comparison of arrays is exact up to float32 rounding: with d products a logit is off by at
most (d + 16) eps sum |q_i k_i| times what the steps after it magnify. No test can alarm by chance
but those that say so.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import verify_variance as vv
from verify_variance.simulations import transforms as act
from verify_variance.simulations.jacobian import jacobian_statistics
from verify_variance.simulations.keys import block_words
from verify_variance.simulations.recipes import block_key, cell_words
from verify_variance.simulations.variants import variant_logits, variant_recipe
from verify_variance.simulations.vectors import draw_vectors
from verify_variance.stats.transforms.catalogue import TRANSFORMS
from verify_variance.stats.transforms.stacks import canonical_transform, draw_shape

SEED, ROWS, N, D = 3, 64, 6, 16
EPS = float(np.finfo(np.float32).eps)


def case_of(text, *, rows=True, **fields):
    fields = {"d_k": D, "n_keys": N if rows else None, "scale": "sqrt-dk"} | fields
    return vv.Case(transform=canonical_transform(text), **fields)


def fast(case, rows=ROWS):
    recipe, numbers = variant_recipe(case)
    words = (np.uint32(word) for word in block_words(0))
    key = jax.jit(block_key)(cell_words(case, SEED), *words)
    draw = jax.jit(variant_logits, static_argnums=(0, 3))
    return np.asarray(draw(recipe, key, numbers, rows), np.float64)


def vectors(case, rows=ROWS):
    """The very q [rows, 1, d] and k [rows, n, d] that were drawn, in float64."""
    q, k = draw_vectors(case, SEED, 0, rows, draw_shape(case)[1])
    return q.astype(float)[:, None, :], k.astype(float)


def rotated(v, position, planes=None):
    """Vectors turned by position base^(-2i/d) in plane i, as complex numbers."""
    d = v.shape[-1]
    z = v[..., ::2] + 1j * v[..., 1::2]
    theta = np.asarray(position)[..., None] * 10_000.0 ** (-2 * np.arange(d // 2) / d)
    turn = np.exp(1j * theta)
    if planes is not None:
        turn[..., planes:] = 1
    z = z * turn
    return np.stack([z.real, z.imag], -1).reshape(v.shape)


def rms(v):
    return v / np.sqrt((v**2).mean(-1, keepdims=True))


def layer(v, axis=-1):
    return (v - v.mean(axis, keepdims=True)) / v.std(axis, keepdims=True)


def unit(v):
    return v / np.sqrt((v**2).sum(-1, keepdims=True))


def dot(q, k):
    return (q * k).sum(-1)


def rope_by_positions(q, k, **how):
    """Query and keys turned by their own positions, key j 1 + j before the query."""
    query, n = 50, k.shape[1]
    return dot(rotated(q, np.full((1, 1), query), **how),
               rotated(k, query - 1 - np.arange(n)[None, :], **how))  # fmt: skip


SCALE = 1 / math.sqrt(D)
J = np.arange(N)
BY_DEFINITION = {
    "qk-rmsnorm": lambda q, k: dot(rms(q), rms(k)) * SCALE,
    "qk-layernorm": lambda q, k: dot(layer(q), layer(k)) * SCALE,
    "l2norm:10": lambda q, k: 10 * dot(unit(q), unit(k)) * SCALE,
    "rope": lambda q, k: rope_by_positions(q, k) * SCALE,
    "qk-rmsnorm+rope": lambda q, k: rope_by_positions(rms(q), rms(k)) * SCALE,
    "qk-layernorm+rope": lambda q, k: rope_by_positions(layer(q), layer(k)) * SCALE,
    "v-compensation": lambda q, k: dot(q, k),
    "locality:2": lambda q, k: dot(q, k) / np.where(J < 2, math.sqrt(D / 2), math.sqrt(D)),
    "score-layernorm": lambda q, k: layer(dot(q, k) * SCALE),
    "softcap:1": lambda q, k: np.tanh(dot(q, k) * SCALE),
    "clip:0.7": lambda q, k: np.clip(dot(q, k) * SCALE, -0.7, 0.7),
    "alibi:0.25": lambda q, k: dot(q, k) * SCALE - 0.25 * J,
    "row-constant:-1": lambda q, k: dot(q, k) * SCALE - 1,
    "top-k-position:4": lambda q, k: dot(q, k) * SCALE,
    "top-k:3": lambda q, k: np.sort(dot(q, k) * SCALE, -1)[:, :-4:-1],
    "softmax1": lambda q, k: np.pad(dot(q, k) * SCALE, ((0, 0), (0, 1))),
    "alibi+softcap:1": lambda q, k: np.tanh(dot(q, k) * SCALE) - 0.5 * J,
    "locality:3+clip:1+alibi+top-k:2": lambda q, k: np.sort(
        np.clip(dot(q, k) * SCALE * np.where(J < 3, math.sqrt(2), 1), -1, 1) - 0.5 * J, -1
    )[:, :-3:-1],
}


def allowed(case):
    q, k = vectors(case)
    size = dot(np.abs(q), np.abs(k)).max()
    magnified = 40 if "layernorm" in "".join(case.transform) else 4  # divided by a small spread
    return magnified * (D + 16) * EPS * size


@pytest.mark.parametrize("text", BY_DEFINITION)
@pytest.mark.parametrize("law", ["normal", "uniform"])
def test_the_logits_are_those_of_the_definition(text, law):
    case = case_of(text, elements_q=law, elements_k=law)
    assert np.abs(fast(case) - BY_DEFINITION[text](*vectors(case))).max() < allowed(case)


PLANTED = {
    "bias scaled with the logits": (
        "alibi:0.25",
        lambda q, k: (dot(q, k) - 0.25 * J) * SCALE,
    ),
    "cap after the bias": ("alibi+softcap:1", lambda q, k: np.tanh(dot(q, k) * SCALE - 0.5 * J)),
    "LayerNorm over the queries": (
        "score-layernorm",
        lambda q, k: layer(dot(q, k) * SCALE, axis=0),
    ),
    "LayerNorm without the mean": ("qk-layernorm", lambda q, k: dot(rms(q), rms(k)) * SCALE),
    "LayerNorm over the keys": ("qk-layernorm", lambda q, k: dot(layer(q), layer(k, 1)) * SCALE),
    "rope on half the dimensions": (
        "rope",
        lambda q, k: rope_by_positions(q, k, planes=D // 4) * SCALE,
    ),
    "rope the wrong way round": (
        "rope",
        lambda q, k: dot(q, rotated(k, 1 + J[None, :])) * SCALE,
    ),
    "local keys scaled down": (
        "locality:2",
        lambda q, k: dot(q, k) / np.where(J < 2, math.sqrt(2 * D), math.sqrt(D)),
    ),
    "the smallest kept": ("top-k:3", lambda q, k: np.sort(dot(q, k) * SCALE, -1)[:, :3]),
    "the cap on q.k before its scale": ("softcap:1", lambda q, k: np.tanh(dot(q, k)) * SCALE),
    "the norm after the rotation": (
        "qk-layernorm+rope",
        lambda q, k: dot(layer(rotated(q, np.full((1, 1), 50))),
                         layer(rotated(k, 49 - J[None, :]))) * SCALE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_seen(error):
    text, wrong = PLANTED[error]
    case = case_of(text)
    assert np.abs(fast(case) - wrong(*vectors(case))).max() > 100 * allowed(case)


def probabilities(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def statistics(p):
    """Statistics of rows from J itself."""
    j = p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :]
    safe = np.where(p > 0, p, 1)
    return {
        "max_prob": p.max(-1),
        "entropy": -(p * np.log(safe)).sum(-1),
        "sum_p2": (p**2).sum(-1),
        "jacobian_trace": np.trace(j, axis1=1, axis2=2),
        "jacobian_frobenius_sq": (j**2).sum((1, 2)),
        "jacobian_spectral": np.linalg.norm(j, 2, axis=(1, 2)),
    }


def off(x, p):
    """Largest gap between the statistics of logits x and those of probabilities p."""
    slow = statistics(p)
    found = jacobian_statistics(jnp.asarray(x, jnp.float32), 1.0, tuple(slow))
    return max(np.abs(np.asarray(found[name]) - slow[name]).max() for name in slow)


def test_softmax1_has_an_extra_one_in_the_denominator():
    """And not beside exponentials from which the largest logit was subtracted."""
    case = case_of("softmax1", scale="constant:2")
    x = fast(case)
    logits = x[:, :-1]
    right = np.exp(logits) / (1 + np.exp(logits).sum(-1, keepdims=True))
    nothing = 1 - right.sum(-1, keepdims=True)
    assert off(x, np.concatenate([right, nothing], -1)) < 1e-5
    moved = np.exp(logits - logits.max(-1, keepdims=True))
    wrong = moved / (1 + moved.sum(-1, keepdims=True))
    assert off(x, np.concatenate([wrong, 1 - wrong.sum(-1, keepdims=True)], -1)) > 0.1


def test_exp_of_x_minus_1_is_plain_softmax():
    case = case_of("row-constant:-1")
    q, k = vectors(case)
    assert off(fast(case), probabilities(dot(q, k) * SCALE)) < 1e-5


def test_the_mask_comes_after_the_cap():
    """A cap after the mask would give masked keys the logit -C, hence a probability."""
    case = case_of("softcap:1+causal")
    x = fast(case)
    q, k = vectors(case)
    seen = np.isfinite(x).sum(-1)
    assert set(seen) <= set(range(1, N + 1))
    masked = np.where(seen[:, None] > J, np.tanh(dot(q, k) * SCALE), -np.inf)
    assert off(x, probabilities(masked)) < 1e-5
    wrong = np.tanh(np.where(seen[:, None] > J, dot(q, k) * SCALE, -np.inf))
    assert off(x, probabilities(wrong)) > 0.1


def test_positions_are_uniform():
    """Each of 6 lengths in 60000 rows: |z| < 6, false alarm 1.2e-8."""
    rows = 60_000
    seen = np.isfinite(fast(case_of("causal", d_k=1), rows)).sum(-1)
    counts = np.bincount(seen, minlength=N + 1)[1:]
    assert np.abs(counts - rows / N).max() < 6 * math.sqrt(rows / N * (1 - 1 / N))


def test_a_layernorm_of_scores_is_a_temperature():
    x = np.random.default_rng(0).standard_normal((ROWS, N)) * 5 + 2
    normal = np.asarray(act.layer_normalised(jnp.asarray(x, jnp.float32)))
    assert off(normal, probabilities(x / x.std(-1, keepdims=True))) < 1e-5
    again = np.asarray(act.layer_normalised(jnp.asarray(7 * x - 3, jnp.float32)))
    assert np.abs(again - normal).max() < 1e-4
    assert not np.asarray(act.layer_normalised(jnp.ones((1, 4)))).any()


def test_a_logit_picked_from_its_row():
    """Pairs of a biased row are the row's logits, each key as often: |z| < 6, 1.2e-8."""
    rows = 4096
    case = case_of(f"alibi:100:{N}", rows=False)
    x = fast(case, rows)
    q, k = vectors(case, rows)
    every = dot(q, k) * SCALE - 100 * J
    key = np.rint(-x / 100).astype(int)
    assert np.abs(x - every[np.arange(rows), key]).max() < allowed(case) * 10
    counts = np.bincount(key, minlength=N)
    assert np.abs(counts - rows / N).max() < 6 * math.sqrt(rows / N)


def test_linear_attention_is_a_sum_over_values():
    """x is linear in v: its variance given q and k is |Q K'|^2; 5 standard errors, 6e-7."""
    rows = 20_000
    case = case_of(f"linear-attention:{N}", rows=False)
    x = fast(case, rows)
    q, k = vectors(case, rows)
    z = x / np.sqrt((dot(q, k) ** 2).sum(-1) / D)
    assert abs((z**2).mean() - 1) < 5 * math.sqrt(2 / rows)
    assert abs(z.mean()) < 5 / math.sqrt(rows)


@pytest.mark.parametrize("text", ["gqa:3", f"queries:3:{N}"])
def test_queries_share_their_keys(text):
    for rows_of in (True, False):
        case = case_of(text, rows=rows_of)
        queries, keys = draw_shape(case)
        x = fast(case)
        assert x.shape == (ROWS, queries, keys)
        q = draw_vectors(case, SEED, 0, ROWS * queries)[0].reshape(ROWS, queries, 1, D)
        k = draw_vectors(case, SEED, 0, ROWS * keys)[1].reshape(ROWS, 1, keys, D)
        assert np.abs(x - dot(q, k) * SCALE).max() < allowed(case_of("none"))


def test_vectors_without_direction_give_nothing():
    case = case_of("qk-rmsnorm", d_k=2, elements_q="sparse:0.1", elements_k="sparse:0.1")
    assert np.isfinite(fast(case)).all()


def test_odd_dimensions_and_float64():
    for text in ("qk-rmsnorm", "qk-layernorm"):
        case = case_of(text, d_k=5)
        slow = BY_DEFINITION[text](*vectors(case)) / SCALE / math.sqrt(5)
        assert np.abs(fast(case) - slow).max() < allowed(case)


ALL = [
    "none", "gqa:4", "queries:4", "qk-rmsnorm", "qk-layernorm", "l2norm", "rope", "v-compensation",
    "locality:4", "score-layernorm", "softcap:2", "clip:2", "alibi", "row-constant:-1", "causal",
    "top-k-position:8", "top-k:8", "softmax1", "linear-attention",
    "rope+softcap:2+causal",
]  # fmt: skip


def test_one_sweep_over_all_of_them():
    """Whole table: false alarm 1e-6."""
    names = {part.partition(":")[0] for text in ALL for part in text.split("+")}
    assert names - {"none"} == set(TRANSFORMS)
    how = {"dk": 16, "scale": "sqrt-dk", "samples": 20_000, "n_keys": 10}
    result = vv.verify(transform=ALL, quantities=["variance", "entropy"], **how)
    assert result.verdict == "match", result.table("plain")
    assert len(result.record["rows"]) == 2 * len(ALL) - 1  # no rows without softmax
    measured = {
        (row["transform"] or "").partition(":")[0]
        for row in result.record["rows"]
        if row["verdict"] == "measured"
    }
    assert measured == {"score-layernorm", "clip", "top-k"}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("qk-layernorm", {"transform": ("qk-rmsnorm",)}),  # 6.7 % at d = 16
        ("top-k:8:64", {"transform": ("top-k-position:8",)}),
        ("softcap:2", {"transform": ("clip:2",)}),
        ("locality:4:10", {"transform": ()}),
        ("linear-attention:10", {"transform": ("linear-attention:9",)}),
        ("alibi:0.5:10", {"transform": ("alibi:0.4:10",)}),
    ],
)
def test_the_theory_of_another_variant_is_a_mismatch(text, wrong):
    """The right theory is 4 standard errors off with probability 6e-5, the wrong one always."""
    from dataclasses import replace

    case = case_of(text, rows=False)
    row = vv.verify(
        dk=D, transform=text, quantities="variance", scale="sqrt-dk", samples=40_000
    ).record["rows"][0]
    assert abs(row["z"]) < 5
    value = vv.predict(replace(case, **wrong), "variance").value
    assert abs(row["estimate"] - value) > 5 * row["mcse"]


def test_the_design_effect_of_queries_on_the_same_keys():
    """The spread of the groups' mean squares is the theory's: 5 standard errors, 6e-7."""
    draws = 20_000
    for text in ("gqa:8", "queries:8:6"):
        row = vv.verify(dk=D, transform=text, quantities="variance", samples=draws).record["rows"][
            0
        ]
        sd = row["mcse"] * math.sqrt(draws)
        theory = vv.predict(case_of(text, rows=False, scale="none"), "variance").replicate_sd
        # a chi-square of few degrees of freedom, kurtosis below 15: Var(s)/s^2 < 17/(4 N)
        assert abs(sd / theory - 1) < 5 * math.sqrt(17 / (4 * draws))
        alone = (
            math.sqrt(2 + 6 / D) * D / math.sqrt(math.prod(draw_shape(case_of(text, rows=False))))
        )
        assert abs(sd / alone - 1) > 0.1
