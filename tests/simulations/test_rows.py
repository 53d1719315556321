"""Rows end to end: against NumPy on the very vectors drawn, against theory, and at the edges."""

import math

import numpy as np
import pytest
import verify_variance as vv
from scipy.special import chdtr, chdtrc, ndtri
from verify_variance.simulations import devices, rows
from verify_variance.simulations.sweep import measure
from verify_variance.simulations.vectors import draw_vectors
from verify_variance.stats.cases import Case
from verify_variance.stats.cells import Cell
from verify_variance.stats.conventions import scale_factor
from verify_variance.stats.counts import BinCounts
from verify_variance.stats.predict import predict

SEED = int(np.random.default_rng().integers(2**40))
EVERY = ("max_prob", "second_prob", "third_prob", "entropy", "sum_p2", "saturated",
         "jacobian_trace", "jacobian_frobenius_sq", "jacobian_frobenius", "jacobian_spectral",
         "jacobian_frobenius_median")  # fmt: skip


def measured(case, draws, names, factors=(1.0,), seed=SEED):
    cell = Cell(case, draws, False, factors, tuple(names))
    return measure(cell, seed, devices.use_platform("auto"))


def drawn_rows(case, draws):
    """The logits of a run's first draws in float64, from the vectors of its blocks."""
    size, parts = rows.block_rows(case), []
    for block in range(-(-draws // size)):
        count = min(size, draws - block * size)
        q, k = (v.astype(float) for v in draw_vectors(case, SEED, block, count, case.n_keys))
        parts.append(np.einsum("rd,rkd->rk", q, k))
    return np.concatenate(parts)


def defined(x):
    """Every statistic of rows of logits by its definition, in float64."""
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    ranked = np.pad(np.sort(p)[:, ::-1], ((0, 0), (0, 2)))
    j = p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None, :]
    square = (j**2).sum((1, 2))
    return {
        "max_prob": ranked[:, 0],
        "second_prob": ranked[:, 1],
        "third_prob": ranked[:, 2],
        "entropy": -(p * np.log(np.where(p > 0, p, 1))).sum(1),
        "sum_p2": (p**2).sum(1),
        "saturated": ranked[:, 0] > 0.99,
        "jacobian_trace": np.trace(j, axis1=1, axis2=2),
        "jacobian_frobenius_sq": square,
        "jacobian_frobenius": np.sqrt(square),
        "jacobian_spectral": np.linalg.eigvalsh(j)[:, -1],
    }


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-12)])
def test_a_run_measures_the_rows_of_its_vectors(dtype, tolerance):
    """Two blocks and a part of a third. Logits of float32 are off by some 1e-6, and with them
    the logarithms of all probabilities; moments are of order 1 beside their own size."""
    case, draws = Case(d_k=5, n_keys=40, dtype=dtype), 2 * 2048 + 77
    assert rows.block_rows(case) == 2048
    names = EVERY if dtype == "float32" else ("entropy", "jacobian_frobenius_sq")
    factor = 5**-0.5
    found = measured(case, draws, names, (factor,))
    for name, want in defined(factor * drawn_rows(case, draws)).items():
        if name not in names:
            continue
        m = found[name, factor]
        assert m.count == draws
        assert m.mean == pytest.approx(want.mean(), rel=tolerance, abs=tolerance), name
        for r in (2, 3):
            central = ((want - want.mean()) ** r).mean()
            assert abs(m.central(r) - central) < 10 * tolerance * want.std() ** r + 1e-12, name


def test_the_median_is_that_of_numpy_to_a_bin():
    """Bins are 1/128 of their value wide; its error is that of the ranks around it."""
    case, draws = Case(d_k=16, n_keys=10), 10_000
    norms = defined(drawn_rows(case, draws))["jacobian_frobenius"]
    counts = measured(case, draws, ["jacobian_frobenius_median"])["jacobian_frobenius_median", 1.0]
    assert isinstance(counts, BinCounts)
    assert counts.count == draws
    median, sd = counts.median()
    assert median == pytest.approx(np.median(norms), rel=1 / 128)
    low, high = np.quantile(norms, [0.495, 0.505])
    assert sd == pytest.approx(100 * (high - low) / 2, abs=100 * median / 128)
    assert counts.quantile(0.1) == pytest.approx(np.quantile(norms, 0.1), rel=1 / 128)


# --- against theory, over many cells: every z has the reference's own replicate_sd

ROWS_OF = {2: 20_000, 3: 20_000, 10: 8192, 64: 4096, 512: 1024}
SHAPES = [(1, "none"), *((d, s) for d in (8, 64, 128) for s in ("none", "sqrt-dk"))]
CELLS = [
    *(Case(d_k=d, n_keys=n, scale=s) for n in ROWS_OF for d, s in SHAPES),
    *(Case(d_k=None, n_keys=n, logit_std=s) for n in (2, 10, 512) for s in (0.1, 1.0, 5.0, 30.0)),
    *(
        Case(d_k=d, n_keys=10, scale=s, elements_q=q, elements_k=k)
        for q, k, d in (
            ("rademacher", "rademacher", 4),
            ("rademacher", "rademacher", 64),
            ("rademacher", "normal", 16),
            ("sphere", "sphere", 16),
            ("normal", "sphere", 5),
        )
        for s in ("none", "sqrt-dk")
    ),
    Case(d_k=4, n_keys=3, mean_q=0.5, mean_k=2.0, sigma_q=2.0, sigma_k=0.3),
]
LOOKED_AT = ("entropy", "jacobian_frobenius_sq")
SEEDS = 3
SIDE = 1e-6 / 8  # two quantities, a spread and a bias each, two sides


@pytest.fixture(scope="module")
def deviates():
    """z by quantity, [cells x seeds]."""
    found = {name: [] for name in LOOKED_AT}
    for case in CELLS:
        factor = scale_factor(case)
        references = {name: predict(case, name) for name in LOOKED_AT}
        for offset in range(SEEDS):
            draws = ROWS_OF[case.n_keys]
            # a seed for each scale too, since cells that differ in it alone share their draws
            seed = 2 * (SEED + offset) + (case.scale == "none")
            moments = measured(case.cell(), draws, LOOKED_AT, (factor,), seed)
            for name, r in references.items():
                off = moments[name, factor].mean - r.value
                found[name].append(off * math.sqrt(draws) / r.replicate_sd)
    return {name: np.array(z) for name, z in found.items()}


@pytest.mark.wide
@pytest.mark.parametrize("quantity", LOOKED_AT)
def test_deviates_from_theory_spread_as_they_should(deviates, quantity):
    """Sum of z^2 ~ chi^2 over independent cells: too small is a failure as well. 1e-6 in all.

    A cell's excess kurtosis over its draws is at most some 0.05, which is lost beside the 2 of
    each z^2.
    """
    z = deviates[quantity]
    assert len(CELLS) >= 50
    statistic = float((z**2).sum())
    assert min(chdtr(z.size, statistic), chdtrc(z.size, statistic)) > SIDE, statistic / z.size
    assert abs(z.sum()) < -ndtri(SIDE) * math.sqrt(z.size)
    assert np.abs(z).max() < -ndtri(SIDE / z.size)


@pytest.mark.wide
@pytest.mark.parametrize("quantity", LOOKED_AT)
def test_error_bars_1_8_times_too_large_or_small_would_fail(deviates, quantity):
    """And all the more those that pool the logits of a row, sqrt(n) too small.

    With 174 deviates chi^2 / 1.8^2 stays above its lower limit with probability 3e-9, and
    1.8^2 chi^2 below its upper one with 1e-8.
    """
    z = deviates[quantity]
    for factor, tail in ((1.8, chdtr), (1 / 1.8, chdtrc)):
        assert tail(z.size, float(((z / factor) ** 2).sum())) < SIDE
    pooled = z * np.repeat([math.sqrt(case.n_keys) for case in CELLS], SEEDS)
    assert chdtrc(z.size, float((pooled**2).sum())) < SIDE


def test_every_quantity_of_three_keys_is_exact_and_matches():
    """False alarm 1e-6; n = 3 has no bracket."""
    result = vv.verify(
        dk=4, n_keys=3, quantities=["softmax", "jacobian"], samples=30_000, seed=SEED
    )
    kinds = {row["theory_kind"] for row in result.record["rows"]}
    assert kinds == {"quadrature", "none"}
    assert {row["quantity"] for row in result.record["rows"]} == set(EVERY)
    assert result.verdict == "match"


# --- edges


@pytest.mark.parametrize(
    ("s", "share"),
    # 2 Q(log 99 / (s sqrt 2)): two keys, hence exact
    [(0.5, 8.15e-11), (0.8, 4.87e-5), (1.2, 6.78e-3), (300.0, 0.991359), (1e4, 0.999741)],
)
def test_a_share_near_0_or_1_matches(s, share):
    """Binomial tails at 1e-6; not one row in 20000 saturated is what theory says at s = 0.5."""
    result = vv.verify(
        logit_std=s, n_keys=2, quantities="saturated", scale="none", samples=20_000, seed=SEED
    )
    (row,) = result.record["rows"]
    assert row["theory"] == pytest.approx(share, rel=2e-3)
    assert result.verdict == "match"
    assert 0 <= row["ci_low"] <= row["estimate"] <= row["ci_high"] <= 1
    if s == 0.5:
        assert row["estimate"] == 0


def test_one_key_is_decided_not_nan():
    result = vv.verify(dk=4, n_keys=1, quantities=["softmax", "jacobian"], samples=20_000)
    found = {row["quantity"]: row for row in result.record["rows"]}
    assert result.verdict == "match"
    for name, row in found.items():
        wanted = float(name in ("max_prob", "sum_p2", "saturated"))
        assert row["estimate"] == pytest.approx(wanted, abs=1e-37), name
        if row["verdict"] != "measured":
            assert (row["gap"], row["z"], row["mcse"]) == (0, 0, 0), name


def test_two_keys_have_no_third_probability():
    (row,) = vv.verify(
        dk=4, n_keys=2, quantities="third_prob", scale="none", samples=20_000
    ).record["rows"]
    assert (row["verdict"], row["theory"], row["estimate"]) == ("match", 0, 0)


@pytest.mark.parametrize(("d_k", "n_keys", "draws"), [(65536, 2, 40), (2, 65536, 3)])
def test_very_long_vectors_and_rows(d_k, n_keys, draws):
    """Against NumPy; a float32 sum of 65536 products is off by 1e-7 sqrt(65536) of its sd."""
    case, factor = Case(d_k=d_k, n_keys=n_keys), d_k**-0.5
    m = measured(case, draws, ["entropy"], (factor,))["entropy", factor]
    x = factor * drawn_rows(case, draws)
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    entropy = -(p * np.log(p)).sum(1)
    assert m.count == draws
    assert m.mean == pytest.approx(entropy.mean(), rel=1e-4)
    assert math.sqrt(m.central(2)) == pytest.approx(entropy.std(), rel=1e-3)


def test_lanes_beyond_the_draws_change_no_bit(monkeypatch):
    """A cell of one block is drawn no wider than it needs; the width does not show."""
    case, real = Case(d_k=3, n_keys=10), rows._compiled_draw

    def wide(*given):
        *what, lanes, n_keys, mesh = given
        assert lanes == 256
        return real(*what, 8192, n_keys, mesh)

    for draws in (2, 77):
        narrow = measured(case, draws, EVERY[:7])
        with monkeypatch.context() as m:
            m.setattr(rows, "_compiled_draw", wide)
            assert measured(case, draws, EVERY[:7]) == narrow
