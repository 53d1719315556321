"""What theory does not give exactly is measured: against plain NumPy, with error bars."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from verify_variance.simulations.claims import measure_claim
from verify_variance.stats.cases import Case
from verify_variance.stats.claims.files import parse_claims
from verify_variance.stats.claims.settings import Request, known, requests_of
from verify_variance.stats.claims.verdicts import judge_claims

CASE = Case(d_k=4, n_keys=5, elements_q="laplace", elements_k="laplace", scale="sqrt-dk")
DEVICES = jax.local_devices()


def by_numpy(rows: int) -> np.ndarray:
    """Largest probabilities of rows with Laplace elements of standard deviation 1."""
    rng = np.random.default_rng(5)
    q = rng.laplace(size=(rows, 1, 4)) / np.sqrt(2)
    k = rng.laplace(size=(rows, 5, 4)) / np.sqrt(2)
    x = (q * k).sum(-1) / 2
    p = np.exp(x - x.max(-1, keepdims=True))
    return p.max(-1) / p.sum(-1)


def test_a_row_without_exact_law():
    """|z| < 5: false alarm 6e-7; the unscaled row is far away."""
    found = measure_claim(Request("max_prob", CASE), 2, DEVICES)
    rows = by_numpy(40_000)
    error = np.hypot(found.error, rows.std() / 200)
    assert abs(found.value - rows.mean()) < 5 * error
    unscaled = measure_claim(Request("max_prob", replace(CASE, scale="none")), 2, DEVICES)
    assert abs(unscaled.value - rows.mean()) > 5 * error


def test_a_ratio_has_the_errors_of_both():
    both = Request("max_prob", CASE, CASE)
    found, alone = (measure_claim(r, 2, DEVICES) for r in (both, Request("max_prob", CASE)))
    assert found.value == 1
    assert found.error == pytest.approx(2**0.5 * alone.error / alone.value)


def test_only_what_is_not_known_is_measured():
    rows = Case(d_k=64, n_keys=10)
    assert known("max_prob", rows)
    assert not known("jacobian_spectral", rows)  # a bracket
    assert not known("jacobian_frobenius_median", rows)
    assert not known("max_prob", CASE)


def test_a_claim_about_such_a_row_is_judged_by_its_error_bar():
    text = """
[[claim]]
id = "{}"
statement = "s"
quantity = "max_prob"
setting = {{dk = 4, n_keys = 5, elements = "laplace", scale = "sqrt-dk"}}
claimed = {}
"""
    file = parse_claims(text.format("right", "0.42") + text.format("wrong", "0.43"), "test")
    (request,) = requests_of(file.claims)
    measured = {request: measure_claim(request, 2, DEVICES)}
    assert [one.verdict for one in judge_claims(file.claims, measured)] == ["confirmed", "refuted"]
