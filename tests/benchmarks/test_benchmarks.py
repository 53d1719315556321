"""The benchmarks run, and their rivals measure the same quantity as we do. Nothing is timed."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))  # they are plain scripts, side by side

import c_limit
import cores
import drawing
import memory
import numpy_scripts
import quadrature
import rows
import start_up
import table
from interleave import Contestant, Sizes, interleave
from verify_variance.stats.cases import Case
from verify_variance.stats.predict import predict

PAIRS = 16384
MINUTE = Sizes(elements=2 * drawing.D_K * PAIRS, repeats=1, largest=2e6)

RIVALS = {"normal": drawing.normals(), "rademacher": drawing.rademacher()}
RIVALS |= {law: drawing.element_law(law) for law in numpy_scripts.SCRIPTS}
FINDERS = [
    pytest.param(law, variance, id=f"{law}, {name}")
    for law, rivals in RIVALS.items()
    for name, variance in rivals.items()
    if name != "ours" or law in ("normal", "rademacher")  # the others cost a compilation each
]


def disagreement(law, variance):
    """Standard errors between a variance of `PAIRS` logits and theory.

    Normal beyond 7 (2.6e-12) but for its skewness, which for squares of near-normal logits is at
    most about 5 / sqrt(PAIRS) and raises the tail by exp(7^3 5 / 128 / 6) = 9; student-t:9 may
    also get there by one single logit of 36 standard deviations, 6e-9. Each below 1e-6.
    """
    theory = predict(Case(d_k=drawing.D_K, elements_q=law, elements_k=law), "variance")
    return abs(variance - theory.value) / (theory.replicate_sd / math.sqrt(PAIRS))


@pytest.mark.parametrize(("law", "finder"), FINDERS)
def test_everyone_finds_the_variance(law, finder):
    found = finder(PAIRS, drawing.D_K, drawing.SEED)
    assert disagreement(law, found) < 7
    assert disagreement(law, 0.8 * found) > 7


@pytest.mark.skipif(c_limit.compiler() is None, reason="no C compiler")
def test_the_limit_draws_from_threefry():
    """Random123's published known answers for threefry2x32, 20 rounds."""
    ones, pi = (2**32 - 1,) * 2, ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3))
    assert c_limit.threefry_words((0, 0), (0, 0)) == (0x6B200159, 0x99BA4EFE)
    assert c_limit.threefry_words(ones, ones) == (0x1CB996FC, 0xBB002BE7)
    assert c_limit.threefry_words(*pi) == (0xC4923A9C, 0x483DF7A0)


def test_everyone_finds_the_same_rows():
    """Off by at most a rounding, 2^-24, for each row and key summed and 32 for the functions."""
    n_rows, n_keys = 64, 10
    within = {"rtol": (n_rows + n_keys + 32) * 2.0**-24}
    blocks = rows.draw_blocks(1, n_keys)[:, :n_rows]
    ours, *others = (contestant.work() for contestant in rows.contestants(blocks))
    others += [contestant.work() for contestant in rows.spectral_contestants(blocks)]
    spectral = others[0]["jacobian_spectral"]
    for found in others:
        for name, value in found.items():
            np.testing.assert_allclose(
                value, {**ours, "jacobian_spectral": spectral}[name], **within
            )


def test_every_contestant_takes_its_turn():
    turns = []
    entrants = [Contestant(name, lambda name=name: turns.append(name)) for name in "ab"]
    assert [times.name for times in interleave(entrants, 2)] == ["a", "b"]
    assert turns == ["a", "b"] * 3


def test_a_ratio_is_judged_by_its_goal():
    met = [table.at_least("w", "CPU", 1.0, "r", ratio, 2.0).met for ratio in (1.9, 2.0)]
    assert met == ["NO", "yes"]
    assert table.at_most("w", "", "", "r", "", 2.1, 2.0).met == "NO"
    assert table.limit("w", "wall", 0.021, 0.02).met == "NO"
    assert "2.00" in table.render([table.at_least("w", "CPU", 1.0, "r", 2.0)])


@pytest.mark.parametrize("work", [rows, quadrature, memory, cores], ids=lambda m: m.__name__)
def test_benchmark_runs(work, monkeypatch):
    monkeypatch.setattr(rows, "N_KEYS", (10,))
    monkeypatch.setattr(quadrature, "N_KEYS", (10,))
    monkeypatch.setattr(quadrature, "LOGIT_STDS", (1.0,))
    monkeypatch.setattr(quadrature, "D_KS", (64,))
    monkeypatch.setattr(memory, "ROUNDS", 1)
    assert table.render(list(work.lines(MINUTE)))


def test_start_up_runs():
    assert len(list(start_up.lines(MINUTE, ("--help",)))) == 1


def test_drawing_runs(monkeypatch):
    monkeypatch.setattr(numpy_scripts, "SCRIPTS", {"uniform": numpy_scripts.SCRIPTS["uniform"]})
    assert [line.work for line in drawing.lines(MINUTE)][-1] == "uniform"
