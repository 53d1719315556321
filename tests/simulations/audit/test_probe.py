"""The probe finds planted factors in black boxes, and says what is no scaled dot product."""

import math
import subprocess
import sys
import time

import numpy as np
import pytest
import verify_variance as vv
from verify_variance.simulations.audit.assertion import assert_logit_scale
from verify_variance.simulations.audit.black_box import ProbeError
from verify_variance.simulations.audit.probe import Probe, probe_factor
from verify_variance.stats.arrays import LAYOUTS
from verify_variance.stats.checks import InputError
from verify_variance.stats.failures import InconclusiveError

RTOL = 1e-5  # float32 logits of 3 err by 2e-7 each; the factor averages hundreds of them


def turned(x):
    return x.swapaxes(-1, -2)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attends(logits):
    """Attention over the last two axes from a function of q and k."""
    return lambda q, k, v: softmax(logits(q, k)) @ v


def times(factor):
    """Plain attention whose factor is a function of the arrays' own last axis."""
    return attends(lambda q, k: q @ turned(k) * np.float32(factor(q.shape[-1])))


def unit(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True))


right = times(lambda d: d**-0.5)
NON_DEFECTS = {
    "plain": right,
    "scale on q only": attends(lambda q, k: (q * q.shape[-1] ** -0.5) @ turned(k)),
    "d^-1/4 on both": attends(
        lambda q, k: (q * q.shape[-1] ** -0.25) @ turned(k * q.shape[-1] ** -0.25)
    ),
    "a constant shift": attends(lambda q, k: q @ turned(k) * q.shape[-1] ** -0.5 + 30),
    "divided by a layer and multiplied back": attends(
        lambda q, k: (q @ turned(k) * (q.shape[-1] ** -0.5 / 12)) * 12
    ),
    "a position bias": attends(
        lambda q, k: q @ turned(k) * q.shape[-1] ** -0.5 - np.arange(k.shape[-2]) / 2
    ),
    "a causal mask": attends(
        lambda q, k: np.where(
            np.tri(q.shape[-2], k.shape[-2]), q @ turned(k) * q.shape[-1] ** -0.5, -np.inf
        )
    ),
    "outputs with the weights": lambda q, k, v: (right(q, k, v), softmax(q @ turned(k))),
}


@pytest.mark.parametrize("name", NON_DEFECTS)
def test_what_is_no_defect_passes(name):
    for probe in assert_logit_scale(NON_DEFECTS[name], d_k=[16, 64, 128]):
        assert probe.factor == pytest.approx(probe.d_k**-0.5, rel=RTOL)
        assert not probe.unlike


PLANTED = {
    "no divisor": (lambda d: 1.0, "measured factor 1 where", "a divisor sqrt(d_k) that is missing"),
    "d_model": (
        lambda d: 512**-0.5,
        "measured factor 0.04419 = 1/sqrt(512) where 0.125 = 1/8 was expected at d_k = 64",
        "d_model = 512 (8 heads) where d_k = 64 was meant?",
    ),
    "d_k": (lambda d: 1 / d, "= 1/64", "divided by sqrt(d_k) twice, or by d_k?"),
    "upside down": (lambda d: d**0.5, "measured factor 8", "multiplied by sqrt(d_k)"),
    "root forgotten in the default": (lambda d: d**-2.0, "= 1/4096", "not as d_k^(-1/2)"),
    "one half of the roots": (lambda d: d**-0.25, "0.3536", "d_k^(-1/4) applied to q or k alone"),
    "padded": (lambda d: (2 * d) ** -0.5, "= 1/sqrt(128)", "padded from 64 to 128"),
    "twice the input": (lambda d: (2 / d) ** 0.5, "0.1768", "sqrt(2/d_k)"),
    "exp2": (lambda d: math.log(2) * d**-0.5, "0.08664", "exp2 without its factor log2(e)"),
    "mscale": (lambda d: d**-0.5 / 1.873854, "0.06671", "YaRN's mscale^2"),
    "nobody's": (lambda d: 0.3, "measured factor 0.3 where", "is d_k the head dimension"),
    "zero": (lambda d: 0.0, "measured factor 0 where", "a scale of 0 used literally"),
    "negative": (lambda d: -(d**-0.5), "measured factor -0.125", "of the wrong sign"),
    "1/(100 d)": (lambda d: 1 / (100 * d), "measured factor 0.0001562", ""),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_factor_is_measured_and_its_cause_named(name):
    factor, measured, cause = PLANTED[name]
    with pytest.raises(AssertionError) as failure:
        assert_logit_scale(times(factor), d_k=64)
    headline, *entries = str(failure.value).splitlines()
    assert measured in headline
    assert cause in headline
    assert [entry.split()[0] for entry in entries][:4] == ["expected", "measured", "residual", "z"]
    assert "false alarm  0: " in str(failure.value)
    assert probe_factor(times(factor), 64).factor == pytest.approx(factor(64), rel=RTOL)


@pytest.mark.parametrize(("d_k", "padded"), [(80, 96), (48, 64), (40, 64), (72, 128)])
def test_padded_head_dimensions(d_k, padded):
    with pytest.raises(AssertionError, match=f"padded from {d_k} to {padded}"):
        assert_logit_scale(times(lambda d: padded**-0.5), d_k=d_k)


def test_the_heads_that_were_handed_over_name_d_model():
    def over_heads(q, k, v):
        return attends(lambda q, k: q @ turned(k) * (q.shape[1] * q.shape[-1]) ** -0.5)(q, k, v)

    with pytest.raises(AssertionError, match=r"d_model = 192 \(3 heads\)"):
        assert_logit_scale(over_heads, d_k=64, n_heads=3)


def test_a_constant_that_is_right_at_64_alone_is_caught_by_other_d_k():
    constant = times(lambda d: 1 / 8)
    assert_logit_scale(constant, d_k=64)
    with pytest.raises(AssertionError, match="at d_k = 16") as failure:
        assert_logit_scale(constant, d_k=(16, 64))
    assert "at d_k = 64" not in str(failure.value)


@pytest.mark.parametrize(
    ("expected", "factor"), [("none", 1.0), ("dk", 1 / 64), ("constant:8", 1 / 8), (0.3, 0.3)]
)
def test_what_is_expected_can_be_named_or_given(expected, factor):
    assert_logit_scale(times(lambda d: factor), d_k=64, expected=expected)
    with pytest.raises(AssertionError, match="measured factor"):
        assert_logit_scale(times(lambda d: factor * 1.0001), d_k=64, expected=expected)


UNLIKE = {
    "softcap 5": (attends(lambda q, k: 5 * np.tanh(q @ turned(k) / 40)), "a softcap"),
    "softcap 50": (attends(lambda q, k: 50 * np.tanh(q @ turned(k) / 400)), "a softcap"),
    "QK-norm": (attends(lambda q, k: unit(q) @ turned(unit(k)) / 8), "QK-norm"),
    "K-norm": (attends(lambda q, k: q @ turned(unit(k)) / 8), "keys normalised"),
    "rotated": (
        attends(
            lambda q, k: q * np.cos(np.arange(q.shape[-2]))[:, None] @ turned(k) / 8,
        ),
        "rotated",
    ),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_what_is_no_scaled_dot_product_is_said_so(name):
    attention, said = UNLIKE[name]
    with pytest.raises(AssertionError, match="no plain scaled dot product at d_k = 64") as failure:
        assert_logit_scale(attention, d_k=64)
    assert said in str(failure.value)


def test_dropout_is_told_from_a_wrong_factor():
    noise = np.random.default_rng(0)

    def dropped(q, k, v):
        return softmax(q @ turned(k) / 8 + noise.normal(0, 0.1, (*q.shape[:-1], k.shape[-2]))) @ v

    with pytest.raises(AssertionError, match="is dropout on"):
        assert_logit_scale(dropped, d_k=64)


def in_layout(layout):
    """Attention that takes this layout and fails, or attends over a wrong axis, with others."""
    q, k, w = {
        "bhld": ("bhqd", "bhkd", "bhqk"),
        "blhd": ("bqhd", "bkhd", "bhqk"),
        "bld": ("bqd", "bkd", "bqk"),
        "ld": ("qd", "kd", "qk"),
    }[layout]

    def attention(queries, keys, values):
        scaled = np.einsum(f"{q},{k}->{w}", queries, keys) * queries.shape[-1] ** -0.5
        return np.einsum(f"{w},{k}->{q}", softmax(scaled), values)

    return attention


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_found(layout):
    (probe,) = assert_logit_scale(in_layout(layout), d_k=32)
    assert probe.layout == layout
    assert probe_factor(in_layout(layout), 32, layout=layout) == probe


def test_a_wrong_axis_order_is_no_pass():
    for given, taken in (("bhld", "blhd"), ("blhd", "bhld")):
        with pytest.raises(ProbeError, match="is this the axis of the keys"):
            assert_logit_scale(in_layout(taken), d_k=64, layout=given)


@pytest.mark.parametrize(
    ("attention", "said"),
    [
        (lambda q, k, v: v, "the values came back"),
        (lambda q, k, v: 3 * v, "no weighted means"),
        (lambda q, k, v: v * np.nan, "not finite"),
        (lambda q, k, v: v[..., :1], "the output must be shaped"),
        (lambda q, k, v: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_no_attention_fails_with_what_it_met(attention, said):
    with pytest.raises(ProbeError, match=said):
        assert_logit_scale(attention, d_k=64)


def test_one_visible_key_is_inconclusive_and_never_a_pass():
    def newest_only(q, k, v):
        return np.broadcast_to(v[..., -1:, :], v.shape)

    with pytest.raises(InconclusiveError, match="each query shows one key only"):
        assert_logit_scale(newest_only, d_k=64)


def test_a_sink_shows_in_the_mass_and_leaves_the_factor():
    def with_sink(q, k, v):
        e = np.exp(q @ turned(k) / 8)
        return e / (e.sum(-1, keepdims=True) + 1) @ v

    (probe,) = assert_logit_scale(with_sink, d_k=64)
    assert 0.9 < probe.mass < 0.98
    assert probe_factor(right, 64).mass == pytest.approx(1.0, abs=1e-6)


def test_the_intercept_is_the_bias_that_was_planted():
    bias = np.arange(16) / 4
    probe = probe_factor(NON_DEFECTS["a position bias"], 64)
    assert probe.intercept == pytest.approx(2 * np.std(bias), rel=1e-6)
    assert probe_factor(right, 64).intercept < 1e-6


@pytest.mark.parametrize("d_k", [1, 2, 3, 17, 256, 4096])
def test_every_d_k_and_the_floor_of_rounding(d_k):
    def one_by_one(q, k, v):  # the worst order of summation: no blocks, no pairs
        total = np.zeros((*q.shape[:-1], k.shape[-2]), np.float32)
        for i in range(q.shape[-1]):
            total += q[..., i, None] * k[..., None, :, i]
        return softmax(total * np.float32(q.shape[-1] ** -0.5)) @ v

    for attention in (right, one_by_one):
        (probe,) = assert_logit_scale(attention, d_k=d_k)
        assert abs(probe.factor * math.sqrt(d_k) - 1) < RTOL / 10
        assert probe.residual < 5 * probe.floor


@pytest.mark.parametrize("seed", [0, *np.random.SeedSequence().generate_state(3)])
@pytest.mark.parametrize("factor", [1e-3, 1.0, 64.0, 1e4])
def test_any_size_of_factor_is_brought_into_range(factor, seed):
    probe = probe_factor(times(lambda d: factor), 64, seed=int(seed))
    assert probe.factor == pytest.approx(factor, rel=RTOL)
    assert probe.n_points > 100


def test_the_same_call_gives_the_same_probe():
    assert probe_factor(right, 64) == probe_factor(right, 64)
    assert isinstance(probe_factor(right, 64), Probe)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_precisions_of_numpy(dtype):
    (probe,) = assert_logit_scale(right, d_k=64, dtype=dtype)
    coarse = dtype == "float16"
    assert probe.rtol == (1e-2 if coarse else 1e-5)
    with pytest.raises(AssertionError, match="measured factor"):
        assert_logit_scale(times(lambda d: 1.03 / 8), d_k=64, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_of_jax(dtype):
    jax = pytest.importorskip("jax")
    attention = jax.nn.dot_product_attention
    for probe in assert_logit_scale(attention, d_k=[16, 64], dtype=dtype):
        assert probe.layout == "blhd"
    doubled = jax.jit(lambda q, k, v: attention(q * q.shape[-1] ** -0.5, k, v))
    with pytest.raises(AssertionError, match="divided by sqrt\\(d_k\\) twice"):
        assert_logit_scale(doubled, d_k=64)
    with pytest.raises(AssertionError, match="divisor sqrt\\(d_k\\) that is missing"):
        assert_logit_scale(lambda q, k, v: attention(q, k, v, scale=1.0), d_k=64, dtype=dtype)


def test_a_function_that_wants_its_frameworks_arrays_gets_them():
    jax = pytest.importorskip("jax")
    seen = []

    def picky(q, k, v):
        seen.append(type(q))
        if not isinstance(q, jax.Array):
            raise TypeError("arrays of JAX only")
        return jax.nn.softmax(q @ turned(k) / 8) @ v

    assert_logit_scale(picky, d_k=64)
    assert seen[0] is np.ndarray
    assert issubclass(seen[-1], jax.Array)


def test_attention_of_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    attention = torch.nn.functional.scaled_dot_product_attention
    for dtype in ("float32", "bfloat16"):
        for probe in assert_logit_scale(attention, d_k=[16, 64], dtype=dtype):
            assert probe.layout == "bhld"
    with pytest.raises(AssertionError, match="divisor sqrt\\(d_k\\) that is missing"):
        assert_logit_scale(lambda q, k, v: attention(q, k, v, scale=1.0), d_k=64)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"d_k": 0}, "d_k must be a positive integer, got 0"),
        ({"d_k": ()}, "d_k needs at least one value"),
        ({"expected": "sqrt"}, "unknown scale 'sqrt'; did you mean"),
        ({"expected": 0.0}, "expected must be a positive number"),
        ({"layout": "bhdl"}, "unknown layout 'bhdl'"),
        ({"dtype": "int8"}, "unknown dtype 'int8'"),
        ({"rtol": -1}, "rtol must be a positive number"),
    ],
)
def test_wrong_arguments_are_refused(options, said):
    with pytest.raises(InputError, match=said):
        assert_logit_scale(right, **{"d_k": 64} | options)


def test_numpy_alone_and_quick():
    code = (
        "import sys, numpy as np, verify_variance as vv\n"
        "def attention(q, k, v):\n"
        "    p = np.exp(q @ k.swapaxes(-1, -2) / 8)\n"
        "    return p / p.sum(-1, keepdims=True) @ v\n"
        "vv.assert_logit_scale(attention, d_k=64)\n"
        "print({'jax', 'torch', 'scipy', 'pandas', 'ml_dtypes'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    started = time.perf_counter()
    vv.assert_logit_scale(right, d_k=[16, 64, 128])
    assert time.perf_counter() - started < 1.0  # some milliseconds, even where cores are shared


@pytest.mark.parametrize(
    ("factor", "said"),
    [
        (lambda d: 1 / 8, "1/8, a constant, whatever d_k: 1/sqrt(d_k) of d_k = 64 alone"),
        (lambda d: 1.0, "no scale, as in T5 and GPT-Neo, or where a divisor is missing"),
        (lambda d: 1 / d, "1/d_k"),
    ],
)
def test_several_head_dimensions_name_the_law(factor, said):
    def attention(q, k, v):
        p = np.exp(q @ k.swapaxes(-1, -2) * np.float32(factor(q.shape[-1])))
        return p / p.sum(-1, keepdims=True) @ v

    with pytest.raises(AssertionError) as caught:
        assert_logit_scale(attention, d_k=[40, 64])
    assert said in str(caught.value).splitlines()[0]


def test_factors_are_shown_in_the_digits_that_tell_them_apart():
    def attention(q, k, v):
        p = np.exp(q @ k.swapaxes(-1, -2) / np.float32(8 + 1e-3))
        return p / p.sum(-1, keepdims=True) @ v

    with pytest.raises(AssertionError, match=r"measured factor 0\.124984 where 0\.125 = 1/8"):
        assert_logit_scale(attention)


@pytest.mark.parametrize("expected", [0.125, "0.125", np.float32(0.125), "sqrt-dk"])
def test_what_is_expected_is_a_convention_or_a_number(expected):
    assert assert_logit_scale(right, d_k=64, expected=expected)
    with pytest.raises(InputError, match="unknown scale 'True'"):
        assert_logit_scale(right, d_k=64, expected=True)
