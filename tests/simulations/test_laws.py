"""Counts of drawn logits: the very draws of the moments, exact sums, and planted samplers."""

import jax.numpy as jnp
import numpy as np
import pytest
import verify_variance as vv
from scipy.stats import norm
from verify_variance.simulations import elements, laws, sweep
from verify_variance.simulations.elements import SAMPLERS, Sampler
from verify_variance.simulations.guards import BrokenGenerator
from verify_variance.simulations.random import box_muller, uniform
from verify_variance.simulations.vectors import draw_vectors
from verify_variance.stats.cases import Case
from verify_variance.stats.cells import Cell
from verify_variance.stats.laws.logit_counts import LogitCounts, count_edges

LAWS = ["law", "tails", "extremes"]


@pytest.mark.parametrize(
    "case",
    [
        Case(d_k=16),
        Case(d_k=5, sigma_q=2.0, mean_q=1.0, mean_k=-0.5),
        Case(d_k=16, elements_q="rademacher", elements_k="rademacher", sigma_k=1.1),
        Case(d_k=16, dtype="float64", elements_q="laplace"),
    ],
)
def test_counts_are_those_of_the_vectors_themselves(case):
    rows, edges = 4096, count_edges(case)
    found = laws.count_pairs(case, edges, 0, 0, 1, rows)
    q, k = draw_vectors(case, 0, 0, rows)
    plain = LogitCounts.of((q.astype(np.float64) * k).sum(1), edges)
    counts = LogitCounts(edges, found[0].sum(0), *found[1][0])
    # a float32 sum in another order may cross an edge, one logit in some thousands
    assert np.abs(counts.cells - plain.cells).sum() <= 8
    assert counts.count == rows
    assert counts.largest == pytest.approx(plain.largest, rel=1e-5)
    assert counts.smallest == pytest.approx(plain.smallest, rel=1e-5)


def test_blocks_are_the_same_alone_and_together():
    case = Case(d_k=3)
    edges = count_edges(case)
    cells, ends = laws.count_pairs(case, edges, 5, 0, 3, 1000)
    assert cells.sum(1).tolist() == [65536, 65536, 1000]
    for block, count in enumerate((65536, 65536, 1000)):
        alone = laws.count_pairs(case, edges, 5, block, 1, count)
        assert (alone[0][0] == cells[block]).all()
        assert (alone[1][0] == ends[block]).all()
    assert (cells[0] != cells[1]).any()


def test_blocks_that_repeat_end_the_run(monkeypatch):
    monkeypatch.setattr(laws, "block_words", lambda block: (0, 0))
    cell = Cell(Case(d_k=2), 3 * 65536, False, (), ("counts",))
    with pytest.raises(BrokenGenerator, match="repeat others"):
        sweep.measure(cell, 0, [])


def test_counts_leave_moments_as_they_are():
    alone = vv.verify(dk=[16], quantities="variance", samples=100_000)
    both = vv.verify(dk=[16], quantities=["variance", "law"], samples=100_000)
    assert alone.record["rows"][0]["estimate"] == both.record["rows"][0]["estimate"]
    assert both.record["rows"][0]["draws"] == 100_000


def test_a_scale_changes_no_test():
    rows = vv.verify(dk=[16], quantities=LAWS, scale=["none", "sqrt-dk"], samples=50_000)
    of = {(row["quantity"], row["scale"]): row for row in rows.record["rows"]}
    for name in ("law", "above_3", "largest"):
        plain, scaled = of[name, "none"], of[name, "sqrt-dk"]
        assert plain["z"] == pytest.approx(scaled["z"], abs=1e-9)
    assert of["largest", "sqrt-dk"]["estimate"] == of["largest", "none"]["estimate"] / 4
    assert rows.record["design"]["tests"] == 11


def planted(draw, uniforms=2):
    return Sampler(draw, uniforms=uniforms)


def mixture(bits, _):
    """Normals of variance 1/2 or 3/2, each with probability 1/2."""
    z = box_muller(bits[0], bits[1])
    return tuple(
        jnp.where(uniform(b) < 0.5, np.sqrt(0.5), np.sqrt(1.5)) * x
        for b, x in zip(bits[2:], z, strict=True)
    )


def no_tail(bits, _):
    """A ziggurat whose last strip is missing: |z| > a comes out halved; variance restored."""
    z, a = box_muller(bits[0], bits[1]), 3.4426
    missing = 0.75 * 2 * (a * norm.pdf(a) + norm.sf(a))  # E z^2 beyond a is 2 (a phi(a) + Q(a))
    return tuple(jnp.where(jnp.abs(x) > a, 0.5 * x, x) / np.sqrt(1 - missing) for x in z)


FAULTS = {
    # planted sampler, d_k, draws, what must be called
    "mixture": (planted(mixture, 4), 4, 400_000, "law"),
    "signs": (SAMPLERS["rademacher"], 16, 20_000, "law"),
    "no tail": (planted(no_tail), 1, 10_000_000, "above_6"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_tails_under_a_right_variance_are_caught(fault, monkeypatch):
    sampler, d_k, draws, called = FAULTS[fault]
    asked = {"dk": [d_k], "quantities": ["std", *LAWS], "samples": draws, "seed": "random"}
    right = vv.verify(**asked)
    assert right.verdict == "match", right.text()
    monkeypatch.setitem(elements.SAMPLERS, "normal", sampler)
    wrong = {row["quantity"]: row for row in vv.verify(**asked).record["rows"]}
    assert wrong["std"]["verdict"] != "mismatch"
    assert wrong[called]["verdict"] == "mismatch"


def test_a_truncation_at_five_sigma_is_caught(monkeypatch):
    drawn = laws.drawn_logits

    def truncated(*arguments):
        y = drawn(*arguments)
        return jnp.where(jnp.abs(y) > 5 * 2.0, 0.5 * y, y)

    monkeypatch.setattr(laws, "drawn_logits", truncated)
    laws._compiled.cache_clear()
    try:
        result = vv.verify(dk=[4], quantities=LAWS, samples=1_000_000, seed="random")
    finally:
        laws._compiled.cache_clear()
    got = {row["quantity"]: row["verdict"] for row in result.record["rows"]}
    assert (got["law"], got["above_3"]) == ("match", "match")
    assert got["above_5"] == got["below_5"] == got["largest"] == "mismatch"
    assert "in the share of a tail" in result.summary
