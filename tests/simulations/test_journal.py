"""What a run keeps of itself: stopped anywhere, it goes on to the same bits or says why not."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
import verify_variance as vv
from verify_variance.simulations import journal, sweep
from verify_variance.simulations.journal import Journal, packed, unpacked
from verify_variance.simulations.parts import Part
from verify_variance.stats.cases import Case
from verify_variance.stats.cells import Cell

IDENTITY = {"seed": 0, "jax": "1.0"}


def a_part(first, blocks=2):
    """A part of every kind, with numbers that text would not keep."""
    rng = np.random.default_rng(first)
    return Part(
        first,
        blocks,
        {("logit", None): rng.standard_normal((blocks, 10)) * 1e300},
        {("entropy", 1 / 3): rng.standard_normal((blocks, 5))},
        {("counts", None): rng.integers(0, 2**62, 1026)},
        (-np.inf, 1e-320),
    )


def same(a, b):
    groups = [(a.sums, b.sums), (a.seen, b.seen), (a.counts, b.counts)]
    return (a.first, a.blocks, a.ends) == (b.first, b.blocks, b.ends) and all(
        x.keys() == y.keys() and all(np.array_equal(x[k], y[k]) for k in x) for x, y in groups
    )


def test_a_part_comes_back_to_the_last_bit():
    part = a_part(2**40)
    assert same(unpacked(packed(part)), part)
    assert same(unpacked(packed(Part(0, 1))), Part(0, 1))


def test_parts_are_there_again_in_order_and_once(tmp_path):
    path = str(tmp_path / "run.db")
    first = Journal(path, IDENTITY)
    for part in (a_part(0), a_part(2, 1), a_part(0), a_part(1)):  # the latter two are known
        first.keep("sums", part)
    first.close()
    again = Journal(path, dict(IDENTITY))
    assert same(again.part("sums", 0, 99), a_part(0))
    assert same(again.part("sums", 2, 3), a_part(2, 1))
    assert again.part("sums", 2, 2) is None  # goes further than was asked for
    assert again.part("sums", 3, 99) is None
    assert again.part("counts", 0, 99) is None
    again.keep("sums", a_part(3, 5))
    again.close()
    assert Journal(path, IDENTITY).part("sums", 3, 8).blocks == 5


# --- whose file it is


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"seed": 1, "jax": "1.0"}, "seed is 0 there, got 1; run what it was begun with"),
        ({"seed": 0, "jax": "1.1"}, 'jax is "1.0" there, got "1.1"'),
        ({"seed": 0, "jax": "1.0", "dk": [3]}, r"dk is null there, got \[3\]"),
        ({"seed": 0}, 'jax is "1.0" there, got null'),
    ],
)
def test_the_file_of_another_run_is_refused(tmp_path, other, said):
    path = str(tmp_path / "run.db")
    Journal(path, IDENTITY).close()
    with pytest.raises(vv.InputError, match=said):
        Journal(path, other)
    Journal(path, IDENTITY).close()


def test_one_process_at_a_time(tmp_path):
    path = str(tmp_path / "run.db")
    held = Journal(path, IDENTITY)
    code = (
        "import sys, time, verify_variance as vv\n"
        "from verify_variance.simulations.journal import Journal\n"
        "start = time.monotonic()\n"
        "try: Journal(sys.argv[1], {'seed': 0, 'jax': '1.0'})\n"
        "except vv.InputError as error: print(time.monotonic() - start < 1, error)\n"
    )
    line = [sys.executable, "-c", code, path]
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"True resume file {path} is in use by another process; ")
    held.close()
    assert subprocess.run(line, capture_output=True, text=True, check=True).stdout == ""


def test_another_programs_files_are_left_alone(tmp_path):
    text, database = tmp_path / "text.db", tmp_path / "other.db"
    text.write_text("a list of things to do\n" * 40)
    with sqlite3.connect(database) as other:
        other.execute("CREATE TABLE things (name TEXT)")
    before = text.read_bytes(), database.read_bytes()
    with pytest.raises(vv.InputError, match=r"text.db is no SQLite file; name another$"):
        Journal(str(text), IDENTITY)
    with pytest.raises(vv.InputError, match=r"other.db is another program's; name another$"):
        Journal(str(database), IDENTITY)
    assert (text.read_bytes(), database.read_bytes()) == before


def test_an_empty_file_is_one_that_was_not_begun(tmp_path):
    path = tmp_path / "run.db"
    path.touch()
    Journal(str(path), IDENTITY).close()
    Journal(str(path), IDENTITY).close()


# --- damage


def filled(path, parts=40):
    kept = Journal(str(path), IDENTITY)
    for i in range(parts):
        kept.keep("sums", a_part(2 * i))
    kept.close()


def test_a_changed_number_is_found_by_its_row(tmp_path):
    """What SQLite itself cannot see: a row that is well formed and says something else."""
    path = tmp_path / "run.db"
    for change in ("blocks = 1", "data = (SELECT data FROM parts WHERE first = 4)"):
        path.unlink(missing_ok=True)
        filled(path)
        with sqlite3.connect(path) as file:
            file.execute(f"UPDATE parts SET {change} WHERE first = 6")
        kept = Journal(str(path), IDENTITY)
        assert same(kept.part("sums", 4, 99), a_part(4))
        with pytest.raises(vv.InputError, match=r"is damaged at block 6; move it away"):
            kept.part("sums", 6, 99)
        kept.close()


def test_a_file_with_flipped_bits_or_cut_short_is_refused_or_right(tmp_path):
    """60 faults: each is found, or did not touch a part."""
    path, found = tmp_path / "run.db", 0
    filled(path)
    whole, rng = path.read_bytes(), random.Random(5)
    for fault in range(60):
        data = bytearray(whole)
        if fault % 3:
            at = rng.randrange(len(data))
            data[at : at + 64] = bytes(byte ^ 0x55 for byte in data[at : at + 64])
        else:
            del data[rng.randrange(1, len(data)) :]
        path.write_bytes(data)
        try:
            kept = Journal(str(path), IDENTITY)
            try:
                parts = [kept.part("sums", 2 * i, 999) for i in range(40)]
            finally:
                kept.close()
        except vv.InputError:
            found += 1
            continue
        assert all(part is None or same(part, a_part(2 * i)) for i, part in enumerate(parts))
    assert found >= 40


def test_a_full_disk_loses_nothing_that_was_there(tmp_path, monkeypatch):
    """SQLite is given as many pages as it has: the same complaint as of a full disk."""
    path = tmp_path / "run.db"
    filled(path, 3)
    kept = Journal(str(path), IDENTITY)
    kept._file.execute("PRAGMA max_page_count = 1")  # as few as there are
    monkeypatch.setattr(journal, "COMMIT_SECONDS", 0)
    more = [a_part(2 * i) for i in range(3, 40)]
    with pytest.raises(vv.InputError, match="cannot be written: database or disk is full; what it"):
        all(kept.keep("sums", part) is None for part in more)
    kept.close()
    again = Journal(str(path), IDENTITY)
    assert all(same(again.part("sums", 2 * i, 99), a_part(2 * i)) for i in range(3))
    again.keep("sums", a_part(6))
    again.close()


# --- whole runs


CELLS = {
    "pairs and counts": ({"dk": 4, "quantities": ["std", "law"]}, 65536),
    "rows and bins": (
        {"dk": 4, "n_keys": 10, "quantities": ["entropy", "jacobian_frobenius_median"]},
        8192,
    ),
    "groups": ({"dk": 4, "transform": "gqa:2", "quantities": "std"}, 32768),
    "weights": ({"dk": 4, "d_model": 8, "weights": "xavier-normal", "quantities": "std"}, 32768),
    "half": ({"dk": 4, "dtype": "float16", "quantities": "std"}, 65536),
}


@pytest.mark.parametrize(("options", "block"), CELLS.values(), ids=CELLS)
def test_every_kind_of_cell_goes_on_to_the_same_bits(tmp_path, options, block):
    few, many = 2 * block + 77, 5 * block + 5
    unbroken = vv.verify(**options, samples=many).record
    path = str(tmp_path / "run.db")
    first = vv.verify(**options, samples=few, resume=path).record
    assert first["provenance"]["resumed_blocks"] == 0
    grown = vv.verify(**options, samples=many, resume=path).record
    again = vv.verify(**options, samples=many, resume=path).record
    fewer = vv.verify(**options, samples=few, resume=path).record
    assert grown["rows"] == again["rows"] == unbroken["rows"]
    assert fewer["rows"] == first["rows"]
    resumed = [one["provenance"]["resumed_blocks"] for one in (grown, again)]
    assert 0 < resumed[0] < resumed[1]


def test_a_resumed_block_is_not_drawn(tmp_path, monkeypatch):
    path, asked = str(tmp_path / "run.db"), []
    options = {"dk": 3, "samples": 5 * 65536 + 9, "resume": path}
    vv.verify(**options)
    measured = sweep.PairSums.measure

    def measure(self, first, blocks, *rest):
        asked.append((first, blocks))
        return measured(self, first, blocks, *rest)

    monkeypatch.setattr(sweep.PairSums, "measure", measure)
    vv.verify(**options)
    assert asked == [(5, 1)]  # the block that is not full


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"dk": 4}, "dk is"),
        ({"seed": 1}, "seed is 0 there, got 1"),
        ({"tolerance": 0.5}, "tolerance is null there, got 0.5"),
        ({"quantities": "mean"}, "quantities is"),
        ({"dtype": "float64"}, "dtype is"),
    ],
)
def test_another_request_is_refused_by_its_name(tmp_path, changed, named):
    path = str(tmp_path / "run.db")
    options = {"dk": 3, "samples": 70_000}
    vv.verify(**options, resume=path)
    with pytest.raises(vv.InputError, match=named):
        vv.verify(**(options | changed), resume=path)


def test_another_device_or_version_is_refused_by_its_name(tmp_path, monkeypatch):
    from verify_variance.simulations import long_runs

    path, options = str(tmp_path / "run.db"), {"dk": 3, "samples": 70_000}
    vv.verify(**options, resume=path)
    real = long_runs.identity
    for name in ("jaxlib", "device", "arithmetic", "platform"):
        monkeypatch.setattr(long_runs, "identity", lambda d, n=name: real(d) | {n: "another"})
        with pytest.raises(vv.InputError, match=f'{name} is .* there, got "another"'):
            vv.verify(**options, resume=path)
    monkeypatch.setattr(long_runs, "identity", real)
    monkeypatch.setattr(long_runs, "__version__", "9.9")
    with pytest.raises(vv.InputError, match=r'version is .* there, got "9.9"'):
        vv.verify(**options, resume=path)


@pytest.mark.parametrize(
    ("path", "said"),
    [("no/such/run.db", "folder must exist"), (".", "must be a file"), ("/dev/null", "ordinary")],
)
def test_a_path_that_cannot_be_is_refused_before_anything_is_drawn(tmp_path, path, said):
    with pytest.raises(vv.InputError, match=f"resume.*{said}"):
        vv.verify(dk=3, samples=100, resume=str(tmp_path / path))


def test_a_seed_that_is_drawn_cannot_be_gone_on_with(tmp_path):
    with pytest.raises(vv.InputError, match="seed must be a number with --resume, got random"):
        vv.verify(dk=3, samples=100, seed="random", resume=str(tmp_path / "run.db"))


# --- kill -9

BATCHES, KILLS = 40, int(os.environ.get("KILLS", "5"))
KILLED = f"""
import os, sys, json
import verify_variance as vv
from verify_variance.simulations import journal, pairs
pairs.BATCH_ELEMENTS, journal.COMMIT_SECONDS = 1, 0.0
print("begun", flush=True)
record = vv.verify(dk=1, samples={BATCHES} * 65536 + 5, resume=sys.argv[1]).record
print(json.dumps([record["rows"], record["provenance"]["resumed_blocks"]]))
"""


def test_killed_at_any_moment_it_goes_on_to_the_same_bits(tmp_path):
    """Some times at a moment that is drawn, while blocks are committed one by one."""
    unbroken = vv.verify(dk=1, samples=BATCHES * 65536 + 5).record["rows"]
    path, kills, line = tmp_path / "run.db", 0, [sys.executable, "-c", KILLED]
    seen, rng = [0], random.Random(17)
    while kills < KILLS:
        with subprocess.Popen([*line, str(path)], stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout.readline() == "begun\n"
            wait_for_more(path, seen[-1], rng)
            run.send_signal(signal.SIGKILL)
        if run.returncode == 0:
            break  # it was done before
        kills += 1
        seen.append(blocks_in(path))
        assert seen[-1] >= seen[-2]  # nothing that was there is lost
        if seen[-1] == BATCHES:
            break
    assert kills >= 2
    done = subprocess.run([*line, str(path)], capture_output=True, text=True, check=True)
    assert vv_rows(done.stdout) == (unbroken, seen[-1])
    assert blocks_in(path) == BATCHES  # each is there once


def vv_rows(said):
    rows, resumed = json.loads(said.splitlines()[-1])
    return rows, resumed


def blocks_in(path):
    """Blocks that are committed, as SQLite sees them after the kill; 0 where nothing is."""
    try:
        with sqlite3.connect(path) as file:
            return file.execute("SELECT coalesce(sum(blocks), 0) FROM parts").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def wait_for_more(path, size, rng):
    """Until the file has grown or some seconds have passed, and a moment more."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if path.exists() and path.stat().st_mtime_ns != before:
            break
        time.sleep(0.002)
    time.sleep(rng.random() * 0.05)


def test_a_file_that_may_not_grow_is_one_line_and_what_it_holds_is_whole(tmp_path):
    """The operating system's limit on a file's size: some rows fit, and then no more."""
    path = tmp_path / "run.db"
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (18_000, 18_000))\n"
    full = subprocess.run(
        [sys.executable, "-c", KILLED.replace("print", f"{limited}print", 1), str(path)],
        capture_output=True,
        text=True,
    )
    assert full.returncode == 1
    assert f"InputError: resume file {path} cannot be written: " in full.stderr
    kept = blocks_in(path)
    assert 0 < kept < BATCHES
    line = [sys.executable, "-c", KILLED, str(path)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    unbroken = vv.verify(dk=1, samples=BATCHES * 65536 + 5).record["rows"]
    assert vv_rows(done.stdout) == (unbroken, kept)


def test_looks_at_doubled_draws_are_resumed_as_well(tmp_path):
    options = {"dk": 3, "until_decided": True, "samples": 65536, "max_samples": 2**20}
    unbroken = vv.verify(**options).record["rows"]
    path = str(tmp_path / "run.db")
    vv.verify(**(options | {"max_samples": 2**17}), resume=path)
    assert vv.verify(**options, resume=path).record["rows"] == unbroken


def test_cells_may_be_kept_beside_each_other(tmp_path):
    kept = Journal(str(tmp_path / "run.db"), IDENTITY)
    for d_k in (2, 3):
        cell = Cell(Case(d_k=d_k), 3 * 65536, False, (), ("logit",))
        place = sweep.Place(jax.local_devices(), journal=kept)
        assert sweep.measure(cell, 0, place) == sweep.measure(cell, 0, jax.local_devices())
        assert sweep.measure(cell, 0, place) == sweep.measure(cell, 0, jax.local_devices())
    kept.close()
