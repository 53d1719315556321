"""One run shared out: the same bits from any number of processes, and an end where one dies."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from itertools import pairwise

import jax
import pytest
import verify_variance as vv
from hypothesis import given, settings
from hypothesis import strategies as st
from verify_variance.simulations import processes, sweep
from verify_variance.simulations.parts import Tally
from verify_variance.stats.cases import Case
from verify_variance.stats.cells import Cell
from verify_variance.stats.long_runs import LongRunOptions

DRAWS = {"dk": [5, 8], "n_keys": [10], "quantities": ["std", "law", "entropy"], "samples": 200_007}
LINE = ["--dk", "5", "8", "--n-keys", "10", "--quantities", "std", "law", "entropy"]
LINE += ["--samples", "200007", "--format", "json"]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def started(count, *line, program=("-m", "verify_variance")):
    """So many real processes on this machine, connected over loopback."""
    port, surroundings = free_port(), {**os.environ, "JAX_PLATFORMS": "cpu"}
    return [
        subprocess.Popen(
            [
                *(sys.executable, *program, *line, "--coordinator", f"127.0.0.1:{port}"),
                *("--num-processes", str(count), "--process-id", str(i)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=surroundings,
        )
        for i in range(count)
    ]


def ended(runs, timeout=120):
    return [(*run.communicate(timeout=timeout), run.returncode) for run in runs]


def bits(rows):
    return [[row[name] for name in ("quantity", "d_k", "estimate", "mcse", "z")] for row in rows]


@pytest.fixture(scope="module")
def here():
    return vv.verify(**DRAWS).record["rows"]


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="compares with processes on the CPU")
@pytest.mark.parametrize("count", [2, 4])
def test_processes_give_the_bits_of_one_and_the_first_alone_speaks(here, count):
    line = LINE if count == 2 else [word for word in LINE if word not in ("law", "entropy")]
    (out, err, code), *others = ended(started(count, *line))
    assert code == 0, err
    record = json.loads(out)
    wanted = [row for row in here if row["quantity"] in line]
    assert bits(record["rows"]) == bits(wanted)
    assert (record["rows"] == wanted) == (count == 2)  # the table decides what Holm makes of p
    assert record["provenance"]["processes"] == count
    assert len(record["provenance"]["devices"]) == count
    assert re.search(
        rf"elements on {count} devices of {count} processes, \S+ million a second", err
    )
    assert others == [("", "", 0)] * (count - 1)


# --- any assignment of blocks


CELLS = (
    Cell(Case(d_k=2), 9 * 65536, False, (), ("logit",)),
    Cell(Case(d_k=2), 9 * 65536, False, (), ("counts",)),
    Cell(Case(d_k=2, n_keys=64), 9 * 2048, False, (0.5, 1.0), ("entropy", "jacobian_spectral")),
)


@pytest.mark.parametrize("cell", CELLS, ids=["sums", "counts", "rows"])
def test_any_assignment_of_blocks_gives_the_same_bits(cell):
    """Blocks are measured in runs of any length and in any order, and merged in theirs."""
    here = jax.local_devices()[:1]
    (each,) = sweep.passes_of(cell, 3)
    whole = Tally(each.guards())
    whole.add(each.measure(0, 9, each.block, here))

    @settings(max_examples=12, deadline=None, derandomize=True)
    @given(st.sets(st.integers(1, 8)), st.randoms(use_true_random=False))
    def same(cuts, rng):
        ends = [0, *sorted(cuts), 9]
        runs = list(pairwise(ends))
        rng.shuffle(runs)
        parts = [each.measure(a, b - a, each.block, here) for a, b in runs]
        tally = Tally(each.guards())
        for part in sorted(parts, key=lambda part: part.first):
            tally.add(part)
        tally.check()
        assert tally.moments == whole.moments
        assert tally.ends == whole.ends
        assert tally.counts.keys() == whole.counts.keys()
        assert all((tally.counts[k] == whole.counts[k]).all() for k in whole.counts)

    same()


class InTurn(processes.Team):
    """Processes that are simulated: what each would say is measured here, one after the other."""

    def __init__(self, index, count, said):
        self.index, self.count, self._said = index, count, said

    def gather(self, data):
        self._said[self.index] = data
        return [self._said.get(i, b"") for i in range(self.count)]


@pytest.mark.parametrize("count", [2, 3, 7, 20])
@pytest.mark.parametrize("blocks", [1, 5, 7])
def test_each_block_is_one_processs(count, blocks):
    """More processes than blocks, and blocks that do not divide by them."""
    (each,), said = sweep.passes_of(CELLS[0], 3), {}
    for index in range(count):
        place = sweep.Place(jax.local_devices()[:1], InTurn(index, count, said))
        sampling = sweep.Sampling(CELLS[0], 3, place)
        found = sampling._parts(each, 2, blocks, 77)
    assert [part.first for part in found] == sorted(part.first for part in found)
    assert found[0].first == 2
    assert sum(part.blocks for part in found) == blocks
    counts = [n for part in found for n in part.sums["logit", None][:, 0]]
    assert counts == [65536.0] * (blocks - 1) + [77.0]


# --- the end of one of them


DYING = """
import sys
from verify_variance.simulations import journal, pairs
pairs.BATCH_ELEMENTS, journal.COMMIT_SECONDS = 1, 0.0
sys.argv = ["verify-variance", *sys.argv[1:]]
from verify_variance.__main__ import main
main()
"""
LONG = ["--dk", "64", "--samples", "1e9", "--resume"]


@pytest.mark.parametrize("dead", [0, 2])
def test_where_one_is_killed_the_others_say_so_and_end_and_what_is_done_is_kept(tmp_path, dead):
    path = str(tmp_path / "run.db")
    runs = started(3, *LONG, path, program=("-c", DYING))
    deadline = time.monotonic() + 100
    while not (os.path.exists(path) and os.path.getsize(path) > 20_000):
        assert time.monotonic() < deadline
        assert all(run.poll() is None for run in runs)
        time.sleep(0.05)
    time.sleep(random.Random(dead).random() * 0.3)
    runs[dead].send_signal(signal.SIGKILL)
    start = time.monotonic()
    outcomes = ended(runs)
    assert time.monotonic() - start < 60
    for index, (out, err, code) in enumerate(outcomes):
        assert out == ""
        assert code == (-signal.SIGKILL if index == dead else 70), err
        if index != dead:
            assert "verify-variance: another process has died" in err
            assert "with --resume it goes on" in err
    import sqlite3

    with sqlite3.connect(path) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert file.execute("SELECT sum(blocks) FROM parts").fetchone()[0] > 0


def test_where_the_first_refuses_the_others_are_told_why(tmp_path):
    path = tmp_path / "run.db"
    path.write_text("no database at all, but a text that is long enough to tell" * 9)
    outcomes = ended(started(2, *LINE, "--resume", str(path)))
    assert [code for *_, code in outcomes] == [2, 70]
    assert "is no SQLite file; name another\n" in outcomes[0][1]
    assert "process 0 gave up: resume file" in outcomes[1][1]


@pytest.mark.parametrize("index", [0, 1])
def test_processes_that_do_not_meet_are_one_line(index):
    """Before JAX is asked, which would abort."""
    given = LongRunOptions(None, "auto", f"127.0.0.1:{free_port()}", 3, index)
    said = {0: "all 3 processes must start within 0.2 s, got 1; ", 1: "process 0 and all others"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "JOINING", 0.2)
        patch.setattr(jax.distributed, "initialize", None)
        with pytest.raises(vv.InputError, match=said[index]):
            processes.join(given)


def test_a_port_that_is_taken_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        given = LongRunOptions(None, "auto", f"127.0.0.1:{port}", 2, 0)
        with pytest.raises(vv.InputError, match=f"coordinator's port must be free, got {port}: "):
            processes.join(given)


# --- on a lone machine nothing is tried


def test_a_lone_machine_is_asked_nothing(monkeypatch):
    def initialize(*_, **__):
        raise AssertionError

    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    for surroundings in ({}, {"SLURM_STEP_NUM_TASKS": "1"}, {"TPU_WORKER_HOSTNAMES": "localhost"}):
        assert processes.join(LongRunOptions(), surroundings) is processes.ALONE
    assert (
        processes.join(LongRunOptions(distributed="off"), {"OMPI_COMM_WORLD_SIZE": "4"}).count == 1
    )
    for surroundings in (
        {"SLURM_STEP_NUM_TASKS": "2"},
        {"OMPI_COMM_WORLD_SIZE": "4"},
        {"TPU_WORKER_HOSTNAMES": "a,b"},
        {"JAX_COORDINATOR_ADDRESS": "10.0.0.1:1"},
    ):
        with pytest.raises(AssertionError):
            processes.join(LongRunOptions(), surroundings)
    with pytest.raises(AssertionError):
        processes.join(LongRunOptions(distributed="on"), {})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"distributed": "maybe"}, "unknown distributed 'maybe'; "),
        ({"process_id": 0}, "go together, got no coordinator and no num_processes; give all three"),
        ({"coordinator": "here"}, "got no num_processes and no process_id"),
        (
            {"coordinator": "here", "num_processes": 2, "process_id": 0},
            "coordinator must be HOST:PORT, got 'here'; write it as 10.0.0.1:8476",
        ),
        (
            {"coordinator": "h:99999", "num_processes": 2, "process_id": 0},
            "coordinator must be HOST:PORT",
        ),
        ({"coordinator": "h:1", "num_processes": 2, "process_id": 2}, "process_id must be"),
        ({"coordinator": "h:1", "num_processes": 0, "process_id": 0}, "num_processes must be"),
        (
            {"coordinator": "h:1", "num_processes": 2, "process_id": 0, "distributed": "off"},
            "coordinator needs distributed auto or on, got off; leave it out",
        ),
    ],
)
def test_options_that_do_not_go_together_are_one_line(options, said):
    with pytest.raises(vv.InputError, match=re.escape(said)):
        vv.verify(dk=4, **options)
