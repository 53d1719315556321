"""References of logits and rows that come out of weights, against tables, exact moments and draws.

Draws here are NumPy's own; each comparison has a false-alarm rate of 1e-8.
"""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import special
from verify_variance.reports.catalogue import entries
from verify_variance.reports.theory import planned, predicted
from verify_variance.stats.cases import Case
from verify_variance.stats.checks import InputError
from verify_variance.stats.laws.logit_moments import logit_moments
from verify_variance.stats.laws.mean_absolute import absolute_logit
from verify_variance.stats.logits import logit_reference
from verify_variance.stats.planning import elements_per_draw
from verify_variance.stats.predict import predict
from verify_variance.stats.request import CaseOptions, DecisionOptions
from verify_variance.stats.requested import requested_rows
from verify_variance.stats.run import Run
from verify_variance.stats.weights.fixed import fixed_logit_moments
from verify_variance.stats.weights.layers import layer_of
from verify_variance.stats.weights.schemes import (
    WEIGHTS,
    canonical_weights,
    default_scale,
    parse_weights,
)
from verify_variance.stats.weights.tokens import TOKENS, fourth_powers, norm_moment, squared_product

LIMIT = -special.ndtri(5e-9)


def through(weights, d_k=64, d_model=512, **more):
    return Case(d_k=d_k, d_model=d_model, weights=weights, **{"scale": "none"} | more)


# --- the table: sd of the logit under the scale that goes with the initialisation

TABLE = [
    ("lecun-uniform", 512, 64, 1),
    ("xavier-uniform", 512, 64, 1),
    ("xavier-normal", 128, 32, 1),
    ("xavier-head-normal", 128, 32, 1.6),
    ("xavier-head-uniform", 512, 64, 16 / 9),
    ("xavier-packed-uniform", 512, 64, 1 / 2),
    ("torch-linear", 512, 64, 1 / 3),
    ("he-normal", 512, 64, 2),
    ("normal:0.02", 768, 64, 0.3072),
    ("bert", 768, 64, 0.3072 * 0.7737413),
    ("lecun-truncated", 768, 64, 1),
    ("lecun-truncated-raw", 768, 64, 0.7737413),
    ("t5", 512, 64, 1),
    ("mup", 512, 64, 1 / 8),
    ("orthogonal", 512, 64, 1),
]


@pytest.mark.parametrize(("weights", "d_model", "d_k", "sd"), TABLE)
def test_table_of_initialisations(weights, d_model, d_k, sd):
    case = through(weights, d_k, d_model, scale=default_scale(weights))
    assert predict(case, "std").value == pytest.approx(sd, rel=5e-8)
    doubled = replace(case, d_model=2 * d_model)  # a wrong fan-in is seen
    if not weights.startswith(("normal", "bert")):
        return
    assert predict(doubled, "std").value == pytest.approx(2 * sd, rel=5e-8)


def test_the_table_as_a_user_asks_for_it():
    names = ("lecun-normal", "xavier-uniform", "torch-linear", "he-normal", "t5")
    options = CaseOptions(dk=("64",), quantities=("std",), weights=names, d_model=("512",))
    rows = predicted(options).record["rows"]
    assert [row["theory"] for row in rows] == pytest.approx([1, 1, 1 / 3, 2, 1], rel=1e-14)
    assert [row["scale"] for row in rows] == ["sqrt-dk"] * 4 + ["none"]
    assert [row["weights"] for row in rows] == list(names)
    assert {row["ensemble"] for row in rows} == {"fresh weights"}
    assert rows[0]["elements"] is None
    assert rows[0]["parameters"] == {
        "d_model": 512, "tokens": "layernorm", "pair": "off-diagonal"
    }  # fmt: skip


def test_heads_count_in_the_fan_out_of_a_layer():
    per_head = through("xavier-normal", heads=1)
    assert layer_of(per_head).variance_q == layer_of(through("xavier-head-normal")).variance_q
    assert layer_of(through("xavier-normal", heads=8)).variance_k == 1 / 512
    assert layer_of(through("xavier-normal", heads=2)).variance_q == 2 / (512 + 128)


def test_normal_weights_and_normed_tokens_are_a_dot_product_of_normals():
    case = through("t5", d_k=7, d_model=12, tokens="rmsnorm")
    layer = layer_of(case)
    sigma_q, sigma_k = math.sqrt(layer.variance_q * 12), math.sqrt(layer.variance_k * 12)
    plain = Case(d_k=7, sigma_q=sigma_q, sigma_k=sigma_k)
    for quantity in ("variance", "std", "mean", "skewness", "kurtosis", "mean_abs"):
        ours, same = (logit_reference(c, quantity, 0.3) for c in (case, plain))
        assert ours.value == pytest.approx(same.value, rel=1e-13)
        assert ours.replicate_sd == pytest.approx(same.replicate_sd, rel=1e-13)
        assert ours.replicate_skew == pytest.approx(same.replicate_skew, rel=1e-12, abs=1e-12)


def test_tied_normal_weights_on_the_diagonal_are_a_chi_square():
    case = through("tied:normal:0.5", d_k=6, d_model=9, tokens="rmsnorm", pair="diagonal")
    sigma = 0.5 * 3
    plain = Case(d_k=6, sigma_q=sigma, sigma_k=sigma, correlation=1.0)
    ours, same = logit_moments(case), logit_moments(plain)
    assert (ours.mean, ours.std) == pytest.approx((same.mean, same.std), rel=1e-14)
    assert ours.standardised == pytest.approx(same.standardised, rel=1e-12)
    assert absolute_logit(case).first == pytest.approx(ours.mean, rel=1e-14)


@pytest.mark.parametrize(("d", "total"), [(1, 2), (4, 8), (64, 512)])
def test_normal_tokens(d, total):
    """Variance and fourth moments as in the table: off-diagonal, diagonal, tied."""
    case = through(f"normal:{1 / math.sqrt(total)!r}", d, total, tokens="normal")
    off, on = (predict(replace(case, pair=p), "variance") for p in ("off-diagonal", "diagonal"))
    assert off.value == pytest.approx(d, rel=1e-12)
    assert on.value == pytest.approx(d * (1 + 2 / total), rel=1e-12)
    kurtosis = (3 + 6 / d) * (1 + 2 / total) ** 2
    assert predict(case, "kurtosis").value == pytest.approx(kurtosis - 3, rel=1e-12)
    assert off.replicate_sd == pytest.approx(off.value * math.sqrt(kurtosis - 1), rel=1e-12)
    # E |x|^8 / (E |x|^4)^2
    norms = (total + 4) * (total + 6) / (total * (total + 2))
    on_kurtosis = predict(replace(case, pair="diagonal"), "kurtosis").value
    assert on_kurtosis + 3 == pytest.approx((3 + 6 / d) * norms, rel=1e-12)
    tied = replace(case, weights=f"tied:{case.weights}", pair="diagonal")
    assert predict(tied, "mean").value == pytest.approx(d, rel=1e-12)
    both = (1 + 2 / d) * (1 + 2 / total) - 1  # relative variance of chi2_d chi2_D
    assert predict(tied, "variance").value == pytest.approx(d**2 * both, rel=1e-12)


def test_orthonormal_rows():
    """Square: x'Q'Ry of a rotation, so the law of |x||y| cos; normal tokens stay normal."""
    case = through("orthogonal", 3, 8, tokens="normal")
    plain = Case(d_k=3)
    rotated = through("orthogonal", 6, 6, tokens="rmsnorm")
    spheres = Case(d_k=6, elements_q="sphere", elements_k="sphere")
    for c, same in ((case, plain), (rotated, spheres)):
        ours, theirs = logit_moments(c), logit_moments(same)
        assert ours.std == pytest.approx(theirs.std, rel=1e-14)
        assert ours.standardised == pytest.approx(theirs.standardised, rel=1e-12)
        ours, theirs = absolute_logit(c), absolute_logit(same)
        assert (ours.first, ours.third) == pytest.approx((theirs.first, theirs.third), rel=1e-13)
    assert logit_moments(through("orthogonal", 3, 8)).standardised[4] < 3 + 6 / 3


@pytest.mark.parametrize("tokens", ["rmsnorm", "normal"])
def test_tied_weights_and_two_tokens_of_two_dimensions(tokens):
    """The angle is uniform, and given it q_i, k_i are correlated normals: a trapezoid sum."""
    case = through("tied:normal:1", 3, 2, tokens=tokens)
    raw = np.zeros(13)
    angles = np.arange(32) * math.pi / 16 + 0.05
    for angle in angles:
        given = logit_moments(Case(d_k=3, correlation=math.cos(angle)))
        central = [m * given.std**r for r, m in enumerate(given.standardised)]
        for r in range(13):
            terms = (math.comb(r, j) * given.mean ** (r - j) * central[j] for j in range(r + 1))
            raw[r] += sum(terms) / angles.size
    norms = [2.0**r if tokens == "rmsnorm" else math.gamma(1 + r / 2) ** 2 * 2**r
             for r in range(13)]  # fmt: skip
    ours = logit_moments(case)
    assert ours.std**2 == pytest.approx(raw[2] * norms[2], rel=1e-12)
    exact = [raw[r] * norms[r] / (raw[2] * norms[2]) ** (r / 2) for r in range(0, 13, 2)]
    assert ours.standardised[::2] == pytest.approx(exact, rel=1e-11)
    assert not any(ours.standardised[1::2])


# --- tokens and weights against draws

SIZE = 200_000


def draw_tokens(rng, tokens, n, total):
    x = rng.standard_normal((n, total))
    if tokens == "layernorm":
        x -= x.mean(axis=1, keepdims=True)
    if tokens != "normal":
        x *= math.sqrt(total) / np.linalg.norm(x, axis=1, keepdims=True)
    return x


def draw_weights(rng, name, n, d, total):
    if name == "orthogonal":
        q, r = np.linalg.qr(rng.standard_normal((n, total, d)))
        return (q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]).transpose(0, 2, 1)
    if name == "lecun-uniform":
        return math.sqrt(3 / total) * rng.uniform(-1, 1, (n, d, total))
    return rng.standard_normal((n, d, total)) / math.sqrt(total)


def applied(matrices, vectors):
    return (matrices @ vectors[..., None])[..., 0]


def assert_mean(values, exact, wrong=None):
    error = values.std() / math.sqrt(values.size)
    assert abs(values.mean() - exact) < LIMIT * error
    if wrong is not None:
        assert abs(values.mean() - wrong) > LIMIT * error


@pytest.mark.parametrize("tokens", TOKENS)
def test_moments_of_tokens(tokens):
    total = 4
    rng = np.random.default_rng()
    x, y = (draw_tokens(rng, tokens, SIZE, total) for _ in range(2))
    norm, fourth = (x**2).sum(1), (x**4).sum(1)
    once, with_norm, twice = map(float, fourth_powers(tokens, total))
    assert_mean(fourth, once, once * 1.2)
    if tokens == "normal":  # E x^8 = 105 and E x^6 = 15; draws of such powers are too few
        assert twice == total * 105 + total * (total - 1) * 9
        assert with_norm == total * (105 + (total - 1) * (2 * 15 + 3 * 3 + (total - 2) * 3))
    else:
        assert_mean(norm**2 * fourth, with_norm, with_norm * 1.2)
        assert_mean(fourth**2, twice, twice * 1.2)
    assert norm.mean() == pytest.approx(norm_moment(tokens, total, 1), rel=0.05)
    assert_mean((x * y).sum(1) ** 2, float(squared_product(tokens, total)), total / 1.3)


@pytest.mark.parametrize(
    ("weights", "tokens", "pair"),
    [
        *product(("lecun-uniform", "orthogonal"), TOKENS, ("off-diagonal", "diagonal")),
        ("tied:lecun-normal", "layernorm", "off-diagonal"),
        ("tied:lecun-normal", "normal", "off-diagonal"),
        ("tied:lecun-uniform", "layernorm", "off-diagonal"),
        ("tied:lecun-uniform", "rmsnorm", "diagonal"),
        ("tied:lecun-uniform", "normal", "diagonal"),
    ],
)
def test_moments_over_weights(weights, tokens, pair):
    """Mean and variance, and the fourth moment of bounded logits, in small dimensions."""
    d, total = 2, 4
    rng = np.random.default_rng()
    name, _, tied = parse_weights(weights)
    x = draw_tokens(rng, tokens, SIZE, total)
    y = x if pair == "diagonal" else draw_tokens(rng, tokens, SIZE, total)
    w_q = draw_weights(rng, name, SIZE, d, total)
    w_k = w_q if tied else draw_weights(rng, name, SIZE, d, total)
    logits = np.einsum(
        "nij,nj,nik,nk->n", w_q, x, w_k, y, optimize=["einsum_path", (0, 1), (0, 1), (0, 1)]
    )
    m = logit_moments(through(weights, d, total, tokens=tokens, pair=pair))
    z = (logits - m.mean) / m.std
    assert_mean(z, 0.0, 0.05)
    assert_mean(z**2, 1.0, 1.1)
    if not tied and tokens != "normal":
        assert_mean(z**3, 0.0)
        assert_mean(z**4, m.standardised[4], 1.2 * m.standardised[4])


def test_what_is_not_known_exactly_is_left_out():
    case = through("lecun-uniform", 2, 3)
    assert predict(case, "variance").replicate_sd > 0
    assert predict(case, "variance").replicate_skew is None
    assert predict(case, "kurtosis").replicate_sd is None
    assert predict(case, "mean_abs").kind == "none"
    tied = through("tied:lecun-uniform", 2, 3)
    assert predict(tied, "skewness").value == 0
    assert predict(tied, "kurtosis").kind == "none"
    assert predict(tied, "variance").replicate_sd is None


# --- one pair of weights, fresh tokens


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("pair", ["off-diagonal", "diagonal"])
@pytest.mark.parametrize("d", [2, 3])
def test_moments_given_the_weights(tokens, pair, d):
    """2 d < D, and 2 d > D where the token's own zero is among the eigenvalues."""
    total = 4 if d == 3 else 6
    rng = np.random.default_rng()
    w_q, w_k = rng.standard_normal((2, d, total))
    case = through("normal:1", d, total, tokens=tokens, pair=pair, ensemble="tokens")
    m = fixed_logit_moments(case, (w_q, w_k))
    x = draw_tokens(rng, tokens, SIZE, total)
    y = x if pair == "diagonal" else draw_tokens(rng, tokens, SIZE, total)
    z = (((x @ w_q.T) * (y @ w_k.T)).sum(1) - m.mean) / m.std
    for r in range(1, 7 if tokens != "normal" else 5):
        assert_mean(z**r, m.standardised[r])
    a = w_q.T @ w_k
    covariance = np.eye(total)
    if tokens == "layernorm":
        covariance = (covariance - 1 / total) * total / (total - 1)
    if pair == "off-diagonal":
        variance = np.trace(a @ covariance @ a.T @ covariance)
        assert predict(case, "variance", (w_q, w_k)).value == pytest.approx(variance, rel=1e-12)
    else:
        assert m.mean == pytest.approx(np.trace(a @ covariance), rel=1e-12)
        assert_mean(z**2, 1.0, 1.1)


def test_a_rotation_of_a_sphere_is_a_constant_on_the_diagonal():
    case = through("normal:1", 4, 4, tokens="rmsnorm", pair="diagonal", ensemble="tokens")
    moments = fixed_logit_moments(case, (np.eye(4), np.eye(4)))
    assert (moments.mean, moments.std) == (4.0, 0.0)


def test_fixed_weights_average_to_fresh_ones():
    rng = np.random.default_rng()
    case = through("lecun-normal", 3, 8, ensemble="tokens")
    variances = np.array(
        [
            fixed_logit_moments(case, tuple(draw_weights(rng, "", 2, 3, 8))).std ** 2
            for _ in range(2000)
        ]
    )
    assert_mean(variances, 3.0, 4.0)


def test_predict_and_plan_refuse_fixed_weights_and_say_why():
    options = CaseOptions(weights=("lecun-normal",), d_model=("128",), ensemble=("tokens",))
    for refused in (
        lambda: predicted(options),
        lambda: planned(options, DecisionOptions()),
        lambda: Run.planned(options, DecisionOptions()),
    ):
        with pytest.raises(InputError, match="depend on the drawn weights, which only run draws"):
            refused()


# --- rows

# (quantity, scale, R-id, value) of 128 -> 32 Xavier weights, normal tokens, n = 10
ROWS = [
    ("sum_p2", "none", "R176", 0.82608297733241),
    ("jacobian_frobenius_sq", "none", "R177", 0.050900243106773),
    ("entropy", "none", "R178", 0.31375778335963),
    ("max_prob", "none", "R179", 0.87735716858776),
    ("second_prob", "none", "R180", 0.097295773589628),
    ("third_prob", "sqrt-dk", "R187", 0.11806800467869),
]


@pytest.mark.parametrize(("quantity", "scale", "identity", "value"), ROWS)
def test_rows_through_normal_weights(quantity, scale, identity, value):
    case = through("xavier-head-normal", 32, 128, n_keys=10, tokens="normal", scale=scale)
    reference = predict(case, quantity)
    assert reference.kind == "quadrature"
    assert reference.value == pytest.approx(value, rel=1e-10)
    # the wrong theory that leaves out the norms of the tokens
    normed = predict(replace(case, tokens="rmsnorm"), quantity)
    assert normed.value != pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize(
    ("weights", "tokens"),
    [("lecun-normal", "layernorm"), ("he-normal", "rmsnorm"), ("orthogonal", "normal")],
)
def test_rows_by_draws(weights, tokens):
    d, total, n, size = 3, 4, 5, 60_000
    rng = np.random.default_rng()
    name = parse_weights(weights)[0]
    factor = math.sqrt(2 if weights == "he-normal" else 1)
    w_q, w_k = (factor * draw_weights(rng, name, size, d, total) for _ in range(2))
    x = draw_tokens(rng, tokens, size, total)
    y = draw_tokens(rng, tokens, size * n, total).reshape(size, n, total)
    z = applied(w_k.transpose(0, 2, 1), applied(w_q, x))
    p = special.softmax(np.einsum("nk,nmk->nm", z, y), axis=1)
    case = through(weights, d, total, tokens=tokens, n_keys=n)
    reference = predict(case, "sum_p2")
    assert reference.kind == "quadrature"
    values = (p**2).sum(1)
    assert abs(values.mean() - reference.value) < LIMIT * reference.replicate_sd / math.sqrt(size)
    assert_mean(values, reference.value, 1.03 * reference.value)
    # without weights the keys would be independent given q, which orthonormal rows leave true
    plain = predict(Case(d_k=d, n_keys=n, sigma_q=factor, sigma_k=factor), "sum_p2").value
    assert (abs(plain / reference.value - 1) < 1e-9) == (name == "orthogonal")


@pytest.mark.parametrize("weights", ["lecun-uniform", "tied:lecun-normal", "orthogonal"])
def test_rows_without_an_exact_law_show_an_approximation(weights):
    case = through(weights, 16, 64, n_keys=10, scale="sqrt-dk")
    reference = predict(case, "sum_p2")
    assert (reference.kind, reference.value) == ("none", None)
    near = predict(replace(case, weights="lecun-normal", tokens="normal"), "sum_p2").value
    assert reference.approximation == pytest.approx(near, rel=1e-6)


# --- names, needs, counts


def test_names_have_one_spelling():
    assert canonical_weights("glorot_uniform") == "xavier-uniform"
    assert canonical_weights("Kaiming-Normal") == "he-normal"
    assert canonical_weights("gpt2") == canonical_weights("normal") == "normal:0.02"
    assert canonical_weights("tied") == "tied:lecun-normal"
    assert canonical_weights("normal:1") == "normal:1"
    assert all(canonical_weights(canonical_weights(name)) for name in WEIGHTS)


def test_the_catalogue_lists_every_entry():
    listed = [entry for entry in entries() if entry["kind"] == "weights"]
    assert len(listed) == len(WEIGHTS) + 1
    assert all(entry["formula"] and entry["needs"] and entry["source"] for entry in listed)
    assert {e["name"] for e in entries() if e["kind"] == "tokens"} == set(TOKENS)


def test_elements_of_a_replicate():
    assert elements_per_draw(through("lecun-normal", 8, 32)) == 2 * 8 * 32 + 2 * 32
    assert elements_per_draw(through("tied", 8, 32, pair="diagonal")) == 8 * 32 + 32
    assert elements_per_draw(through("lecun-normal", 8, 32, n_keys=10)) == 2 * 8 * 32 + 11 * 32
    assert elements_per_draw(through("lecun-normal", 8, 32, ensemble="tokens")) == 2 * 32


REFUSED = [
    ({"d_model": ()}, "need d_model, got none; give --d-model 512"),
    ({"weights": ("lecunn",)}, "unknown weights 'lecunn'; did you mean"),
    ({"weights": ("normal:0",)}, "S of normal must be a positive number, got 0"),
    ({"weights": ("normal:x",)}, "S of normal must be a positive number, got 'x'"),
    ({"weights": ("normal:1e9",)}, "S of normal must be from 1e-06 to 1000, got 1e9"),
    ({"weights": ("t5:2",)}, "t5 takes no parameter"),
    ({"weights": ("tied:orthogonal",)}, "tied weights need independent entries"),
    ({"weights": ("orthogonal",), "d_model": ("32",)}, "at most d_model for orthogonal rows"),
    ({"weights": ("xavier-normal",), "d_model": ("100",)}, "d_model = 100; give --heads"),
    ({"d_model": ("0",)}, "d_model must be a positive integer, got 0"),
    ({"heads": ("1.5",)}, "heads must be a positive integer, got 1.5"),
    ({"tokens": ("batchnorm",)}, "unknown tokens 'batchnorm'"),
    ({"tokens": ("layernorm",), "d_model": ("1",)}, "layernorm tokens need d_model of at least 2"),
    ({"pair": ("both",)}, "unknown pair 'both'"),
    ({"ensemble": ("q",)}, "unknown ensemble 'q'"),
    ({"weights": ("normal", "gpt2")}, "weights lists normal:0.02 twice"),
    ({"sigma": ("2",)}, "sigma_q must be left out with weights, got 2.0; drop --weights"),
    ({"elements": ("uniform",)}, "elements_q must be left out with weights"),
    ({"logit_std": ("1",), "quantities": ("entropy",)}, "logit_std must be left out with weights"),
    ({"dtype": ("float16",)}, "dtype"),
    ({"correlation": ("0.5",)}, "correlation must be left out with weights"),
    ({"pair": ("diagonal",), "n_keys": ("10",)}, "pair must be off-diagonal for stat"),
    ({"weights": ()}, "d_model needs weights, got 512; give --weights too"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_bad_parameters_are_refused(given, message):
    options = {"weights": ("lecun-normal",), "d_model": ("512",), "dk": ("64",)} | given
    with pytest.raises(InputError, match=message):
        requested_rows(CaseOptions(**options))
