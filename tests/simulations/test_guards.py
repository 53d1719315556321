"""The guards find generators that repeat themselves, and leave honest ones alone.

An honest run may end here once in 1e9 for each guard and cell.
"""

import sys

import numpy as np
import pytest
from scipy.special import fdtr, fdtri
from scipy.stats import binom
from verify_variance.__main__ import main
from verify_variance.simulations import devices, guards, logits, rows
from verify_variance.simulations.guards import FALSE_ALARM, BrokenGenerator, Distinct, Guard
from verify_variance.simulations.sweep import measure
from verify_variance.stats.cases import Case
from verify_variance.stats.cells import Cell

ONE_SIDE = 5e-7  # of each binomial test below, for any seed


def sums_of(x, order=4):
    """Count, mean, S_1 ... of blocks [blocks, replicates]."""
    mean = x.mean(1)
    centred = x - mean[:, None]
    sums = [(centred**r).sum(1) for r in range(1, order + 1)]
    return np.column_stack([np.full(len(x), x.shape[1]), mean, *sums])


def check(sums, block, lattice=False):
    guard = Guard(block, lattice=lattice, what="a cell")
    for some in np.array_split(sums, 3):
        guard.add(some)
    guard.check()


def alarms(draw, runs, order=4, seed=3):
    rng, count = np.random.default_rng(seed), 0
    for _ in range(runs):
        x = draw(rng)
        try:
            check(sums_of(x, order), x.shape[1])
        except BrokenGenerator:
            count += 1
    return count


# --- blocks that repeat


def test_equal_blocks_are_found_wherever_they_stand():
    x = np.random.default_rng(0).standard_normal((5, 256))
    check(sums_of(x), 256)
    x[4] = x[1]
    with pytest.raises(BrokenGenerator, match="1 blocks of a cell repeat others"):
        check(sums_of(x), 256)
    x[4] = x[1][::-1]  # the same replicates in another order, to the last bit of their sums
    sums = sums_of(x)
    sums[4] = sums[1]
    with pytest.raises(BrokenGenerator):
        check(sums, 256)


def test_two_blocks_are_enough_and_one_says_nothing():
    x = np.random.default_rng(1).standard_normal((1, 256))
    check(sums_of(x), 256)
    check(sums_of(x)[:0], 256)
    with pytest.raises(BrokenGenerator):
        check(np.repeat(sums_of(x), 2, 0), 256)


def test_blocks_that_are_not_full_or_constant_are_not_compared():
    sums = sums_of(np.random.default_rng(2).standard_normal((3, 256)))
    short = np.repeat(sums[:1], 2, 0)
    short[:, 0] = 255
    constant = np.repeat([[256.0, 1.0, 0.0, 0.0, 0.0, 0.0]], 9, 0)
    check(np.concatenate([sums, short, constant]), 256)


@pytest.mark.parametrize("p", [0.5, 0.03])
def test_equal_blocks_of_a_lattice_are_allowed_as_often_as_they_happen(p):
    """Rate 1e-9; two points of probability p agree once in 2 sqrt(pi block p (1-p)) pairs."""
    rng, block, m = np.random.default_rng(4), 65536, 40
    x = np.where(np.arange(block) < rng.binomial(block, p, m)[:, None], 1.0, -1.0)
    sums = sums_of(x)
    sums[1] = sums[0]  # to have one that is sure
    check(sums, block, lattice=True)
    check(sums[:, :5], block, lattice=True)
    with pytest.raises(BrokenGenerator, match="repeat others"):
        check(sums, block)
    with pytest.raises(BrokenGenerator, match="repeat others"):
        check(np.tile(sums[:8], (5, 1)), block, lattice=True)


# --- block means that spread wrongly


def with_ratio(ratio, m, block):
    """Sums of normal-like blocks, the variance of their means `ratio` times what it should be."""
    means = np.linspace(-1, 1, m)
    means *= np.sqrt(ratio / block / means.var(ddof=1))
    sums = np.tile([0.0, block - 1.0, 0.0, 3.0], (m, 1))
    return np.column_stack([np.full(m, block), means, sums])


@pytest.mark.parametrize(("m", "block"), [(3, 64), (10, 1024), (200, 65536)])
@pytest.mark.parametrize("side", ["low", "high"])
def test_the_threshold_is_fishers_law_at_its_rate_on_both_sides(m, block, side):
    freedom = m - 1, m * (block - 1)
    # fdtri loses digits far out, so the threshold is bracketed by what fdtr says of it
    edge = fdtri(*freedom, FALSE_ALARM / 2) if side == "low" else 1 / fdtri(
        freedom[1], freedom[0], FALSE_ALARM / 2
    )  # fmt: skip
    tail = fdtr(*freedom, edge) if side == "low" else fdtr(freedom[1], freedom[0], 1 / edge)
    assert tail == pytest.approx(FALSE_ALARM / 2, rel=1e-5)
    outward = 0.999 if side == "low" else 1.001
    check(with_ratio(edge / outward, m, block), block)
    with pytest.raises(BrokenGenerator, match="times what independent draws give"):
        check(with_ratio(edge * outward, m, block), block)


@pytest.mark.parametrize(
    ("what", "draw"),
    [
        ("normal", lambda rng: rng.standard_normal((5, 64))),
        ("many blocks", lambda rng: rng.standard_normal((40, 32))),
        ("uniform", lambda rng: rng.random((5, 64))),
        ("exponential", lambda rng: rng.standard_exponential((4, 600))),
        ("laplace", lambda rng: rng.laplace(size=(4, 300))),
    ],
)
def test_honest_blocks_alarm_at_the_stated_rate(monkeypatch, what, draw):
    """A binomial count at 1 % in place of 1e-9, both sides; each block's skew moves it a little.

    The excess kurtosis of a block mean is below 0.012 here, hence the rate within a tenth.
    """
    monkeypatch.setattr(guards, "FALSE_ALARM", 0.01)
    monkeypatch.setattr(guards, "_HEAVIEST", 0.012)
    runs = 2500
    count = alarms(draw, runs, order=3 if what == "exponential" else 4)
    assert binom.sf(count - 1, runs, 0.011) > ONE_SIDE, count
    assert binom.cdf(count, runs, 0.009) > ONE_SIDE, count


def test_heavy_tails_do_not_alarm():
    """Means of a few rare values have no known law: the spread is left alone, the rest is not."""

    def sparse(rng):
        return rng.standard_normal((8, 4096)) * (rng.random((8, 4096)) < 1e-3)

    def rare(rng):
        return (rng.random((8, 4096)) < 1e-4) * (1 + rng.random((8, 4096)))

    for draw in (sparse, rare):
        for order in (3, 4):
            assert alarms(draw, 60, order) == 0
    x = sparse(np.random.default_rng(0))
    with pytest.raises(BrokenGenerator):
        check(sums_of(np.concatenate([x, x])), 4096)


def test_small_blocks_are_only_compared():
    """Blocks of a few replicates, of rows with very many keys, cannot tell their own tails."""
    x = np.random.default_rng(5).lognormal(0, 2, (500, 2))
    check(sums_of(x), 2)
    check(sums_of(x * 1.0, 3), 2)
    with pytest.raises(BrokenGenerator):
        check(sums_of(np.concatenate([x, x[:1]])), 2)


# --- planted in the simulation: an internal error, whatever the theory

PAIRS = ("--dk", "4", "--samples", "300000")
ROWS = ("--dk", "4", "--n-keys", "64", "--quantities", "entropy", "second_prob",
        "--samples", "20000")  # fmt: skip


@pytest.fixture
def command(monkeypatch, capfd, tmp_path):
    """Run a command line in this process: exit code and what it said."""
    monkeypatch.chdir(tmp_path)

    def call(*line):
        monkeypatch.setattr(sys, "argv", ["verify-variance", *line])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capfd.readouterr()

    return call


def same_block(block):
    return 0, 0


def every_other_block(block):
    return 0, block % 2


@pytest.mark.parametrize("planted", [same_block, every_other_block])
@pytest.mark.parametrize(("module", "line"), [(logits, PAIRS), (rows, ROWS)])
def test_a_kernel_that_repeats_its_blocks_exits_70(command, monkeypatch, module, line, planted):
    monkeypatch.setattr(module, "block_words", planted)
    code, out, err = command(*line)
    assert (code, out) == (70, "")
    assert err.startswith("verify-variance: internal error: BrokenGenerator: ")
    assert "repeat others in all their power sums" in err
    assert err.count("\n") == 1


def test_the_twins_that_repeat_nothing_exit_0(command):
    assert command(*PAIRS)[0] == 0
    assert command(*ROWS)[0] == 0


@pytest.mark.parametrize("line", [PAIRS, ROWS])
@pytest.mark.parametrize("factor", [1 / 64, 64])
def test_an_error_bar_of_the_wrong_size_exits_70(command, monkeypatch, line, factor):
    """Sums of squares 64 times too small, as where 64 logits of a row are pooled; and too large.

    20 blocks at least: P(chi^2_19 < 19 / 64) = 1e-14, and the other side is smaller still.
    """

    add = Guard.add

    def planted(guard, sums):
        sums = sums.copy()
        sums[:, 3:] *= factor ** (np.arange(3, sums.shape[1]) / 2)
        add(guard, sums)

    monkeypatch.setattr(Guard, "add", planted)
    blocks_of_20 = {"300000": str(20 * 65536), "20000": str(20 * 2048)}
    code, _, err = command(*(blocks_of_20.get(word, word) for word in line))
    assert code == 70
    assert "times what independent draws give" in err


def test_repetitions_are_found_in_bounded_memory():
    """Every row twice, a thousand rows apart: the share that is looked at is known."""
    rows = np.random.default_rng(5).standard_normal((8000, 4))
    few, all_ = Distinct(most=500), Distinct()
    for some in np.array_split(np.concatenate([rows, rows]), 16):
        few.add(some)
        all_.add(some)
    assert (all_.repeated, all_.share) == (8000, 1.0)
    assert few.share in (1 / 16, 1 / 32)  # 8000 / 500 = 16
    # binomial with share p; 1e-6 two-sided
    low, high = binom.interval(1 - 1e-6, 8000, few.share)
    assert low <= few.repeated <= high
    assert len(few._rows) <= 500


def test_a_constant_is_one_row_however_often():
    distinct = Distinct(most=4)
    for _ in range(10):
        distinct.add(np.array([[0.0, 1.0], [-0.0, 1.0]]))
    assert (distinct.repeated, distinct.share) == (19, 1.0)


# --- honest laws that look odd


HONEST = [
    # few values, so that blocks agree by chance
    (Case(d_k=1, elements_q="rademacher", elements_k="rademacher"), 60 * 65536, ("logit",)),
    (Case(d_k=2, elements_q="rademacher", elements_k="rademacher"), 60 * 65536, ("logit",)),
    # 1e-6 of the logits are not 0
    (Case(d_k=1, elements_q="sparse:0.001", elements_k="sparse:0.001"), 60 * 65536, ("logit",)),
    (Case(d_k=1, elements_q="sparse:0.01", elements_k="student-t:9"), 30 * 65536, ("logit",)),
    # the mean of a block is 1e11 times as large as its error
    (Case(d_k=8, mean_q=1e4, mean_k=1e4), 40 * 65536, ("logit",)),
    # rows: two values; rounding alone; rare values
    (Case(d_k=1, n_keys=2, elements_q="rademacher", elements_k="rademacher"), 2_000_000, None),
    (Case(d_k=None, n_keys=10, logit_std=1e-3), 1_000_000, None),
    (Case(d_k=None, n_keys=10, logit_std=1e-4), 1_000_000, None),
    (Case(d_k=None, n_keys=10, logit_std=1e-7), 1_000_000, None),
    (Case(d_k=None, n_keys=2, logit_std=1e4), 2_000_000, None),
    (Case(d_k=1, n_keys=10, elements_q="sparse:0.001"), 500_000, None),
]


@pytest.mark.parametrize(("case", "draws", "measured"), HONEST)
def test_honest_draws_of_odd_laws_are_left_alone(case, draws, measured):
    cell = Cell(case, draws, False, (1.0,), measured or ("entropy", "second_prob"))
    measure(cell, 1, devices.use_platform("auto"))
