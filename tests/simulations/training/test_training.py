"""Training at a tiny size: what is logged, the same bits twice, and after a stop."""

import math
from dataclasses import fields, replace
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from verify_variance.simulations.training.experiments import (
    TOGETHER,
    largest_rise,
    run_experiments,
    run_name,
    train,
)
from verify_variance.simulations.training.model import Shape, forward, initial_params
from verify_variance.simulations.training.probes import (
    head_overlap,
    mean_loss,
    of_scores,
    probe,
)
from verify_variance.simulations.training.steps import schedule
from verify_variance.simulations.training.text import SYMBOLS, help_text
from verify_variance.stats.claims.expressions import jacobian, softmax
from verify_variance.stats.training.arms import ARMS, Arm, arm_of
from verify_variance.stats.training.finals import BY_HEAD
from verify_variance.stats.training.presets import RATE, Experiment, Run

if find_spec("optax") is None:
    pytest.skip("training needs the extra `train`", allow_module_level=True)

TINY = Experiment(
    "tiny", tuple(ARMS), n_heads=2, steps=20, every=10, batch=4, replicates=2, d_model=16, d_ff=16,
    length=16,
)  # fmt: skip


def trained(experiment: Experiment, seed: int = 0) -> dict:
    done: dict = {}
    run_experiments([experiment], seed, done)
    return done


@pytest.fixture(scope="module")
def logs() -> dict:
    return trained(TINY)


def test_the_loss_of_every_arm_falls_and_all_is_finite(logs):
    assert len(logs) == len(ARMS) * TINY.replicates
    for name, log in logs.items():
        start, *_, end = log["validation_loss"]
        assert end < start - 0.1, name
        assert log["steps"] == [0, 10, 20]
        assert log["lost_steps"] == log["lost_scores"] == log["lost_gradients"] == 0
        assert set(log) - {"map"} > set(BY_HEAD)
        for quantity, values in log.items():
            if quantity in ("experiment", "arm", "map"):
                continue
            last = values[-1] if isinstance(values, list) else values
            assert np.isfinite(np.array(last, float)).all(), (name, quantity)


def test_arms_start_from_the_same_loss_only_where_their_scores_are_the_same(logs):
    starts = {arm: logs[f"tiny/{arm}/0.005/0"]["validation_loss"][0] for arm in ARMS}
    assert starts["learnable:1"] == pytest.approx(starts["none"], rel=1e-6)
    assert starts["learnable:sqrt-dk"] == pytest.approx(starts["sqrt-dk"], rel=1e-6)
    assert abs(starts["none"] - starts["sqrt-dk"]) > 1e-4


def test_only_a_learnable_multiplier_moves(logs):
    for arm in ARMS:
        multipliers = np.array(logs[f"tiny/{arm}/0.005/0"]["multiplier"])
        moved = np.abs(multipliers[-1] - multipliers[0]).max() > 1e-3
        assert moved == arm.startswith("learnable"), arm


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(logs):
    few = replace(TINY, arms=("sqrt-dk", "none"))
    assert trained(few, 7) == trained(few, 7)
    assert trained(few, 7) != trained(few, 8)


def test_a_run_that_was_stopped_goes_on_with_the_same_bits(logs):
    done: dict = {}

    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    with pytest.raises(Stop):
        run_experiments([TINY], 0, done, stop)
    assert 0 < len(done) <= TOGETHER
    run_experiments([TINY], 0, done)
    assert done == logs


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    """[layers, batch, heads, length, length] of unequal spread, masked as the model's are."""
    drawn = (
        np.random.default_rng(1).normal(size=(2, 3, 4, 8, 8))
        * np.array([1, 3, 6, 9])[:, None, None]
    )
    return np.where(np.tril(np.ones((8, 8), bool)), drawn, -np.inf).astype(np.float32)


def test_what_is_logged_of_scores_is_what_stats_says_of_the_same_rows(scores):
    logged = {name: np.asarray(value) for name, value in of_scores(jnp.asarray(scores)).items()}
    rows = [[[scores[la, b, h, t, : t + 1].astype(float) for b in range(3) for t in range(4, 8)]
             for h in range(4)] for la in range(2)]  # fmt: skip
    for la in range(2):
        for h in range(4):
            ps = [softmax(x) for x in rows[la][h]]
            js = [jacobian(x) for x in rows[la][h]]
            pooled = np.concatenate(rows[la][h])
            own = {
                "entropy": np.mean([-(p * np.log(p)).sum() for p in ps]),
                "max_prob": np.mean([p.max() for p in ps]),
                "saturated": np.mean([p.max() > 0.99 for p in ps]),
                "jacobian_frobenius_sq": np.mean([(j**2).sum() for j in js]),
                "jacobian_spectral": np.mean([np.linalg.norm(j, 2) for j in js]),
                "logit_std": pooled.std(),
                "logit_max": np.abs(pooled).max(),
                "first_key": np.mean([p[0] for p in ps]),
                "own_key": np.mean([p[-1] for p in ps]),
                "near_keys": np.mean([p[-4:].sum() for p in ps]),
                "not_finite": 0.0,
            }
            for name, value in own.items():
                assert logged[name][la, h] == pytest.approx(value, rel=2e-5, abs=1e-7), name


def test_inf_and_nan_among_the_scores_are_counted(scores):
    planted = scores.copy()
    planted[0, 0, 1, 7, :2] = np.inf, np.nan
    found = np.asarray(of_scores(jnp.asarray(planted))["not_finite"])
    assert found.tolist() == [[0, 2, 0, 0], [0, 0, 0, 0]]


def test_overlap_of_heads_with_the_same_map_with_none_in_common_and_with_half():
    alike = np.full((1, 1, 3, 2, 4), 0.25)
    assert np.asarray(head_overlap(jnp.asarray(alike))).tolist() == [[1, 1, 1]]
    apart = np.zeros((1, 1, 2, 1, 4))
    apart[0, 0, 0, 0, 0] = apart[0, 0, 1, 0, 3] = 1
    assert np.asarray(head_overlap(jnp.asarray(apart))).tolist() == [[0, 0]]
    apart[0, 0, 1, 0] = [0.5, 0.5, 0, 0]
    assert np.asarray(head_overlap(jnp.asarray(apart))).tolist() == [[0.5, 0.5]]


@pytest.fixture(scope="module")
def model():
    shape = Shape(16, 2, 2, 16, 6, 11, 11, True)
    arm = jax.tree.map(jnp.float32, arm_of("sqrt-dk", 8, 16))
    return shape, arm, initial_params(jax.random.key(3), shape, arm.multiplier)


def test_gradients_that_are_logged_are_those_of_finite_differences(model):
    """A difference of the loss, in float64, along the score gradient itself gives its norm."""
    shape, arm, params = model
    tokens = jax.random.randint(jax.random.key(1), (4, 7), 0, 11)
    windows = (tokens, jnp.zeros(4, jnp.int32))
    logged = jax.jit(probe, static_argnums=(3, 4))(params, arm, windows, shape, jnp.float32)
    size = (2, 4, 2, 6, 6)

    def loss(params, taps, dtype):
        return mean_loss(params, arm, windows, shape, dtype, taps)[0]

    by_both = jax.grad(loss, argnums=(0, 1))(params, jnp.zeros(size), jnp.float32)
    weights, taps = by_both[0]["layers"], np.asarray(by_both[1], float)
    with jax.enable_x64(True):
        exact = jax.jit(lambda taps: loss(params, taps, jnp.float64))
        for layer, head in [(0, 0), (0, 1), (1, 0), (1, 1)]:
            along = np.zeros(size)
            along[layer, :, head] = taps[layer, :, head]
            norm = np.linalg.norm(along)
            step = 1e-4 * along / norm
            rise = float(exact(step) - exact(-step)) / 2e-4
            assert logged["score_gradient"][layer, head] == pytest.approx(norm, rel=1e-5)
            assert rise == pytest.approx(norm, rel=1e-4)
    for name in ("query", "key"):
        squares = np.asarray(logged[f"{name}_gradient"]) ** 2
        assert squares.sum(1) == pytest.approx(
            (np.asarray(weights[name]) ** 2).sum((1, 2)), rel=1e-4
        )


@pytest.mark.parametrize("name", list(ARMS))
def test_attention_is_what_each_arm_says(model, name):
    """The first layer's scores and output, written out with NumPy in float64."""
    shape, _, params = model
    arm = arm_of(name, 8, 16)
    traced = jax.tree.map(jnp.float32, arm)
    layers = dict(params["layers"], multiplier=jnp.full(2, arm.multiplier))
    tokens = np.array([[1, 5, 2, 2, 7, 0]])
    _, scores = forward(
        dict(params, layers=layers), traced, jnp.asarray(tokens), shape, jnp.float32
    )
    x = np.asarray(params["symbols"], float)[tokens[0]] + np.asarray(params["positions"], float)
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    for head in range(2):
        mine = slice(8 * head, 8 * head + 8)
        q, k = (x @ np.asarray(layers[n][0], float)[:, mine] for n in ("query", "key"))
        if name == "qk-rmsnorm":
            q, k = (y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-5) for y in (q, k))
        expected = q @ k.T * arm.multiplier
        for t in range(6):
            row = expected[t, : t + 1]
            if name == "score-layernorm":
                row = (row - row.mean()) / np.sqrt(row.var() + 1e-5)
            assert np.asarray(scores)[0, 0, head, t, : t + 1] == pytest.approx(row, abs=2e-4)
            assert np.isneginf(np.asarray(scores)[0, 0, head, t, t + 1 :]).all()


def test_arms_are_handed_on_number_by_number():
    assert [f.name for f in fields(Arm)] == list(Arm.__slots__)


def test_logits_start_with_the_standard_deviation_that_theory_gives():
    """E (q.k)^2 = d_k for unit tokens and normal weights; 4096 weight draws, z below 5.5.

    A replicate is one draw of all weights: its mean square over heads. False alarm 4e-8.
    """
    shape, draws = Shape(16, 2, 1, 16, 4, 11, 11), 4096
    arm = jax.tree.map(jnp.float32, arm_of("none", 8, 16))
    tokens = jnp.array([[3, 1, 4, 1]])

    def square(key):
        params = initial_params(key, shape, arm.multiplier)
        _, scores = forward(params, arm, tokens, shape, jnp.float32)
        return (scores[..., 2, 0] ** 2).mean()

    found = np.asarray(jax.lax.map(square, jax.random.split(jax.random.key(5), draws)), float)
    assert abs(found.mean() - 8) < 5.5 * found.std() / math.sqrt(draws)


def test_nothing_that_is_trained_on_is_held_out():
    text = help_text("characters", 64)
    trained_on = np.zeros(len(text.symbols), bool)
    for offset in range(65):
        trained_on[text.training + offset] = True
    held_out = np.zeros(len(text.symbols), bool)
    for offset in range(65):
        held_out[text.validation + offset] = True
    assert not (trained_on & held_out).any()
    assert trained_on.mean() > 0.85
    assert held_out.mean() > 0.09
    assert text.symbols.min() == 0
    assert text.symbols.max() < SYMBOLS


def test_two_topics_have_their_classes():
    text = help_text("topics", 32)
    ends = text.classes[text.training] == text.classes[text.training + 32]
    assert ends.all()
    assert set(text.classes[text.validation]) == {0, 1}


def test_the_rate_rises_and_falls():
    rates = schedule(100)
    assert rates[:10] == pytest.approx(np.arange(1, 11) / 10)
    assert (np.diff(rates[10:]) <= 0).all()
    assert rates[-1] < 0.001


def test_the_largest_rise_of_a_loss_that_jumps():
    losses = np.concatenate([np.full(30, 2.0), [3.5], np.full(5, 1.0)])
    assert largest_rise(losses) == 1.5
    assert largest_rise(np.linspace(3, 1, 40)) < 0


def test_float16_scores_that_overflow_are_counted():
    """q.k of sd 2^16 and more leaves float16, whose largest number is 65504; float32 keeps it."""
    shape, arm = Shape(16, 2, 1, 16, 6, 11, 11), jax.tree.map(jnp.float32, arm_of("none", 8, 16))
    params = initial_params(jax.random.key(3), shape, arm.multiplier)
    layers = params["layers"]
    large = params | {"layers": layers | {n: 256 * layers[n] for n in ("query", "key")}}
    tokens = jax.random.randint(jax.random.key(1), (4, 6), 0, 11)
    for given, dtype, lost in (
        (params, jnp.float16, False),
        (large, jnp.float16, True),
        (large, jnp.float32, False),
    ):
        _, scores = forward(given, arm, tokens, shape, dtype)
        assert scores.dtype == dtype
        assert (of_scores(scores.astype(jnp.float32))["not_finite"].sum() > 0) == lost


def test_a_short_batch_has_the_bits_of_a_full_one():
    text = help_text("characters", 16)
    two = [Run("tiny", arm, RATE, 0) for arm in ("sqrt-dk", "none")]
    alone = [train(TINY, [run], 0, text)[0] for run in two]
    assert train(TINY, two, 0, text) == alone
    assert run_name(two[0]) == "tiny/sqrt-dk/0.005/0"
