"""Gradients at initialisation: by hand, by the exact Jacobian norm, and with planted errors."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from verify_variance.simulations.gradients import _one_replicate, measure_request
from verify_variance.stats.cases import Case
from verify_variance.stats.checks import InputError
from verify_variance.stats.claims.settings import Request

NONE = {"scale": "none", "tokens": "normal"}
CASE = Case(d_k=8, n_keys=4, weights="lecun-normal", d_model=16, **NONE)
SCALED = replace(CASE, scale="sqrt-dk")


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("factor", [1.0, 0.25])
def test_one_draw_by_hand(factor):
    """dL/dS = p (G - p.G) row by row, dL/dW_Q = c X' (dL/dS) K; without c it is another number."""
    key = jax.random.key(5, impl="threefry2x32")
    found = np.asarray(_one_replicate((4, 16, 8), factor, 0.3, 0.2, key))
    keys = jax.random.split(key, 5)
    x, y = (np.asarray(jax.random.normal(k, (4, 16)), np.float64) for k in keys[:2])
    w_q, w_k = (np.asarray(jax.random.normal(k, (16, 8)), np.float64) for k in keys[2:4])
    g = np.asarray(jax.random.normal(keys[4], (4, 4)), np.float64)
    keys_k = y @ (0.2 * w_k)
    p = softmax(factor * (x @ (0.3 * w_q)) @ keys_k.T)
    of_scores = p * (g - (p * g).sum(-1, keepdims=True))
    of_weights = factor * x.T @ of_scores @ keys_k
    assert found == pytest.approx([(of_scores**2).sum(), (of_weights**2).sum()], rel=2e-5)
    if factor != 1:
        assert found[1] != pytest.approx((of_weights**2).sum() / factor**2, rel=0.1)


@pytest.mark.parametrize("case", [CASE, SCALED])
def test_the_mean_squared_score_gradient_is_that_of_the_jacobian(case):
    """|z| < 5: false alarm 6e-7; sqrt(2) off, as without the sum over queries, is seen."""
    found = measure_request(Request("score_gradient", case), 1)
    assert found.exact is not None
    assert abs(found.value - found.exact) < 5 * found.error
    assert found.error < 0.02 * found.exact
    assert abs(found.value - found.exact * 2**0.5) > 5 * found.error


def test_the_ratio_of_paired_draws_has_the_smaller_error():
    ratio = measure_request(Request("score_gradient", CASE, SCALED), 1)
    alone = [measure_request(Request("score_gradient", case), 1) for case in (CASE, SCALED)]
    assert ratio.value == pytest.approx(alone[0].value / alone[1].value, rel=1e-12)
    assert ratio.exact is not None
    assert abs(ratio.value - ratio.exact) < 5 * ratio.error
    unpaired = np.hypot(*(one.error / one.value for one in alone))
    assert 0 < ratio.error / ratio.value < unpaired
    same = measure_request(Request("wq_gradient", CASE, CASE), 1)
    assert (same.value, same.error) == (1.0, 0.0)


def test_unscaled_scores_get_smaller_gradients_and_weights_larger_ones():
    """What the missing factor does to the two, many standard errors away from 1."""
    case = Case(d_k=32, n_keys=10, weights="xavier-normal", d_model=128, **NONE)
    scaled = replace(case, scale="sqrt-dk")
    scores = measure_request(Request("score_gradient", case, scaled), 1)
    weights = measure_request(Request("wq_gradient", case, scaled), 1)
    assert scores.value + 5 * scores.error < 1 < weights.value - 5 * weights.error
    assert 4 < weights.value < 5


def test_layer_normed_rows():
    """Two logits become -1 and 1 whatever they are, so that max p = 1/(1 + e^-2)."""
    case = Case(d_k=None, logit_std=1e4, n_keys=2)  # the epsilon vanishes beside them
    found = measure_request(Request("layer_norm_max_prob", case), 1)
    assert found.value == pytest.approx(1 / (1 + np.exp(-2)), rel=1e-4)
    p = softmax(np.array([1.0, -1.0]))
    entropy = measure_request(Request("layer_norm_entropy", case), 1)
    assert entropy.value == pytest.approx(-(p * np.log(p)).sum(), rel=1e-4)


def test_what_cannot_be_measured():
    with pytest.raises(InputError, match="gradients need weights and n_keys"):
        measure_request(Request("wq_gradient", Case(d_k=8, n_keys=4)), 0)
    with pytest.raises(InputError, match="measured for normal weights"):
        measure_request(Request("wq_gradient", replace(CASE, weights="torch-linear")), 0)
    with pytest.raises(InputError, match="layer_norm_entropy needs n_keys"):
        measure_request(Request("layer_norm_entropy", Case(d_k=8)), 0)
    laplace = Case(d_k=8, n_keys=4, elements_k="laplace")
    with pytest.raises(InputError, match="needs normal keys, got normal x laplace"):
        measure_request(Request("layer_norm_entropy", laplace), 0)
