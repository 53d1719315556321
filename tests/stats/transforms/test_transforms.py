"""Theory of transformed attention against outside truth: enumerations, closed forms, plain sums.

Nothing here is drawn but where a false-alarm rate is stated. Each closed form has a planted error.
"""

import json
import math

import numpy as np
import pytest
import verify_variance as vv
from verify_variance.stats.rows.logit_laws import RowLaw
from verify_variance.stats.rows.references import ROW_STATISTICS
from verify_variance.stats.rows.unlike_keys import Keys, unlike_moments
from verify_variance.stats.sampling_errors import design_effect
from verify_variance.stats.transforms.catalogue import STEPS, TRANSFORMS
from verify_variance.stats.transforms.stacks import (
    canonical_transform,
    draw_shape,
    parse_transform,
    with_length,
)


def predicted(text, quantity, **fields):
    case = vv.Case(transform=canonical_transform(text), **fields)
    return vv.predict(case, quantity)


def value(text, quantity, **fields):
    return predicted(text, quantity, **fields).value


# --- logits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "quantity", ["mean", "variance", "std", "skewness", "kurtosis", "mean_abs"]
)
def test_rope_leaves_the_law_of_normal_logits(quantity):
    assert value("rope:13", quantity) == vv.predict(vv.Case(), quantity).value


def test_rope_of_uniform_elements_has_another_kurtosis():
    """R035, d = 64 and distance 13; at distance 0 it is (1.8^2 - 3)/64."""
    both = {"elements_q": "uniform", "elements_k": "uniform"}
    assert value("rope:13", "variance", **both) == pytest.approx(64, rel=1e-14)
    assert value("rope:13", "kurtosis", **both) == pytest.approx(0.0006023525473544, rel=1e-12)
    assert value("rope:0", "kurtosis", **both) == pytest.approx((1.8**2 - 3) / 64, rel=1e-12)
    assert predicted("rope:13", "variance", **both).replicate_sd == pytest.approx(
        64 * math.sqrt(2 + 0.0006023525473544), rel=1e-12
    )


def test_norms_give_the_published_moments():
    """R033, R034: variance d and d^2/(d-1) exactly, excess kurtosis -6/(d+2) and -6/(d+1)."""
    assert value("qk-rmsnorm", "variance") == pytest.approx(64, rel=1e-14)
    assert value("qk-rmsnorm", "kurtosis") == pytest.approx(-0.090909090909091, rel=1e-12)
    assert value("qk-layernorm", "variance") == pytest.approx(65.015873015873, rel=1e-13)
    assert value("qk-layernorm", "kurtosis") == pytest.approx(-6 / 65, rel=1e-12)
    assert value("l2norm:10", "variance", scale="sqrt-dk") == pytest.approx(100 / 64**2, rel=1e-14)
    assert abs(value("qk-layernorm", "variance") - 64) > 1  # the dimension that the mean takes


@pytest.mark.parametrize("norm", ["qk-rmsnorm", "qk-layernorm"])
def test_norms_of_any_symmetric_law_by_enumeration(norm):
    """Signs at d = 3 by all 64 pairs of vectors; LayerNorm leaves (1, 1, 1) no direction."""
    signs = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], float)
    if norm == "qk-layernorm":
        reference = predicted(norm, "variance", d_k=3, elements_q="rademacher",
                              elements_k="rademacher")  # fmt: skip
        assert reference.kind == "none"
        return
    vectors = signs / np.sqrt((signs**2).mean(1, keepdims=True))
    both = {"d_k": 3, "elements_q": "rademacher", "elements_k": "uniform"}
    weights = (vectors @ vectors.T) ** 2
    assert value(norm, "variance", **both) == pytest.approx(weights.mean(), rel=1e-13)


def test_normalised_laplace_vectors_against_draws():
    """Variance d^2/(d-1) = 16/3 for any law: 5 standard errors of 2e5 draws, false alarm 6e-7."""
    rng = np.random.default_rng(5)
    q, k = (v - v.mean(1, keepdims=True) for v in rng.laplace(size=(2, 200_000, 4)))
    q, k = (v / v.std(1, keepdims=True) for v in (q, k))
    x = (q * k).sum(1)
    both = {"d_k": 4, "elements_q": "laplace", "elements_k": "laplace"}
    error = (x**2).std() / math.sqrt(x.size)
    assert abs((x**2).mean() - value("qk-layernorm", "variance", **both)) < 5 * error
    assert abs((x**2).mean() - 4) > 5 * error


def test_top_k_by_score_and_by_position():
    """14.98, the variance about their own mean of the 8 largest of 64 logits at d = 64."""
    assert value("top-k:8:64", "variance") == pytest.approx(14.98113389, rel=1e-9)
    assert value("top-k:8:64", "mean") == pytest.approx(12.8645383607, rel=1e-9)
    assert value("top-k-position:8", "variance") == 64
    # without its mean the second moment is no variance, and it is above 64
    assert value("top-k:8:64", "mean") ** 2 + 14.98113389 == pytest.approx(180.477, rel=1e-4)
    for quantity in ("variance", "kurtosis", "mean"):
        whole = vv.predict(vv.Case(), quantity).value
        assert value("top-k:5:5", quantity) == pytest.approx(whole, rel=1e-10, abs=1e-12)


def test_the_largest_of_two_on_spheres():
    """q of norm sqrt(d) makes rows iid: E max of two normals is 1/sqrt(pi); 4 times it."""
    assert value("top-k:1:2", "mean", d_k=16, elements_q="sphere") == pytest.approx(
        4 / math.sqrt(math.pi), rel=1e-12
    )
    assert value("top-k:1:2", "variance", d_k=16, elements_q="sphere") == pytest.approx(
        16 * (1 - 1 / math.pi), rel=1e-12
    )


def test_normalised_scores_are_a_cosine():
    """n = 2 gives +-1; n = 3 sqrt(2) cos of a uniform angle: kurtosis 3/2 and E|x| 2 sqrt(2)/pi."""
    known = {
        "score-layernorm:2": (1.0, 1.0),
        "score-layernorm:3": (1.5, 2 * math.sqrt(2) / math.pi),
    }
    for text, (kurtosis, absolute) in known.items():
        assert value(text, "variance") == pytest.approx(1, rel=1e-13)
        assert value(text, "kurtosis") == pytest.approx(kurtosis - 3, rel=1e-12)
        assert value(text, "mean_abs") == pytest.approx(absolute, rel=1e-12)
    assert value("score-layernorm:10", "variance", scale="sqrt-dk") == pytest.approx(1, rel=1e-13)


def capped_by_plain_sums(d, factor, g, r):
    """E |g(|q| z)|^r over a fine grid of |q| and z."""
    from scipy.special import gammaln

    rho, z = np.linspace(1e-6, math.sqrt(d) + 9, 1201), np.linspace(0, 10, 4001)
    log_chi = (d - 1) * np.log(rho) - rho**2 / 2 - (d / 2 - 1) * math.log(2) - gammaln(d / 2)
    inner = np.array([np.trapezoid(np.abs(g(factor * p * z)) ** r * np.exp(-z * z / 2), z)
                      for p in rho])  # fmt: skip
    return np.trapezoid(np.exp(log_chi) * inner, rho) * 2 / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("d", [1, 16])
@pytest.mark.parametrize("cap", [0.5, 3.0])
def test_capped_logits_by_plain_sums(d, cap):
    """Trapezoid sums with steps h have errors of h^2 / 12 times second derivatives: below 1e-5."""
    for name, g in (("softcap", lambda x: cap * np.tanh(x / cap)),
                    ("clip", lambda x: np.clip(x, -cap, cap))):  # fmt: skip
        text = f"{name}:{cap}"
        square, fourth = (capped_by_plain_sums(d, d**-0.5, g, r) for r in (2, 4))
        how = {"d_k": d, "scale": "sqrt-dk"}
        assert value(text, "variance", **how) == pytest.approx(square, rel=3e-5)
        assert value(text, "kurtosis", **how) + 3 == pytest.approx(fourth / square**2, rel=3e-5)
        absolute = capped_by_plain_sums(d, d**-0.5, g, 1)
        assert value(text, "mean_abs", **how) == pytest.approx(absolute, rel=3e-5)
        # the cap before the scale: another law
        wrong = capped_by_plain_sums(d, 1.0, g, 2) / d
        assert d == 1 or abs(wrong / square - 1) > 0.01


def test_a_high_cap_is_no_cap():
    for text in ("softcap:1000000", "clip:1000000"):
        for quantity in ("variance", "kurtosis", "mean_abs"):
            plain = vv.predict(vv.Case(d_k=8), quantity)
            found = predicted(text, quantity, d_k=8)
            assert found.value == pytest.approx(plain.value, rel=1e-9)
            assert found.replicate_sd == pytest.approx(plain.replicate_sd, rel=1e-8)


def test_biases_and_local_scales_mix():
    """Var = s^2 (1 + W/N) and s^2 + SLOPE^2 (N^2 - 1)/12: laws of total variance."""
    assert value("locality:4:10", "variance") == pytest.approx(64 * 1.4, rel=1e-13)
    assert value("alibi:0.5:10", "variance") == pytest.approx(64 + 99 / 48, rel=1e-13)
    assert value("alibi:0.5:10", "mean") == pytest.approx(-2.25, rel=1e-14)
    # the slope is not scaled with the logits
    scaled = value("alibi:0.5:10", "variance", scale="sqrt-dk")
    assert scaled == pytest.approx(1 + 99 / 48, rel=1e-13)
    assert abs(scaled - (64 + 99 / 48) / 64) > 0.1
    # third moment of a symmetric mixture, and a fourth by hand: x = 0 with d_k = 1 signs, N = 2
    signs = {"d_k": 1, "elements_q": "rademacher", "elements_k": "rademacher"}
    four = np.array([1, -1, 1 - 3, -1 - 3], float)
    four -= four.mean()
    kurtosis = (four**4).mean() / (four**2).mean() ** 2 - 3
    assert value("alibi:3:2", "kurtosis", **signs) == pytest.approx(kurtosis, rel=1e-13)


def test_linear_attention_leaves_n():
    """N = d = 1 is the product of three normals, kurtosis 27; 1/sqrt(d) leaves the variance N."""
    assert value("linear-attention:1", "kurtosis", d_k=1) == pytest.approx(24, rel=1e-13)
    assert value("linear-attention:1", "mean_abs", d_k=1) == pytest.approx((2 / math.pi) ** 1.5)
    assert value("linear-attention:32", "variance", scale="sqrt-dk") == pytest.approx(32)
    third = predicted("linear-attention:1", "mean_abs", d_k=1).replicate_skew
    square, first, cube = 1.0, (2 / math.pi) ** 1.5, (2 * math.sqrt(2 / math.pi)) ** 3
    sd = math.sqrt(square - first**2)
    assert third == pytest.approx((cube - 3 * first * square + 2 * first**3) / sd**3, rel=1e-12)


def test_what_leaves_a_logit_alone():
    for text in ("causal", "softmax1", "top-k-position:3", "none"):
        for quantity in ("variance", "kurtosis"):
            assert value(text, quantity) == vv.predict(vv.Case(), quantity).value
    assert value("row-constant:5", "mean") == 5
    assert value("row-constant:5", "variance") == 64
    assert value("v-compensation", "variance", scale="sqrt-dk") == 64


def test_design_effects_of_shared_keys():
    """R042's formula: groups of G on one key, matrices of M x N; the mean has none."""
    sd = 64 * math.sqrt(2 + 6 / 64)
    for text, m, n in (("gqa:8", 8, 1), ("queries:4:10", 4, 10)):
        found = predicted(text, "variance").replicate_sd
        assert found == pytest.approx(sd * math.sqrt(design_effect(m, n, 64) / (m * n)), rel=1e-13)
        assert abs(found / (sd / math.sqrt(m * n)) - 1) > 0.04  # pooled as if independent
        assert predicted(text, "mean").replicate_sd == pytest.approx(8 / math.sqrt(m * n))
    assert predicted("queries:64:64", "variance", d_k=16).replicate_sd == pytest.approx(
        16 * math.sqrt(2 + 6 / 16) * math.sqrt(7.6315789473684) / 64, rel=1e-12
    )


# --- rows ---------------------------------------------------------------------------------------


def two_keys(spread, bias=0.0, f=lambda p: p**2 + (1 - p) ** 2):
    """E f(p) of p = 1/(1 + exp(-(spread z + bias))), by a trapezoid rule of step 1/200."""
    z = np.arange(-2000, 2001) / 200
    p = 1 / (1 + np.exp(-(spread * z + bias)))
    return float((f(p) * np.exp(-z * z / 2)).sum() / 200 / math.sqrt(2 * math.pi))


def entropy_of_two(p):
    return -sum(x * np.log(np.maximum(x, 1e-300)) for x in (p, 1 - p))


STATISTICS = {
    "sum_p2": lambda p: p**2 + (1 - p) ** 2,
    "jacobian_trace": lambda p: 2 * p * (1 - p),
    "jacobian_frobenius_sq": lambda p: 4 * (p * (1 - p)) ** 2,
    "entropy": entropy_of_two,
    "entropy^2": lambda p: entropy_of_two(p) ** 2,
    "sum_p2^2": lambda p: (p**2 + (1 - p) ** 2) ** 2,
    "sum_p2^3": lambda p: (p**2 + (1 - p) ** 2) ** 3,
}


@pytest.mark.parametrize("std", [0.3, 1.0, 6.0])
def test_two_unlike_keys_are_one_normal_gap(std):
    """Keys f_1 x and f_2 x - 1.5: their gap is normal. And one key with a sink (logit 0)."""
    cases = [
        (Keys(np.array([math.sqrt(2), 1.0]), np.array([0.0, -1.5]), 1.5, False), math.sqrt(3), 1.5),
        (Keys(np.ones(2), np.array([0.0, -0.5]), 0.5, False), math.sqrt(2), 0.5),
        (Keys(np.ones(1), np.zeros(1), 0.0, True), 1.0, 0.0),
    ]
    for keys, spread, bias in cases:
        found = unlike_moments(RowLaw(std), keys)
        for name, f in STATISTICS.items():
            assert found[name] == pytest.approx(two_keys(std * spread, bias, f), rel=1e-11), name
            planted = two_keys(std * spread, 2 * bias + 0.5, f)
            assert abs(planted / found[name] - 1) > 1e-4


def test_three_unlike_keys_by_a_plain_double_sum():
    z = np.arange(-170, 171) / 20
    w = np.exp(-z * z / 2) / 20 / math.sqrt(2 * math.pi)
    e = [np.exp(1.2 * math.sqrt(2) * z)[:, None], np.exp(1.2 * z - 0.4)[None, :], 1.0]
    total = e[0] + e[1] + 1
    p = [part / total for part in e]
    square = sum(part**2 for part in p)
    truth = {
        "sum_p2": square,
        "sum_p2^2": square**2,
        "sum_p2^3": square**3,
        "jacobian_trace": 1 - square,
        "jacobian_frobenius_sq": square - 2 * sum(part**3 for part in p) + square**2,
        "entropy": -sum(part * np.log(part) for part in p),
    }
    keys = Keys(np.array([math.sqrt(2), 1.0]), np.array([0.0, -0.4]), 0.4, True)
    found = unlike_moments(RowLaw(1.2), keys)
    for name, values in truth.items():
        assert found[name] == pytest.approx(float(w @ values @ w), rel=1e-10), name


@pytest.mark.parametrize(("std", "cap"), [(1.0, 0.7), (3.0, 2.0), (0.5, 50.0)])
def test_two_and_three_capped_keys_by_plain_sums(std, cap):
    z = np.arange(-360, 361) / 40
    w = np.exp(-z * z / 2) / 40 / math.sqrt(2 * math.pi)
    e = np.exp(cap * np.tanh(std * z / cap))
    law = RowLaw(std, base="capped", cap=cap)
    p = e[:, None] / (e[:, None] + e)
    truth = {
        "max_prob": np.maximum(p, 1 - p),
        "sum_p2": p**2 + (1 - p) ** 2,
        "entropy": entropy_of_two(p),
        "jacobian_frobenius_sq": 4 * (p * (1 - p)) ** 2,
    }
    for name, values in truth.items():
        allowed = 1e-3 if name == "max_prob" else 1e-10  # a kink at ties
        found = ROW_STATISTICS[name](law, 2)
        assert found.value == pytest.approx(float(w @ values @ w), rel=allowed), name
    e, w = e[::5], 5 * w[::5]  # step 1/8 is enough for three
    q = (e[:, None, None] / (e[:, None, None] + e[:, None] + e)) ** 2
    three = float(np.einsum("ijk,i,j,k", q, w, w, w))
    assert ROW_STATISTICS["sum_p2"](law, 3).value == pytest.approx(3 * three, rel=1e-10)
    plain = ROW_STATISTICS["sum_p2"](RowLaw(std), 3).value
    assert cap == 50 or abs(plain / (3 * three) - 1) > 0.01


def test_a_high_cap_gives_the_plain_rows():
    for name in ("max_prob", "second_prob", "entropy", "sum_p2", "jacobian_trace"):
        plain = ROW_STATISTICS[name](RowLaw(1.3), 20)
        capped = ROW_STATISTICS[name](RowLaw(1.3, base="capped", cap=1e6), 20)
        assert capped.value == pytest.approx(plain.value, rel=1e-11), name
        assert capped.replicate_sd == pytest.approx(plain.replicate_sd, rel=1e-9), name


def test_saturated_share_of_two_capped_keys():
    """Saturated where the gap exceeds log 99: both caps reached within C - log(99)/2 at least."""
    z = np.arange(-8000, 8001) / 1000
    w = np.exp(-z * z / 2) / 1000 / math.sqrt(2 * math.pi)
    x = 4 * np.tanh(6 * z / 4)
    below = np.searchsorted(x, x - math.log(99), side="right")
    share = 2 * float(w @ np.concatenate([[0.0], np.cumsum(w)])[below])
    found = ROW_STATISTICS["saturated"](RowLaw(6.0, base="capped", cap=4.0), 2).value
    low, high = found if isinstance(found, tuple) else (found, found)
    assert low == pytest.approx(high)
    assert low == pytest.approx(share, rel=5e-3)


def test_rows_that_are_plain_rows():
    how = {"n_keys": 12, "scale": "sqrt-dk"}
    for quantity in ("entropy", "max_prob", "jacobian_spectral"):
        plain = vv.predict(vv.Case(**how), quantity)
        for text in ("rope", "row-constant:-1", "gqa:4"):
            found = predicted(text, quantity, **how)
            assert found.value == plain.value
        assert predicted("gqa:4", quantity, **how).replicate_sd is None
        unscaled = vv.predict(vv.Case(n_keys=12), quantity).value
        assert value("v-compensation", quantity, **how) == unscaled
        fewer = vv.predict(vv.Case(n_keys=5, scale="sqrt-dk"), quantity).value
        assert value("top-k-position:5", quantity, **how) == fewer
        sphere = vv.Case(elements_q="sphere", elements_k="sphere", **how)
        assert value("qk-rmsnorm", quantity, **how) == vv.predict(sphere, quantity).value


def test_dividing_by_the_root_of_k_is_sharper():
    """Of 8 keys kept, sqrt(8) is a smaller divisor than sqrt(64): fewer effective keys."""
    how = {"n_keys": 64}
    by_d, by_k = (value("top-k-position:8", "entropy", scale=scale, **how)
                  for scale in ("sqrt-dk", f"constant:{math.sqrt(8)}"))  # fmt: skip
    assert math.exp(by_k) < 3.3 < 5.6 < math.exp(by_d)


def test_a_causal_row_is_the_mean_over_positions():
    rows = [vv.predict(vv.Case(n_keys=t, scale="sqrt-dk"), "entropy") for t in (1, 2, 3, 4)]
    found = predicted("causal", "entropy", n_keys=4, scale="sqrt-dk")
    mean = np.mean([row.value for row in rows])
    assert found.value == pytest.approx(mean, rel=1e-13)
    square = np.mean([(row.replicate_sd or 0) ** 2 + row.value**2 for row in rows])
    assert found.replicate_sd == pytest.approx(math.sqrt(square - mean**2), rel=1e-12)
    assert abs(found.value / rows[-1].value - 1) > 0.3  # as if every query saw all keys
    share = predicted("causal", "saturated", n_keys=4, scale="sqrt-dk").value
    assert share == pytest.approx(0.25, abs=0.01)  # a query alone has p = 1
    assert predicted("causal", "entropy", n_keys=1000).kind == "none"


@pytest.mark.parametrize(
    ("text", "quantity"),
    [
        ("top-k:3", "entropy"),
        ("score-layernorm", "entropy"),
        ("clip:1", "entropy"),
        ("alibi", "max_prob"),
        ("softcap:2+alibi", "entropy"),
    ],
)
def test_where_there_is_no_theory_there_is_a_reason(text, quantity):
    found = predicted(text, quantity, n_keys=8)
    assert (found.kind, found.value) == ("none", None)
    assert found.assumptions


# --- names --------------------------------------------------------------------------------------


def test_order_and_spelling():
    assert canonical_transform("causal+softcap:50.0+alibi+qk-rmsnorm+rope") == (
        "qk-rmsnorm", "rope:1", "softcap:50", "alibi:0.5", "causal",
    )  # fmt: skip
    assert {t.step for t in TRANSFORMS.values()} == set(STEPS)
    order = [STEPS.index(t) for t in ("cap", "bias", "mask", "selection", "softmax")]
    assert order == sorted(order)
    for name, transform in TRANSFORMS.items():
        assert transform.formula
        assert transform.theory
        assert transform.source, name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ropes", "did you mean rope"),
        ("softcap", "needs its cap"),
        ("softcap:0", "from 0.1"),
        ("top-k:0", "must be a positive integer"),
        ("rope:1:2", "takes rope:M"),
        ("causal:3", "takes no parameter"),
        ("softcap:2+clip:2", "one cap step"),
        ("rope+rope:2", "twice"),
    ],
)
def test_wrong_names_are_explained(text, message):
    with pytest.raises(vv.InputError, match=message):
        canonical_transform(text)


@pytest.mark.parametrize(
    ("text", "fields", "message"),
    [
        ("rope", {"d_k": 3}, "even d_k"),
        ("rope", {"mean_q": 1.0}, "mean_q must be 0"),
        ("rope", {"d_k": None, "logit_std": 1.0, "n_keys": 3}, "acts on q and k"),
        ("causal", {"weights": "lecun-normal", "d_model": 128}, "drop --weights"),
        ("softcap:2", {"dtype": "float16"}, "half precision"),
        ("top-k:9", {"n_keys": 8}, "keeps 9 of 8"),
        ("top-k-position:3+top-k:4", {"n_keys": 8}, "keeps 4 of 3"),
        ("linear-attention", {"n_keys": 8}, "no softmax"),
        ("alibi", {}, "give --n-keys"),
        ("alibi:0.5:4+top-k:2:5", {}, "lengths must agree"),
        ("qk-layernorm", {"d_k": 1}, "at least 2"),
    ],
)
def test_what_does_not_go_together_is_refused(text, fields, message):
    case = vv.Case(transform=canonical_transform(text), **fields)
    quantity = "entropy" if case.n_keys else "variance"
    with pytest.raises(vv.InputError, match=message):
        vv.predict(case, quantity)


def test_quantities_that_a_group_or_a_transform_has_not():
    for text, quantity in (("gqa:4", "kurtosis"), ("rope", "law"), ("queries:2:3", "skewness")):
        with pytest.raises(vv.InputError, match="ask for"):
            predicted(text, quantity)


def test_lengths_follow_the_row():
    assert with_length(("alibi:0.5", "top-k:2"), 9, False) == ("alibi:0.5:9", "top-k:2:9")
    assert with_length(("alibi:0.5:9",), 9, True) == ("alibi:0.5",)
    with pytest.raises(vv.InputError, match="must be n_keys = 9"):
        with_length(("alibi:0.5:8",), 9, True)
    assert parse_transform("alibi:0.25:7") == ("alibi", (0.25, 7))
    assert draw_shape(vv.Case(n_keys=7, transform=("gqa:4",))) == (4, 7)


def test_a_case_without_transforms_keeps_its_cell():
    plain = vv.Case(d_k=64, scale="sqrt-dk")
    assert "transform" not in json.loads(plain.cell().canonical())
    scaled = vv.Case(d_k=64, scale="sqrt-dk", transform=("softcap:2",))
    assert scaled.cell().scale == "sqrt-dk"  # a cap does not scale
