"""Planted faults of q and k get their names; sound arrays pass; few rows say so.

Sound arrays are judged at 1e-6 a run and lie well within the tolerance, whatever the seed.
"""

import math
import re

import numpy as np
import pytest
from verify_variance.reports.arrays import audit_logits
from verify_variance.stats.checks import InputError
from verify_variance.stats.vectors import audit, terms
from verify_variance.stats.vectors.audit import audit_vectors

N, D = 2000, 32


def normal(*shape):
    return np.random.default_rng().normal(size=shape or (2, N, D))


def causes(q, k, factor=None):
    found = audit_vectors(q, k, factor).findings
    return {finding.cause for finding in found if finding.verdict == "mismatch"}


def planted(case):
    q, k = normal()
    match case:
        case "mean of q":
            return q + np.resize([0.4, 0.4, 0.4, -0.1], D), k
        case "std of q":
            return 1.3 * q, k
        case "std of k":
            return q, 0.7 * k
        case "unequal variances":
            sd = np.sqrt(np.resize([0.2, 1.8], D))
            return q * sd, k * sd
        case "dependent elements":
            common = np.random.default_rng().normal(size=(2, N, 1))
            mixed = 0.75**0.5 * normal() + 0.25**0.5 * common
            return mixed[0], mixed[1]
        case "a mean vector":
            return q + np.resize([1, -1], D), k
        case "q with k":
            return q, 0.3 * q + math.sqrt(1 - 0.09) * k
    raise AssertionError(case)


PLANTED = {
    "mean of q": {"mean-of-q"},
    "std of q": {"variance-of-q", "logit-variance"},
    "std of k": {"variance-of-k", "logit-variance"},
    "unequal variances": {"unequal-variances", "logit-variance"},
    "dependent elements": {"dependent-elements", "logit-variance"},
    "a mean vector": {"variance-of-q", "means", "logit-variance"},
    "q with k": {"q-with-k"},
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_fault_is_named(case):
    assert causes(*planted(case)) == PLANTED[case]


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (1.0, "divisor sqrt(d_k) that is missing"),
        (1 / D, "divided by sqrt(d_k) twice"),
        (1 / math.sqrt(8 * D), "8 heads"),
    ],
)
def test_a_wrong_factor_is_named(factor, said):
    q, k = normal()
    assert causes(q, k, factor) == {"logit-variance"}
    (finding,) = [f for f in audit_vectors(q, k, factor).findings if f.cause]
    assert said in finding.said


SOUND = {
    "normal": lambda: normal(),
    "several heads": lambda: normal(2, 3, 4, 500, 16),
    "uniform": lambda: np.random.default_rng().uniform(-(3**0.5), 3**0.5, (2, N, D)),
    "signs": lambda: np.random.default_rng().choice([-1.0, 1.0], (2, N, D)),
    "a little off": lambda: normal() * 1.02 + 0.02,
    "more keys than queries": lambda: (normal(600, D), normal(3000, D)),
}


@pytest.mark.parametrize("case", SOUND)
def test_sound_arrays_match(case):
    q, k = SOUND[case]()
    assert audit_vectors(q, k).verdict == "match"
    assert audit_vectors(q, k, 1.0).verdict == "mismatch"


def test_few_rows_cannot_tell():
    found = audit_vectors(*normal(2, 12, 8))
    assert found.verdict == "undecided"
    assert audit_logits(*normal(2, 12, 8)).exit_code == 3


def test_a_false_alarm_at_the_tolerance_is_rare():
    """A std exactly the tolerance off is called a mismatch in fewer runs than stated."""
    alarms = 0
    for _ in range(40):
        q, k = normal(2, 200, 16)
        rates = {"false_alarm": 0.49, "tolerance": 0.1}
        found = audit_vectors(q * math.sqrt(1.2), k, **rates).findings
        alarms += any(f.check == "variance of q" and f.verdict == "mismatch" for f in found)
    assert alarms <= 20  # each test has 0.49 / 10: P(more than 20 of 40) < 1e-14


def test_the_formula_is_checked_against_the_logits(monkeypatch):
    monkeypatch.setattr(audit, "grid_variance", lambda q, k: 1.001 * terms.grid_variance(q, k))
    assert "formula" in causes(*normal())


def test_entropies_are_of_one_pass_at_four_factors():
    found = audit_vectors(*normal(), 0.3)
    rows = [f for f in found.findings if f.check == "entropy"]
    assert [f.place["factor"] for f in rows] == pytest.approx([0.3, 1.0, D**-0.5, 1 / D])
    assert rows[2].measured == pytest.approx(rows[2].expected, rel=0.02)
    order = sorted(rows, key=lambda f: f.place["factor"])
    assert [f.measured for f in order] == sorted((f.measured for f in rows), reverse=True)


@pytest.mark.parametrize("framework", ["jax", "torch", "bfloat16"])
def test_arrays_of_other_frameworks_are_taken(framework):
    q, k = normal()
    if framework == "torch":
        torch = pytest.importorskip("torch", reason="the extra torch is not installed")
        q, k = torch.tensor(q, requires_grad=True), torch.tensor(k).bfloat16()
    else:
        import jax.numpy as jnp

        q, k = jnp.asarray(q), jnp.asarray(k, jnp.bfloat16 if framework == "bfloat16" else None)
    assert audit_vectors(q, k).verdict == "match"


@pytest.mark.parametrize(
    ("q", "k", "said"),
    [
        (np.ones((4, 3)), np.ones((4, 2)), "the same leading axes and d_k"),
        (np.ones(4), np.ones(4), "must be (..., n, d_k)"),
        (1.0, 2.0, "must be (..., n, d_k)"),
        ([[1.0], [1.0, 2.0]], np.ones((2, 2)), "q must be one array"),
        (np.ones((1, 3)), np.ones((4, 3)), "2 rows at least"),
        (np.full((4, 3), np.nan), np.ones((4, 3)), "q must be finite"),
        ([["a"] * 3] * 4, np.ones((4, 3)), "q must be real numbers"),
        (np.ones((4, 3), complex), np.ones((4, 3)), "q must be real numbers"),
    ],
)
def test_what_is_no_q_and_k_is_refused(q, k, said):
    with pytest.raises(InputError, match=re.escape(said)):
        audit_logits(q, k)
    with pytest.raises(InputError, match="factor must be"):
        audit_logits(np.ones((4, 3)), np.ones((4, 3)), 0.0)
    with pytest.raises(InputError, match="false_alarm must be a number between"):
        audit_logits(np.ones((4, 3)), np.ones((4, 3)), false_alarm=2)


def test_constant_arrays_do_not_crash():
    found = audit_vectors(np.ones((9, 4)), np.zeros((9, 4)))
    assert found.verdict == "mismatch"
