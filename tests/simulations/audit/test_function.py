"""What an audit measures besides the factor's name, and functions that misbehave."""

import math
import sys

import numpy as np
import pytest
import verify_variance as vv
from verify_variance.simulations.audit.function import audit_function
from verify_variance.stats.audit.options import audit_options
from verify_variance.stats.checks import InputError

QUICK = {"dk": [48, 64], "dtype": ["float32"]}


def turned(x):
    return x.swapaxes(-1, -2)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def right(q, k, v):
    return softmax(q @ turned(k) * np.float32(q.shape[-1] ** -0.5)) @ v


def attends(logits):
    return lambda q, k, v: softmax(logits(q, k) * np.float32(q.shape[-1] ** -0.5)) @ v


def unit(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True))


def audited(attention, **options):
    return audit_function(attention, "planted", audit_options(QUICK | options))


def finding(audit, check, where=""):
    return next(f for f in audit.findings if f.check == check and f.where.startswith(where))


@pytest.mark.parametrize("seed", [0, *np.random.SeedSequence().generate_state(2)])
def test_the_factor_at_each_d_k_and_its_exponent(seed):
    sizes = [16, 40, 48, 64, 72, 80, 96, 128]
    audit = audited(right, dk=sizes, seed=int(seed))
    measured = {f.place["d_k"]: f.measured for f in audit.findings if f.check == "factor"}
    assert measured == {d: pytest.approx(d**-0.5, rel=1e-5) for d in sizes}
    exponent = finding(audit, "exponent of d_k")
    assert exponent.measured == pytest.approx(-0.5, abs=exponent.allowed)
    assert exponent.allowed < 2e-5
    assert audit.verdict == "match"


@pytest.mark.parametrize("power", [0.0, 0.25, 1.0, 1.5])
def test_the_exponent_is_that_of_the_function(power):
    audit = audited(lambda q, k, v: softmax(q @ turned(k) * np.float32(q.shape[-1] ** -power)) @ v)
    assert finding(audit, "exponent of d_k").measured == pytest.approx(-power, abs=1e-4)
    assert audit.verdict == "mismatch"
    assert audited(right, expected="power:0.5").verdict == "match"


@pytest.mark.parametrize("cap", [2.0, 10.0, 50.0, 300.0])
def test_a_cap_is_recognised_and_its_bound_estimated(cap):
    root = np.float32(64**-0.5)
    capped = audited(
        lambda q, k, v: softmax(cap * np.tanh(q @ turned(k) * root / cap)) @ v, dk=[64]
    )
    form = finding(capped, "form")
    assert form.cause == "softcap"
    assert form.measured == pytest.approx(cap, rel=1e-3)
    assert finding(capped, "factor").measured == pytest.approx(1 / 8, rel=1e-5)
    assert capped.verdict == "match"


def test_a_clip_is_recognised_and_its_bound_estimated():
    clipped = audited(lambda q, k, v: softmax(np.clip(q @ turned(k) / 8, -7, 7)) @ v, dk=[64])
    assert finding(clipped, "form").cause == "clip"
    assert finding(clipped, "form").measured == pytest.approx(7, rel=1e-5)


@pytest.mark.parametrize(
    ("logits", "slug", "said"),
    [
        (lambda q, k: unit(q) @ turned(unit(k)), "qk-norm", "RMS or L2"),
        (lambda q, k: q @ turned(unit(k)), "k-norm", "k is normalised"),
        (lambda q, k: unit(q) @ turned(k), "q-norm", "q is normalised"),
        (
            lambda q, k: (
                unit(q - q.mean(-1, keepdims=True)) @ turned(unit(k - k.mean(-1, keepdims=True)))
            ),
            "qk-norm",
            "LayerNorm",
        ),
    ],
)
def test_normalised_queries_and_keys_are_recognised(logits, slug, said):
    audit = audited(attends(logits))
    form = finding(audit, "form")
    assert (form.cause, form.verdict) == (slug, "measured")
    assert said in form.said
    assert audit.verdict == "match"


def test_heads_that_the_function_makes_by_itself():
    def split(q, k, v):
        def heads(x):
            return x.reshape(*x.shape[:-1], 4, -1).swapaxes(-2, -3)

        out = right(heads(q), heads(k), heads(v)).swapaxes(-2, -3)
        return out.reshape(v.shape)

    audit = audited(split, dk=[64], layout="bld")
    assert audit.verdict == "match"
    assert audit.facts["layout"] == "bld (batch, length, 4 heads x d_k)"
    assert finding(audit, "factor").place == {"d_k": 64}
    assert finding(audit, "factor").measured == pytest.approx(1 / 8, rel=1e-5)


def turn(x):
    """Rotary position embedding: pairs of elements turned by an angle that grows with position."""
    d = x.shape[-1]
    angle = np.arange(x.shape[-2])[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    c, s, out = np.cos(angle), np.sin(angle), np.empty_like(x)
    out[..., ::2] = x[..., ::2] * c - x[..., 1::2] * s
    out[..., 1::2] = x[..., ::2] * s + x[..., 1::2] * c
    return out


@pytest.mark.parametrize(("times", "verdict"), [(1.0, "match"), (1.873854, "mismatch")])
def test_rotations_by_position_are_seen_through(times, verdict):
    """YaRN puts its mscale into cosine and sine, so that it shows in the factor."""
    audit = audited(attends(lambda q, k: turn(q) @ turned(turn(k)) * np.float32(times)))
    assert finding(audit, "form").cause == "rotated"
    assert finding(audit, "factor", "d_k = 64").measured == pytest.approx(times / 8, rel=1e-5)
    assert audit.verdict == verdict
    assert verdict == "match" or finding(audit, "factor").cause == "mscale"


def test_a_scale_for_each_element_cannot_be_told_as_one_factor():
    gains = np.linspace(0.5, 2, 64, dtype=np.float32)
    audit = audited(attends(lambda q, k: (q * gains) @ turned(k)), dk=[64])
    assert finding(audit, "form").cause == "per-dimension"
    assert audit.verdict == "undecided"


@pytest.mark.parametrize(("logit", "cause"), [(0.0, "softmax1"), (1.5, "sink")])
def test_a_sink_is_measured_and_no_mistake(logit, cause):
    def with_sink(q, k, v):
        e = np.exp(q @ turned(k) * np.float32(q.shape[-1] ** -0.5))
        return e / (e.sum(-1, keepdims=True) + np.exp(logit)) @ v

    sums = finding(audited(with_sink), "row sums")
    assert (sums.verdict, sums.cause) == ("measured", cause)
    assert sums.measured < 1
    assert cause == "softmax1" or "logit 1.5 " in sums.said


def test_the_place_of_the_scale_and_of_the_maximum():
    first = audited(lambda q, k, v: softmax((q / 8) @ turned(k)) @ v, dk=[64])
    assert finding(first, "overflow").verdict == "match"
    assert "the same scale, no defect" in finding(first, "overflow").said
    after = audited(right, dk=[64])
    assert finding(after, "overflow").cause == "overflow-before-scale"

    def naive(q, k, v):
        e = np.exp(q @ turned(k) / 8)
        return e / e.sum(-1, keepdims=True) @ v

    assert finding(audited(naive, dk=[64]), "large logits").cause == "no-max-subtraction"


@pytest.mark.parametrize(
    ("empty", "said"), [(np.nan, "as nan;"), (0.0, "as 0;"), (1 / 16, "as the mean of the values")]
)
def test_a_row_without_keys_is_reported_and_not_judged(empty, said):
    def masked(q, k, v, mask=None):
        logits = q @ turned(k) * np.float32(q.shape[-1] ** -0.5)
        if mask is None:
            return softmax(logits) @ v
        weights = softmax(np.where(mask, logits, -1e30))
        return np.where(mask.any(-1, keepdims=True), weights, empty) @ v

    audit = audited(masked)
    assert said in finding(audit, "masked rows").said
    assert audit.verdict == "match"


def test_true_may_mean_that_a_key_is_dropped():
    def masked(q, k, v, mask=None):
        logits = q @ turned(k) * np.float32(q.shape[-1] ** -0.5)
        return softmax(logits if mask is None else np.where(mask, -np.inf, logits)) @ v

    assert audited(masked).verdict == "match"


def test_a_function_for_one_size_is_judged_at_that_size():
    def fixed(q, k, v):
        assert q.shape[-1] == 64
        return right(q, k, v)

    audit = audited(fixed)
    assert audit.verdict == "match"
    assert "At d_k = 48 it fails: AssertionError" in finding(audit, "factor", "d_k = 48").said


def written_into(q, k, v):
    q *= np.float32(q.shape[-1] ** -0.5)
    return softmax(q @ turned(k)) @ v


def test_arguments_that_are_written_into_are_seen_as_they_went_in():
    audit = audited(written_into)
    assert audit.verdict == "match"
    assert finding(audit, "arguments").cause == "writes-arguments"
    assert "arguments" not in {f.check for f in audited(right).findings}


noise = np.random.default_rng(0)
HOSTILE = {
    "raises": (lambda q, k, v: 1 / 0, "undecided", "ZeroDivisionError"),
    "exits": (lambda q, k, v: sys.exit(0), "undecided", "SystemExit"),
    "gives nothing": (lambda q, k, v: None, "undecided", "real numbers"),
    "gives another shape": (lambda q, k, v: v[..., :1], "undecided", "must be shaped"),
    "gives infinities": (lambda q, k, v: v + np.inf, "undecided", "not finite"),
    "gives values back": (lambda q, k, v: v, "undecided", "the values came back"),
    "gives negatives": (lambda q, k, v: -right(q, k, v), "undecided", "no weighted means"),
    "wants another argument": (lambda q, k, v, scale: v, "undecided", "It needs scale besides"),
    "takes no arguments": (lambda: 0, "undecided", "positional"),
    "drops at random": (
        lambda q, k, v: (
            softmax(q @ turned(k) / 8 + noise.normal(0, 0.1, (*q.shape[:-1], k.shape[-2]))) @ v
        ),
        "undecided",
        "is dropout on?",
    ),
    "is not normalised": (
        lambda q, k, v: np.exp(q @ turned(k) * q.shape[-1] ** -0.5) @ v, "mismatch", "do not sum"),
    "squares the values": (
        lambda q, k, v: right(q, k, v**2), "mismatch", "not the sum of the weights"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_functions_that_misbehave(name, capfd):
    attention, verdict, said = HOSTILE[name]
    audit = audited(attention, dk=[64])
    assert audit.verdict == verdict
    assert said in " ".join(f.said for f in audit.findings if f.verdict == verdict)
    assert capfd.readouterr().out == ""


def test_what_a_function_prints_stays_off_stdout(capfd):
    def loud(q, k, v):
        print("called")
        return right(q, k, v)

    assert audited(loud, dk=[64]).verdict == "match"
    out, err = capfd.readouterr()
    assert out == ""
    assert "called" in err


def test_the_result_of_a_python_call():
    result = vv.audit(right, **QUICK)
    assert (result.verdict, result.exit_code) == ("match", 0)
    assert result.record["command"] == "audit"
    assert result.record["target"].endswith("test_function:right")
    row = next(row for row in result.record["rows"] if row["check"] == "factor")
    assert row["theory"] == pytest.approx(48**-0.5, rel=1e-12)
    assert abs(row["gap"]) <= row["tolerance"] == 1e-5
    assert row["z"] is None
    assert next(iter(result.frame["check"])) == "form"
    assert vv.audit(right, expected="dk", **QUICK).exit_code == 1
    assert vv.audit(lambda q, k, v: v, **QUICK).exit_code == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"expected": "sqrt"}, "unknown scale 'sqrt'; did you mean"),
        ({"expected": -0.5}, "expected must be a positive number, got -0.5"),
        ({"expected": ["dk"]}, "unknown scale"),
        ({"dk": [0]}, "d_k must be a positive integer"),
        ({"layout": "bhdl"}, "unknown layout 'bhdl'"),
        ({"dtype": ["int8"]}, "unknown dtype 'int8'"),
        ({"dtype": []}, "dtype needs at least one value"),
        ({"n_heads": 0}, "n_heads must be a positive integer"),
        ({"head": 3}, "unknown option 'head'"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(InputError, match=said):
        vv.audit(right, **options)


@pytest.mark.parametrize("factor", [0.125, "0.125", np.float32(0.125)])
def test_the_expected_factor_may_be_a_number(factor):
    assert vv.audit(right, dk=[64], dtype=["float32"], expected=factor).verdict == "match"
    assert vv.audit(right, dk=[48], dtype=["float32"], expected=factor).verdict == "mismatch"


def test_bfloat16_and_float16_are_held_to_a_hundredth():
    def off_in_half(q, k, v):
        factor = q.shape[-1] ** -0.5 * (1.03 if q.dtype == np.float16 else 1)
        return softmax((q @ turned(k)).astype("f") * np.float32(factor)) @ v

    audit = audited(off_in_half, dtype=["float32", "float16"])
    assert finding(audit, "precision").cause == "factor-by-dtype"
    assert math.isclose(finding(audit, "precision").measured, 1.03 / 8, rel_tol=3e-3)


def test_what_the_factor_is_held_against_is_said_and_no_exponent_is_minus_zero():
    """Unscaled where 1/sqrt(d_k) is expected: other checks agree with the factor that was found."""

    def unscaled(q, k, v):
        p = np.exp(q @ k.swapaxes(-1, -2))
        return p / p.sum(-1, keepdims=True) @ v

    audit = vv.audit(unscaled)
    found = {row["check"]: row for row in audit.record["rows"]}
    lines = [" ".join(line.split()) for line in audit.text().splitlines()]
    assert "many keys 272 keys as found, 1 1 match" in lines
    assert "as found" not in vv.audit(unscaled, expected="none").text()
    assert str(found["exponent of d_k"]["estimate"]) == "0.0"
    assert "The factor goes as d_k^(0), not d_k^(-0.5)." in audit.text()
