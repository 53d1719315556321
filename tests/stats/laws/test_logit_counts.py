"""Counts in fixed cells: every logit in one of them, edges where no rounding decides."""

import numpy as np
import pytest
from verify_variance.stats.cases import Case
from verify_variance.stats.checks import InputError
from verify_variance.stats.laws.distribution import logit_cdf
from verify_variance.stats.laws.logit_counts import GRID, LogitCounts, count_edges

CASE = Case(d_k=16)


def test_edges_are_multiples_of_the_logits_own_sd():
    edges = count_edges(CASE)
    assert edges == pytest.approx(4 * GRID, rel=1e-7)
    assert (edges == edges.astype(np.float32)).all()
    moved = count_edges(Case(d_k=16, mean_q=1.0, mean_k=0.5))
    assert moved[len(moved) // 2] == 8.0


@pytest.mark.parametrize("sigma", [1.0, 1.1, 3e-4])
@pytest.mark.parametrize("d_k", [1, 15, 16, 64])
def test_no_edge_of_a_lattice_is_near_a_point(d_k, sigma):
    case = Case(d_k=d_k, elements_q="rademacher", elements_k="rademacher", sigma_q=sigma)
    points = sigma * np.arange(-d_k, d_k + 1, 2)
    edges = count_edges(case)
    nearest = np.abs(edges[:, None] - points).min(1)
    assert (nearest[np.abs(edges) < d_k * sigma] > 0.9 * sigma).all()
    # what lies beyond 3 sd is counted beyond the edge of 3 sd, and so below
    three = np.searchsorted(GRID, [-3, 3])
    beyond = 3 * np.sqrt(d_k) * sigma * (1 + 1e-9)
    assert ((points > edges[three[1]]) == (points > beyond)).all()
    assert ((points <= edges[three[0]]) == (points < -beyond)).all()


def test_counts_merge_and_hold_everything():
    x = np.random.default_rng(1).standard_normal((2, 1000)) * 4 * 3
    edges = count_edges(CASE)
    both = LogitCounts.of(x[0], edges).merge(LogitCounts.of(x[1], edges))
    whole = LogitCounts.of(x, edges)
    assert (both.cells == whole.cells).all()
    assert (both.count, both.smallest, both.largest) == (2000, x.min(), x.max())
    assert whole.share_above(3) == np.mean(x > 12)
    assert whole.share_below(4) == np.mean(x <= -16)
    assert whole.cdf()[512] == np.mean(x <= 0)


def test_cells_fill_as_the_exact_cdf_says():
    """Each cell's count against its exact share: binomial, 1026 cells at 1e-9 each."""
    rng = np.random.default_rng()
    x = (rng.standard_normal((100_000, 4)) * rng.standard_normal((100_000, 4))).sum(1)
    case = Case(d_k=4)
    edges = count_edges(case)
    share = np.diff(np.concatenate([[0], logit_cdf(case, edges), [1]]))
    counts = LogitCounts.of(x, edges).cells
    expected = len(x) * share
    assert (np.abs(counts - expected) < 6.2 * np.sqrt(expected) + 20).all()


def test_fixed_weights_have_no_cells_of_their_own():
    case = Case(d_k=4, weights="lecun-normal", d_model=8, ensemble="tokens")
    with pytest.raises(InputError, match="use --ensemble weights"):
        count_edges(case)
