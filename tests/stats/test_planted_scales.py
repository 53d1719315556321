"""Mistakes that public projects made with the factor of q.k, and false alarms that were none.

The theory has the right factor, the samples the wrong one. 20000 draws see a gap of 4.1 %, the
smallest planted one is 5.5 %: a run misses it once in 10^6. False alarm: 1e-6 each, any seed.
"""

from functools import lru_cache

import numpy as np
import pytest
from verify_variance.reports.advice import advice
from verify_variance.reports.record import make_record
from verify_variance.stats.cases import Case
from verify_variance.stats.conventions import scale_factor
from verify_variance.stats.decision import overall
from verify_variance.stats.moments import Moments
from verify_variance.stats.request import options_from
from verify_variance.stats.run import Run

DRAWS = 20_000


@lru_cache(maxsize=2)
def vectors(d_k, seed=7):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((2, DRAWS, d_k), dtype=np.float32)


def judged(d_k, scale, logits):
    """The rows of a run whose theory has `scale`, for logits that came from elsewhere."""
    run = Run.planned(*options_from({"dk": d_k, "scale": scale, "quantities": "std",
                                     "samples": DRAWS}))  # fmt: skip
    unscaled = Moments.of(logits / scale_factor(run.rows[0].case), 8)
    rows = run.decided([{("logit", None): unscaled}])
    return overall(rows), " ".join(advice(make_record("run", {}, rows, run.rates)))


PLANTED = {
    "A1 unscaled by config, scaled by sdpa": (
        64, "none", lambda d: d**-0.5, "divided by sqrt(d_k) already, where scale none"),
    "A1 inverse layer dropped by sdpa": (
        64, "inverse-layer:11", lambda d: d**-0.5, "sqrt-dk where inverse-layer:11 was meant"),
    "A2 query scaled, then sdpa's default": (
        64, "sqrt-dk", lambda d: 1 / d, "divided by sqrt(d_k) twice"),
    "A3 divided by d^-0.5": (192, "sqrt-dk", lambda d: d**0.5, "multiplied by sqrt(d_k)"),
    "A4 mscale missing, V2": (
        192, "mscale:40:0.707", lambda d: d**-0.5, "sqrt-dk where mscale:40:0.707 was meant"),
    "A4 mscale missing, V3": (
        192, "mscale:40", lambda d: d**-0.5, "sqrt-dk where mscale:40 was meant"),
    "A5 kernel called with 1.0": (
        64, "sqrt-dk", lambda d: 1.0, "sqrt(d_k) = 8 too large: a divisor sqrt(d_k)"),
    "A8 d_model of 8 heads": (
        64, "sqrt-dk", lambda d: (8 * d) ** -0.5, "d_model = 512 (8 heads)"),
    "A8 d_model of 4 heads": (
        64, "sqrt-dk", lambda d: (4 * d) ** -0.5, "d_model = 256 (4 heads)"),
    "A9 divided by d": (64, "sqrt-dk", lambda d: 1 / d, "or by d_k"),
    "A9 scale 0 used literally": (64, "sqrt-dk", lambda d: 0.0, "measured 0 where theory says 1"),
    "A10 default / scale for scale / default": (
        64, "cosine:10", lambda d: 1 / (10 * d * d), "times its theory"),
    "A11 default scale without its root": (32, "sqrt-dk", lambda d: d**-2.0, "a default scale"),
    "A17 224 for 256": (
        256, "query-pre-attn-scalar:256", lambda d: 224**-0.5, "times its theory"),
    "A17 head_dim for 144": (
        128, "query-pre-attn-scalar:144", lambda d: d**-0.5,
        "sqrt-dk where query-pre-attn-scalar:144 was meant"),
    "A18 padded 80 to 96": (80, "sqrt-dk", lambda d: 96**-0.5, "padded from 80 to 96"),
    "A18 padded 48 to 64": (48, "sqrt-dk", lambda d: 64**-0.5, "padded from 48 to 64"),
    "A18 padded 40 to 64": (40, "sqrt-dk", lambda d: 64**-0.5, "padded from 40 to 64"),
    "A18 padded 72 to 128": (72, "sqrt-dk", lambda d: 128**-0.5, "padded from 72 to 128"),
    "A19 custom scale dropped by sdpa": (
        64, "constant:4", lambda d: d**-0.5, "sqrt-dk where constant:4 was meant"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_factor_is_caught_and_its_cause_named(name):
    d_k, scale, wrong, said = PLANTED[name]
    q, k = vectors(d_k)
    verdict, words = judged(d_k, scale, (q * k).sum(-1) * wrong(d_k))
    assert verdict == "mismatch"
    assert said in words


@pytest.mark.parametrize("name", PLANTED)
def test_the_right_factor_of_the_same_model_matches(name):
    d_k, scale, _, _ = PLANTED[name]
    q, k = vectors(d_k)
    logits = (q * k).sum(-1) * scale_factor(Case(d_k, scale=scale))
    assert judged(d_k, scale, logits) == ("match", "")


FALSE_ALARMS = {
    "B1 scale on q only": lambda q, k: (q / 8 * k).sum(-1),
    "B2 fourth root on q and on k": lambda q, k: (q * 64**-0.25 * (k * 64**-0.25)).sum(-1),
    "B3 divided by the layer, multiplied back": lambda q, k: (q / 8 / 12 * k).sum(-1) * 12,
    "shift by a constant": lambda q, k: (q * k).sum(-1) / 8 + 3,
}


@pytest.mark.parametrize("name", FALSE_ALARMS)
def test_a_false_alarm_matches(name):
    assert judged(64, "sqrt-dk", FALSE_ALARMS[name](*vectors(64))) == ("match", "")
