"""The arithmetic of 1e10 draws and more, at its limits and without the hours."""

import math
from itertools import accumulate

import numpy as np
import pytest
from verify_variance.simulations import laws, logits, rows
from verify_variance.simulations.parts import Part, Tally
from verify_variance.stats.cases import Case
from verify_variance.stats.counts import BinCounts
from verify_variance.stats.laws.logit_counts import LogitCounts, count_edges
from verify_variance.stats.pivots import chi_square_z, clopper_pearson, share_z

BLOCKS = 152_588  # of 65536 draws: 1e10


@pytest.mark.parametrize("draws", [10**7, 10**9, 10**10, 10**13, 10**16, 10**18])
@pytest.mark.parametrize("z", [-6.0, -5.2, -4.6, -3.0, 3.0, 4.6, 5.2, 6.0])
def test_the_variance_deviates_as_a_chi_square_of_many_degrees_does(draws, z):
    """Cornish-Fisher: z = w - (w^2 - 1) sqrt(8 / nu) / 6 + O(w^3 / nu)."""
    ratio = 1 + z * math.sqrt(2.0 / draws)
    w = (ratio - 1) * math.sqrt(draws / 2)
    expected = w - (w**2 - 1) * math.sqrt(8 / draws) / 6
    rounding = 4e-16 * math.sqrt(draws)  # of the ratio, in units of its error
    slack = 5 * abs(w) ** 3 / draws + 1e-6 + rounding
    assert chi_square_z(ratio, draws, math.sqrt(2.0)) == pytest.approx(expected, abs=slack)


@pytest.mark.parametrize("draws", [2**31 - 1, 2**31 + 1, 5 * 10**9, 10**13, 10**15])
@pytest.mark.parametrize("p", [1e-3, 0.3])
@pytest.mark.parametrize("z", [-6.0, -5.0, -3.0, 3.0, 5.0, 6.0])
def test_shares_of_more_draws_than_32_bits_count(draws, p, z):
    """The normal limit, with the skewness and the lattice as slack: both are 1 / (sd of the count).

    The interval at the two-sided 1e-6 is that of 4.8916 standard errors; where float64 holds few of
    its digits beside the share itself, its width is known to a per cent only.
    """
    sd = math.sqrt(p * (1 - p) * draws)
    successes = round(draws * p + z * sd)
    assert share_z(successes / draws, draws, p) == pytest.approx(z, abs=z**2 / sd)
    low, high = clopper_pearson(successes / draws, draws, 5e-7)
    half = 4.891638 * sd / draws
    assert (high - low) / 2 == pytest.approx(half, rel=(1e-3 if draws < 1e14 else 1e-2) + 100 / sd)


def test_counts_are_exact_beyond_what_float64_counts():
    edges, one = count_edges(Case(d_k=2)), np.zeros(1026, np.int64)
    one[[3, 700]] = 2**53, 1
    tally = Tally({})
    for first in range(3):
        tally.add(Part(first, 1, counts={("counts", None): one}, ends=(-first, first)))
    counts = LogitCounts(edges, tally.counts["counts", None], *tally.ends)
    assert counts.count == 3 * 2**53 + 3
    assert counts.cells[700] == 3
    assert (counts.smallest, counts.largest) == (-2, 2)
    assert counts.share_below(8.0 - 3 / 64) == pytest.approx(1.0)
    bins = BinCounts(np.full(16_256, 2**40, np.int64))
    assert bins.merge(bins).count == 16_256 * 2**41
    assert LogitCounts(edges, np.full(1026, 2**33), 0.0, 0.0).count == 1026 * 2**33


def test_the_moments_of_1e10_draws_keep_ten_digits():
    """Blocks whose means drift; truth from exactly rounded sums about the exact mean."""
    rng = np.random.default_rng(2)
    count, n = 65536, BLOCKS
    centre = (3.0 + 1e-2 * rng.standard_normal(n)).astype(np.float32).astype(float)
    shift = 1e-7 * rng.standard_normal(n) * count
    second = count * (1 + 0.01 * rng.standard_normal(n))
    third, fourth = count * 0.1 * rng.standard_normal(n), 3.0 * second
    tally = Tally({})
    sums = np.column_stack([np.full(n, count), centre, shift, second, third, fourth])
    for first in range(0, n, 4096):
        part = sums[first : first + 4096]
        tally.add(Part(first, len(part), {("logit", None): part}))
    found = tally.moments["logit", None]
    mean = math.fsum(centre + shift / count) / n
    d = centre - mean
    about = (
        second + 2 * d * shift + count * d**2,
        third + 3 * d * second + 3 * d**2 * shift + count * d**3,
        fourth + 4 * d * third + 6 * d**2 * second + 4 * d**3 * shift + count * d**4,
    )
    assert found.count == n * count == 10_000_007_168
    assert found.mean == pytest.approx(mean, rel=1e-10)
    for got, terms in zip(found.sums, about, strict=True):
        assert got == pytest.approx(math.fsum(terms), rel=1e-10, abs=1e-10 * math.fsum(abs(terms)))


@pytest.mark.parametrize("first", [2**32 - 1, 2**32 + 5, 2**40, 2**63])
def test_block_indices_do_not_wrap(first):
    """Each block of a high index has draws of its own, and not those of its low word."""
    case = Case(d_k=1)
    high = logits.measure_pairs(case, 0, first, 2, 1024)
    low = logits.measure_pairs(case, 0, first % 2**32, 2, 1024)
    assert high[0, 1] != high[1, 1]
    if first >= 2**32:
        assert not np.isin(high[:, 1], low[:, 1]).any()
    edges = count_edges(case)
    counts = [laws.count_pairs(case, edges, 0, at, 1, 1024)[0] for at in (first, first % 2**32)]
    assert (counts[0] != counts[1]).any() == (first >= 2**32)
    table = rows.block_table(first, 2, 7, 8192)
    indices = [int(a) << 32 | int(b) for a, b, _ in table]
    assert indices == list(accumulate([first, 1]))


def test_a_block_beyond_64_bits_is_refused():
    with pytest.raises(ValueError, match="block index must be from 0 to"):
        logits.measure_pairs(Case(d_k=1), 0, 2**64 - 1, 2)
