"""Drawn weights against plain products, against theory, against JAX's own, and real mistakes."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
import verify_variance as vv
from scipy import special
from verify_variance.simulations.drawing import drawn_logits, prepared
from verify_variance.simulations.keys import block_words
from verify_variance.simulations.layers import replicates_in_block
from verify_variance.simulations.logits import measure_pairs
from verify_variance.simulations.matrices import draw_weights, drawn_weights
from verify_variance.simulations.recipes import block_key, cell_words, with_float64
from verify_variance.simulations.sweep import measure
from verify_variance.stats.cases import Case
from verify_variance.stats.cells import Cell
from verify_variance.stats.decision import Row, decide
from verify_variance.stats.elements import element_moment
from verify_variance.stats.laws.logit_moments import logit_moments
from verify_variance.stats.predict import predict
from verify_variance.stats.run import estimate_of
from verify_variance.stats.weights.layers import layer_of
from verify_variance.stats.weights.schemes import WEIGHTS

SEED = int(np.random.default_rng().integers(2**40))
LIMIT = -special.ndtri(5e-9)  # each comparison has a false-alarm rate of 1e-8


def through(weights, d_k=4, d_model=8, **more):
    return Case(d_k=d_k, d_model=d_model, weights=weights, **{"scale": "none"} | more)


CASES = [
    through("lecun-normal"),
    through("t5", 3, 7, tokens="rmsnorm"),
    through("he-uniform", 1, 1, tokens="rmsnorm"),
    through("xavier-head-truncated", 3, 7, tokens="normal", pair="diagonal"),
    through("tied:lecun-normal", 5, 6, dtype="float64"),
    through("tied:torch-linear", 3, 9, pair="diagonal"),
    through("orthogonal", 5, 9, dtype="float64"),
    through("orthogonal", 6, 6, tokens="normal"),
    through("lecun-normal", 3, 9, ensemble="tokens"),
    through("orthogonal", 2, 33, ensemble="tokens"),
    through("tied:normal:0.1", 3, 8, ensemble="tokens", pair="diagonal"),
]


def kernel_logits(case, block, rows, keys=None):
    recipe, numbers = prepared(case, SEED)
    with with_float64(case.dtype):
        words = [np.uint32(word) for word in block_words(block)]
        key = jax.jit(block_key)(cell_words(case, SEED), *words)
        draw = jax.jit(partial(drawn_logits, recipe, rows=rows, keys=keys))
        return np.asarray(draw(key=key, numbers=numbers))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.canonical())
def test_logits_are_products_of_the_arrays(case):
    """One query with three keys, or with itself."""
    keys = None if case.pair == "diagonal" else 3
    w_q, w_k, x, y = (a.astype(float) for a in draw_weights(case, SEED, 5, 40, 3))
    assert (w_q.shape, x.shape) == ((40, case.d_k, case.d_model), (40, case.d_model))
    if case.ensemble == "tokens":
        w_q, w_k = (np.broadcast_to(w, w_q.shape) for w in drawn_weights(case, SEED))
    if case.pair == "diagonal":
        y = x[:, None]
    q, k = np.einsum("rij,rj->ri", w_q, x), np.einsum("rij,rkj->rki", w_k, y)
    exact = np.einsum("ri,rki->rk", q, k)
    # roundings of two sums over D and one over d, of terms no larger than these
    size = np.linalg.norm(w_q, axis=(1, 2)) * np.linalg.norm(w_k, axis=(1, 2))
    size *= np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=2).max(axis=1)
    bound = 4 * (case.d_model + case.d_k) * np.finfo(case.dtype).eps * size
    got = kernel_logits(case, 5, 40, keys)
    assert (np.abs(got.reshape(exact.shape) - exact) <= bound[:, None]).all()


@pytest.mark.parametrize("case", [CASES[0], CASES[6]], ids=["iid", "orthonormal"])
def test_a_pair_is_a_row_of_one_key(case):
    assert np.array_equal(kernel_logits(case, 0, 64, 1)[:, 0], kernel_logits(case, 0, 64))


@pytest.mark.parametrize("tokens", ["layernorm", "rmsnorm", "normal"])
def test_tokens_are_what_they_are_called(tokens):
    _, _, x, y = (
        a.astype(float) for a in draw_weights(through("mup", 1, 7, tokens=tokens), SEED, 0, 300, 2)
    )
    assert y.shape == (300, 2, 7)
    norms = (x**2).sum(1)
    assert (np.ptp(norms) < 1e-4) == (tokens != "normal")
    assert (np.abs(x.sum(1)).max() < 1e-5) == (tokens == "layernorm")
    if tokens != "normal":
        assert norms == pytest.approx(7, rel=1e-5)


def test_tied_weights_are_one_matrix_and_others_are_not():
    w_q, w_k, _, _ = draw_weights(through("tied:he-normal"), SEED, 0, 20)
    assert np.array_equal(w_q, w_k)
    w_q, w_k, _, _ = draw_weights(through("he-normal"), SEED, 0, 5000)
    entries = w_q.astype(float).ravel() * w_k.astype(float).ravel()
    assert abs(entries.mean()) < LIMIT * entries.std() / math.sqrt(entries.size)


def test_orthonormal_rows_have_the_uniform_law():
    """E w_11^2 w_22^2 = (D+1) / ((D-1) D (D+2)) and E w_11^4 = 3 / (D (D+2))."""
    total = 3
    w, other, _, _ = (
        a.astype(float) for a in draw_weights(through("orthogonal", 3, total), SEED, 0, 20_000)
    )
    # three reflections of three numbers in float32: 2 * 3 * 10 * 3 roundings of 6e-8 at most
    assert np.abs(w @ w.transpose(0, 2, 1) - np.eye(3)).max() < 1.1e-5
    for values, exact in (
        (w[:, 0, 0] ** 4, 3 / (total * (total + 2))),
        (w[:, 2, 2] ** 4, 3 / (total * (total + 2))),
        ((w[:, 0, 0] * w[:, 1, 1]) ** 2, (total + 1) / ((total - 1) * total * (total + 2))),
        (
            w[:, 0, 0] * w[:, 1, 1] * w[:, 0, 1] * w[:, 1, 0],
            -1 / ((total - 1) * total * (total + 2)),
        ),
        (np.linalg.det(w), 0.0),
        (w[:, 1, 1] * other[:, 1, 1], 0.0),
    ):
        assert abs(values.mean() - exact) < LIMIT * values.std() / math.sqrt(len(values))


# --- theory

DRAWS = 2**17


def moments_of(case, draws=DRAWS):
    cell = Cell(case.cell(), draws, False, (), ("logit", "abs_logit"))
    return measure(cell, SEED, jax.local_devices())


def judged(case, quantity, assumed=None, draws=DRAWS):
    """The verdict on what `case` draws when the theory is that of `assumed`."""
    row = Row(case, quantity, predict(assumed or case, quantity))
    row = replace(row, estimate=estimate_of(row, moments_of(case, draws)))
    return decide([row], samples_only=True)[0]


@pytest.mark.parametrize("name", WEIGHTS)
def test_every_entry_has_its_variance_and_a_wrong_one_is_caught(name):
    """Fewer than one false alarm in 1e8: a skew of S^2 below 0.03 doubles the rate at most."""
    case = through(name)
    found = moments_of(case)["logit", None]
    variance = predict(case, "variance")
    error = LIMIT * variance.replicate_sd / math.sqrt(DRAWS)
    s2 = found.sums[0] / (found.count - 1)
    assert abs(s2 - variance.value) < error
    assert abs(s2 - 1.1 * variance.value) > error
    assert abs(found.mean) < LIMIT * math.sqrt(variance.value / DRAWS)


@pytest.mark.parametrize("tied", ["", "tied:"])
@pytest.mark.parametrize("pair", ["off-diagonal", "diagonal"])
@pytest.mark.parametrize("tokens", ["layernorm", "rmsnorm", "normal"])
def test_mean_and_variance_for_every_token_and_pair(tokens, pair, tied):
    case = through(f"{tied}lecun-normal", tokens=tokens, pair=pair)
    found = moments_of(case)
    exact = logit_moments(case)
    m = found["logit", None]
    assert abs(m.mean - exact.mean) < LIMIT * exact.std / math.sqrt(DRAWS)
    # Satterthwaite's law for S^2, since one of normal tokens is skewed
    spread = exact.standardised[4] - 1
    nu = 2 * DRAWS / spread
    ratio = m.sums[0] / (m.count - 1) / exact.std**2
    assert special.chdtrc(nu, nu * ratio) > 1e-9
    assert special.chdtr(nu, nu * ratio) > 1e-9
    assert special.chdtr(nu, nu * ratio / 1.2) < 1e-9
    absolute = predict(case, "mean_abs")
    if absolute.kind != "none":
        error = LIMIT * absolute.replicate_sd / math.sqrt(DRAWS)
        assert abs(found["abs_logit", None].mean - absolute.value) < error


ROWS = ("sum_p2", "entropy", "jacobian_trace")


@pytest.mark.parametrize(
    ("weights", "tokens"),
    [
        ("he-normal", "layernorm"),
        ("he-normal", "normal"),
        ("orthogonal", "normal"),
    ],
)
def test_rows_match_their_exact_law(weights, tokens):
    case = through(weights, 3, 4, tokens=tokens, n_keys=5)
    draws = 30_000
    found = measure(Cell(case, draws, False, (1.0,), ROWS), SEED, jax.local_devices())
    for quantity in ROWS:
        reference = predict(case, quantity)
        assert reference.kind == "quadrature"
        error = LIMIT * reference.replicate_sd / math.sqrt(draws)
        assert abs(found[quantity, 1.0].mean - reference.value) < error
        # keys that are independent given q, as they are without weights
        sigma = 2**0.5 if weights == "he-normal" else 1.0
        plain = predict(Case(d_k=3, n_keys=5, sigma_q=sigma, sigma_k=sigma), quantity)
        wrong = abs(found[quantity, 1.0].mean - plain.value) > error
        assert wrong == (weights == "he-normal")


@pytest.mark.parametrize("pair", ["off-diagonal", "diagonal"])
def test_fixed_weights_end_to_end(pair):
    options = {
        "weights": ["lecun-normal", "orthogonal"], "d_model": 16, "dk": 4, "ensemble": "tokens",
        "pair": pair, "quantities": ["std", "mean"], "samples": 100_000, "seed": SEED,
    }  # fmt: skip
    result = vv.verify(**options)
    assert result.verdict == "match"
    assert {row["ensemble"] for row in result.record["rows"]} == {"fresh tokens"}
    # the spread over weights is not that of one pair of them
    case = through("lecun-normal", 4, 16, ensemble="tokens", pair=pair, tokens="layernorm")
    fresh = replace(case, ensemble="weights")
    row = Row(case, "variance", predict(fresh, "variance"))
    row = replace(row, estimate=estimate_of(row, moments_of(case, 200_000)))
    ours = predict(case, "variance", drawn_weights(case, SEED)).value
    if abs(ours / row.reference.value - 1) > 0.1:
        assert decide([row])[0].verdict == "mismatch"


# --- JAX's own initialisers

_INITIALISERS = {
    "lecun_normal": ("lecun-truncated", ()),
    "lecun_uniform": ("lecun-uniform", ()),
    "glorot_normal": ("xavier-truncated", ()),
    "glorot_uniform": ("xavier-uniform", ()),
    "he_normal": ("he-truncated", ()),
    "he_uniform": ("he-uniform", ()),
    "normal": ("normal:0.02", (0.02,)),
    "truncated_normal": ("truncated-normal-raw:0.02", (0.02,)),
    "orthogonal": ("orthogonal", ()),
}


@pytest.mark.parametrize("name", _INITIALISERS)
def test_jax_initialises_as_the_catalogue_says(name):
    """Variance and kurtosis of a kernel [D, H d_k], as flax makes it, D = 256, H d_k = 512."""
    ours, arguments = _INITIALISERS[name]
    kernel = getattr(jax.nn.initializers, name)(*arguments)(jax.random.key(SEED), (256, 512))
    w = np.asarray(kernel, float)
    layer = layer_of(through(ours, 64, 256, heads=8))
    if name == "orthogonal":  # the columns of a head are the rows of W_Q
        tall = np.asarray(jax.nn.initializers.orthogonal()(jax.random.key(SEED), (256, 64)), float)
        assert np.abs(tall.T @ tall - np.eye(64)).max() < 1e-5
        assert (tall**2).mean() == pytest.approx(layer.variance_q, rel=1e-5)
        return
    kurtosis, sixth = element_moment(layer.law, 4), element_moment(layer.law, 6)
    eighth = element_moment(layer.law, 8)
    assert abs((w**2).mean() / layer.variance_q - 1) < LIMIT * math.sqrt((kurtosis - 1) / w.size)
    z = w / math.sqrt(layer.variance_q)
    assert abs((z**4).mean() - kurtosis) < LIMIT * math.sqrt((eighth - kurtosis**2) / w.size)
    assert abs((z**3).mean()) < LIMIT * math.sqrt(sixth / w.size)
    # what leaves the correction out, or puts it in twice, is seen
    assert abs((w**2).mean() / layer.variance_q - 0.7737413) > 0.1


# --- mistakes that were made (the layer as it was meant, as it was drawn, the sd's ratio)

H, D, D_K = 4, 32, 8
DEFECTS = {
    "C1 packed Xavier": ("xavier-uniform", "xavier-packed-uniform", 1 / 2),
    "C2 Keras fans of (d, h, k) as of a convolution": (
        "xavier-uniform",
        f"normal:{math.sqrt(2 / (D * (H + D_K)))!r}",
        (D + H * D_K) / (D * (H + D_K)),
    ),
    "C4 truncated and not corrected": ("lecun-truncated", "lecun-truncated-raw", 0.7737413),
    "C4 BERT's cut normal for a normal": ("normal:0.02", "bert", 0.7737413),
    "C7 fan of the head for that of the model": (
        "lecun-normal",
        f"normal:{D_K**-0.5!r}",
        D / D_K,
    ),
    "C7 sd of another recipe": ("normal:0.0289", "normal:0.02", (0.02 / 0.0289) ** 2),
    "C7 T5 without its scale in W_Q": ("t5", "lecun-normal", math.sqrt(D_K)),
    "W_K = W_Q": ("lecun-normal", "tied:lecun-normal", math.sqrt(1 + (D_K + 1) / (D - 1))),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_defects_are_caught(defect):
    meant, drawn, ratio = DEFECTS[defect]
    meant, drawn = (through(name, D_K, D) for name in (meant, drawn))
    row = judged(drawn, "std", assumed=meant)
    assert row.verdict == "mismatch"
    assert row.estimate.value / row.reference.value == pytest.approx(ratio, rel=0.02)
    assert judged(drawn, "std").verdict == "match"


def test_tied_weights_show_on_the_diagonal_by_their_mean():
    tied = through("tied:lecun-normal", D_K, D, pair="diagonal")
    row = judged(tied, "mean", assumed=replace(tied, weights="lecun-normal"))
    assert row.verdict == "mismatch"
    assert row.estimate.value == pytest.approx(D_K, rel=0.02)  # d v |x|^2


def test_figures_of_the_reports():
    """The sizes the reports give: Keras 36 (sd of W: 6), BERT 0.2377 against 0.3072."""
    wrong = through(f"normal:{math.sqrt(2 / (512 * (8 + 64)))!r}", 64, 512, scale="sqrt-dk")
    right = through("xavier-uniform", 64, 512, heads=8, scale="sqrt-dk")
    assert layer_of(right).variance_q / layer_of(wrong).variance_q == pytest.approx(36, rel=1e-12)
    assert predict(wrong, "std").value == pytest.approx(1 / 36, rel=1e-12)
    bert = through("bert", 64, 768, scale="sqrt-dk")
    assert predict(bert, "std").value == pytest.approx(0.2377, abs=5e-5)


# --- the same bits elsewhere


def test_a_block_has_the_same_bits_in_any_company():
    case = through("lecun-normal", 3, 4096)  # blocks of 32
    size = replicates_in_block(case)
    together = measure_pairs(case, SEED, 0, 4, 20)
    assert together[:, 0].tolist() == [size, size, size, 20]
    assert np.array_equal(measure_pairs(case, SEED, 1, 2), together[1:3])
    assert np.array_equal(measure_pairs(case, SEED, 3, 1, 20), together[3:])
    assert len({tuple(row[1:]) for row in together}) == 4
    assert not np.array_equal(measure_pairs(case, SEED + 1, 0, 1), together[:1])


def test_fixed_weights_follow_seed_and_cell():
    case = through("lecun-normal", ensemble="tokens")
    first, again = drawn_weights(case, SEED), drawn_weights(replace(case), SEED)
    assert all(map(np.array_equal, first, again))
    assert not np.array_equal(first[0], first[1])
    for other in (drawn_weights(case, SEED + 1), drawn_weights(replace(case, d_model=9), SEED)):
        assert not np.array_equal(first[0], other[0][:, :8])


_PROGRAM = """
import hashlib
import jax
from verify_variance.simulations.logits import measure_pairs
from verify_variance.stats.cases import Case
rows = [measure_pairs(case, 5, 0, 5, 12).tobytes() for case in (
    Case(d_k=3, d_model=2050, weights="lecun-normal"),
    Case(d_k=3, d_model=2049, weights="lecun-normal", ensemble="tokens"))]
print(len(jax.devices()), hashlib.sha256(b"".join(rows)).hexdigest())
"""


def test_same_bits_on_any_number_of_devices_and_cores():
    one = {"JAX_PLATFORMS": "cpu"}
    four = {**one, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    runs = [
        subprocess.Popen(
            [*prefix, sys.executable, "-c", _PROGRAM],
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            text=True,
        )
        for prefix, env in [([], one), (pinned, four)]
    ]
    devices, digests = zip(*(run.communicate()[0].split() for run in runs), strict=True)
    assert devices == ("1", "4")
    assert len(set(digests)) == 1


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="dtype must be float32 or float64 with weights"):
        prepared(through("lecun-normal", dtype="float16"), 0)
