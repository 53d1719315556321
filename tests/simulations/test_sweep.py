"""Cells drawn block by block: the same bits in any table, order and place; progress adds up."""

import json
import os
import subprocess
import sys

import jax
import pytest
import verify_variance as vv
from verify_variance.simulations import pairs, rows, sweep
from verify_variance.simulations.parts import Part, Tally
from verify_variance.stats.cases import Case
from verify_variance.stats.cells import Cell

PAIRS, ROWS = 2 * 65536 + 5001, 2 * 8192 + 501  # two blocks and a part of a third, n_keys = 10


def bits(**options):
    """Estimate, mcse and z of every row to the last bit, by what the row is."""
    record = vv.verify(**options).record
    names = ("quantity", "d_k", "n_keys", "elements", "scale", "dtype")
    return {
        "/".join(str(row[name]) for name in names): [
            None if row[name] is None else float(row[name]).hex()
            for name in ("estimate", "mcse", "z")
        ]
        for row in record["rows"]
    }


def everything():
    """Pairs and rows, float32 and float64: what a run elsewhere must reproduce."""
    median = "jacobian_frobenius_median"
    return {
        **bits(dk=[5, 8], quantities="logits", samples=PAIRS),
        **bits(dk=3, quantities=["variance", "mean_abs"], dtype="float64", samples=70_001),
        **bits(dk=6, elements="rademacher", quantities="variance", samples=PAIRS),
        **bits(dk=4, n_keys=10, quantities=["entropy", "jacobian_spectral", median], samples=ROWS),
        **bits(dk=4, n_keys=3, quantities="sum_p2", dtype="float64", samples=70_001),
    }


@pytest.fixture(scope="module")
def here():
    return everything()


def assert_same(found, wanted):
    """Every row of `found` that is among the wanted has their bits, and some are."""
    shared = found.keys() & wanted.keys()
    assert shared
    assert {key: found[key] for key in shared} == {key: wanted[key] for key in shared}
    return len(shared)


@pytest.mark.parametrize("count", [2, 8])
def test_bits_are_those_of_one_core_and_several_devices(here, count):
    """Blocks do not divide by the devices: some of them have nothing to do at the end."""
    flags = f"--xla_force_host_platform_device_count={count}"
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["devices"] == count
    assert len(said["bits"]) == 12 + 2 + 1 + 6 + 2
    if jax.default_backend() == "cpu":
        assert said["bits"] == here


def test_pairs_have_the_same_bits_in_any_table(here):
    others = {"dk": [3, 8, 5], "samples": PAIRS}
    assert assert_same(bits(**others, quantities="variance"), here) == 2
    assert assert_same(bits(**others, quantities=["kurtosis", "mean", "variance"]), here) == 6
    scaled = bits(**others, quantities="std", scale=["dk", "none", "sqrt-dk"])
    assert assert_same(scaled, here) == 2
    among = bits(dk=8, quantities=["entropy", "variance"], n_keys=4, samples=PAIRS)
    assert assert_same(among, here) == 1


def test_rows_have_the_same_bits_in_any_table(here):
    given = {"dk": 4, "n_keys": 10, "samples": ROWS}
    assert assert_same(bits(**given, quantities="entropy"), here) == 2
    others = ["sum_p2", "jacobian_spectral", "saturated", "entropy", "second_prob"]
    assert assert_same(bits(**given, quantities=others), here) == 4
    for scales in (["sqrt-dk"], ["dk", "sqrt-dk", "none"]):
        found = bits(**given, quantities="entropy", scale=scales)
        assert assert_same(found, here) == min(len(scales), 2)
    beside = bits(dk=[64, 4], n_keys=[3, 10], quantities=["variance", "entropy"], samples=ROWS)
    assert assert_same(beside, here) == 2


def test_the_seed_changes_every_estimate(here):
    other = bits(dk=[5, 8], quantities="logits", samples=PAIRS, seed=1)
    assert all(other[key][0] != here[key][0] for key in other)


def test_z_does_not_depend_on_the_rates(here):
    found = bits(dk=5, quantities="variance", samples=PAIRS, false_alarm=0.01, tolerance=0.3)
    assert assert_same(found, here) == 1


@pytest.mark.parametrize(
    ("case", "block", "names"),
    [
        (Case(d_k=3), 65536, ("logit",)),
        (Case(d_k=3, n_keys=10), 8192, ("entropy",)),
    ],
)
def test_more_draws_begin_with_the_blocks_of_fewer(case, block, names):
    sampling = sweep.Sampling(Cell(case, 0, False, (1.0,), names), 7, jax.local_devices())
    counts = (2 * block + 77, 4 * block, 4 * block + 5)
    found = [sampling.until(draws) for draws in counts]
    for draws, continued in zip(counts, found, strict=True):
        cell = Cell(case, draws, False, (1.0,), names)
        assert sweep.measure(cell, 7, jax.local_devices()) == continued
    key = (names[0], 1.0 if case.n_keys else None)
    assert tuple(m[key].count for m in found) == counts
    assert len({m[key].mean for m in found}) == 3


def test_a_block_is_counted_once_and_none_is_left_out():
    tally = Tally({})
    tally.add(Part(0, 2))
    tally.add(Part(2, 1))
    for first in (0, 2, 4):
        with pytest.raises(ValueError, match=f"block 3 must come next, got block {first}"):
            tally.add(Part(first, 1))


@pytest.mark.parametrize("draws", [2, 65536, 65537, 10**7])
@pytest.mark.parametrize("d_k", [1, 64, 2**20])
def test_batches_cover_every_draw_once_and_in_order(monkeypatch, draws, d_k):
    asked = []

    def measure(self, first, blocks, last, devices):
        asked.append((first, blocks, last))
        return Part(first, blocks)

    monkeypatch.setattr(sweep.PairSums, "measure", measure)
    monkeypatch.setattr(sweep.PairSums, "guards", lambda self: {})
    monkeypatch.setattr(sweep.PairSums, "measured", lambda *_: {})
    sweep.measure(Cell(Case(d_k=d_k), draws, False, (), ("logit",)), 0, [])
    expected, drawn = 0, 0
    for first, blocks, last in asked:
        assert first == expected
        assert blocks >= 1
        assert 1 <= last <= 65536
        expected += blocks
        drawn += (blocks - 1) * 65536 + last
    assert drawn == draws


def test_batches_do_not_show_in_the_result(monkeypatch, here):
    monkeypatch.setattr(pairs, "BATCH_ELEMENTS", 1)
    monkeypatch.setattr(rows, "STEPS_IN_FLIGHT", 1)
    assert assert_same(bits(dk=[5, 8], quantities="logits", samples=PAIRS), here) == 12
    assert assert_same(bits(dk=4, n_keys=10, quantities="entropy", samples=ROWS), here) == 2


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"dk": [3, 4], "samples": PAIRS}, 6),
        ({"dk": 3, "n_keys": 10, "quantities": "entropy", "samples": ROWS}, 3),
        ({"dk": 3, "n_keys": 2, "quantities": ["std", "sum_p2"], "samples": 100}, 2),
        ({"logit_std": 1, "n_keys": 10, "quantities": "entropy", "samples": ROWS}, 3),
        ({"dk": 64, "max_elements": 128 * 70_000, "tolerance": 1e-4}, 2),
    ],
)
def test_progress_begins_at_nothing_and_ends_at_everything(monkeypatch, options, steps):
    monkeypatch.setattr(pairs, "BATCH_ELEMENTS", 1)
    monkeypatch.setattr(rows, "STEPS_IN_FLIGHT", 1)
    calls = []
    vv.verify(progress=lambda *far: calls.append(far[:2]), **options)
    drawn, planned = zip(*calls, strict=True)
    assert len(set(planned)) == 1
    assert drawn[0] == 0
    assert drawn[-1] == planned[0]
    assert list(drawn) == sorted(set(drawn))
    if len(jax.local_devices()) == 1:
        assert len(calls) == steps + 1


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(json.dumps({"devices": jax.device_count(), "bits": everything()}))
