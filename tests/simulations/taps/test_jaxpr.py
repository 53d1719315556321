"""The tap of JAX functions finds logits, factors and weights, however the code is put together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from verify_variance.simulations.taps.heads import layer_of
from verify_variance.simulations.taps.jaxpr import tapped_jax
from verify_variance.simulations.taps.rows import fitted, rows_of

B, L, H, D_K = 3, 8, 2, 16
D = H * D_K
KEYS = jax.random.split(jax.random.key(5), 4)
X = jax.random.normal(KEYS[0], (B, L, D))
W_Q, W_K, W_V = (jax.random.normal(key, (D, D)) / D**0.5 for key in KEYS[1:])
MASK = jnp.tril(jnp.ones((L, L), bool))
BIAS = jnp.linspace(-3.0, 3.0, L * L).reshape(L, L)


def heads(y):
    return y.reshape(B, L, H, D_K).transpose(0, 2, 1, 3)


def attention(logits_of, softmax=jax.nn.softmax):
    def run(x):
        q, k, v = (heads(x @ w) for w in (W_Q, W_K, W_V))
        return softmax(logits_of(q, k)) @ v

    return run


def dot(q, k):
    return q @ k.swapaxes(-1, -2)


def rms(x):
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def by_hand(x):
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def carelessly(x):
    e = jnp.exp(x)
    return e / e.sum(-1, keepdims=True)


def in_two(x):
    return jnp.exp2(x / jnp.log(2.0)) / jnp.exp(x).sum(-1, keepdims=True)


ROOT = D_K**-0.5
plain = attention(lambda q, k: dot(q, k) * ROOT)
SOUND = {
    "after the product": plain,
    "division": attention(lambda q, k: dot(q, k) / D_K**0.5),
    "on q": attention(lambda q, k: dot(q * ROOT, k)),
    "on q before its heads": lambda x: (
        jax.nn.softmax(dot(heads((x @ W_Q) * ROOT), heads(x @ W_K))) @ heads(x @ W_V)
    ),
    "on both": attention(lambda q, k: dot(q * D_K**-0.25, k * D_K**-0.25)),
    "divided by a layer and multiplied back": attention(lambda q, k: (dot(q, k) * ROOT / 12) * 12),
    "keys first": attention(lambda q, k: dot(k, q).swapaxes(-1, -2) * ROOT),
    "mask": attention(lambda q, k: jnp.where(MASK, dot(q, k) * ROOT, -jnp.inf)),
    "large mask": attention(lambda q, k: dot(q, k) * ROOT + jnp.where(MASK, 0, -1e9)),
    "position bias": attention(lambda q, k: dot(q, k) * ROOT + BIAS),
    "a shift": attention(lambda q, k: dot(q, k) * ROOT + 7.0),
    "softmax by hand": attention(lambda q, k: dot(q, k) * ROOT, by_hand),
    "softmax without its maximum": attention(lambda q, k: dot(q, k) * ROOT, carelessly),
    "softmax to base 2": attention(lambda q, k: dot(q, k) * ROOT, in_two),
    "jit": jax.jit(plain),
    "remat": jax.checkpoint(plain),
    "vmap": lambda x: jax.vmap(plain_of_one)(x),
    "scan": lambda x: jax.lax.scan(lambda c, _: (c, plain(c)), x, None, length=1)[1],
    "scan over sequences": lambda x: jax.lax.map(plain_of_one, x),
    "while": lambda x: jax.lax.while_loop(
        lambda s: s[0] < 1, lambda s: (s[0] + 1, once(s[1])), (0, x)
    ),
    "cond": lambda x: jax.lax.cond(x.sum() > 1e9, lambda y: once(y) * 0, once, x),
    "custom derivative": lambda x: straight(x),
    "library": lambda x: jax.nn.dot_product_attention(
        *((x @ w).reshape(B, L, H, D_K) for w in (W_Q, W_K, W_V))
    ),
}


def plain_of_one(x):
    q, k, v = ((x @ w).reshape(L, H, D_K).transpose(1, 0, 2) for w in (W_Q, W_K, W_V))
    return jax.nn.softmax(dot(q, k) * ROOT) @ v


def once(x):
    return plain(x).transpose(0, 2, 1, 3).reshape(x.shape)


@jax.custom_vjp
def straight(x):
    return plain(x)


straight.defvjp(lambda x: (plain(x), None), lambda _, g: (g,))


def seen_rows(function, x=X):
    return [rows_of(seen, B) for seen in tapped_jax(function, x)]


@pytest.mark.parametrize("name", SOUND)
def test_the_scale_is_read_however_it_is_applied(name):
    rows = seen_rows(SOUND[name])
    total = sum(len(each.logits) for each in rows)
    masked = "mask" in name
    assert total == B * H * (L - masked)  # a row of one key says nothing
    for each in rows:
        fit = fitted(each)
        assert fit.factor == pytest.approx(ROOT, rel=1e-5)
        assert fit.plain
        assert fit.softcap is None


@pytest.mark.parametrize("name", [n for n in SOUND if n not in ("scan over sequences",)])
def test_the_weights_are_found_and_give_the_variance(name):
    (rows,) = seen_rows(SOUND[name])
    layer = layer_of(rows)
    assert len(layer.groups) == H
    assert layer.width == D
    # |W_q' W_k|^2 over d_k by hand, tokens in place of their covariance
    for head in range(H):
        of = slice(head * D_K, (head + 1) * D_K)
        gram = np.float64(W_Q[:, of]) @ np.float64(W_K[:, of]).T
        assert layer.on_unit[head] == pytest.approx((gram**2).sum() / D_K, rel=1e-5)


def test_a_whole_row_in_a_scan_is_divided_by_d_k():
    wrong = attention(lambda q, k: dot(q, k) / D_K)
    rows = seen_rows(lambda x: jax.lax.scan(lambda c, _: (c, wrong(c)), x, None, length=2)[1])
    assert len(rows) == 2
    for each in rows:
        assert fitted(each).factor == pytest.approx(1 / D_K, rel=1e-5)


def test_a_forgotten_scale_is_a_factor_of_1():
    assert fitted(seen_rows(attention(dot))[0]).factor == pytest.approx(1.0, rel=1e-6)


def test_a_scale_of_0_is_0():
    assert fitted(seen_rows(attention(lambda q, k: dot(q, k) * 0.0))[0]).factor == 0.0


def test_a_scale_that_a_norm_undoes_is_none():
    (rows,) = seen_rows(attention(lambda q, k: dot(rms(5.0 * q), rms(k)) * ROOT))
    assert fitted(rows).factor == pytest.approx(ROOT, rel=1e-5)
    assert rows.products.queries.length == pytest.approx(D_K**0.5, rel=1e-3)
    assert layer_of(rows).law.endswith("normed")


@pytest.mark.parametrize("cap", [5.0, 50.0])
def test_a_softcap_is_recognised(cap):
    capped = attention(lambda q, k: cap * jnp.tanh(dot(q, k) * ROOT * 0.1 / cap))
    fit = fitted(seen_rows(capped)[0])
    assert fit.softcap == pytest.approx(cap, rel=0.02)
    assert fit.factor == pytest.approx(0.1 * ROOT, rel=1e-4)


def test_what_is_no_multiple_of_qk_has_a_residual():
    odd = attention(lambda q, k: jnp.sin(2 * dot(q, k) * ROOT))
    fit = fitted(seen_rows(odd)[0])
    assert not fit.plain
    assert fit.residual > 0.1


def test_a_router_is_no_attention_and_its_scale_is_not_read():
    experts = jax.random.normal(KEYS[1], (D, 4))

    def routed(x):
        gates = jax.nn.softmax(x @ experts)
        return jnp.einsum("ble,ed->bld", gates, experts.T)

    assert all(fitted(rows) is None for rows in seen_rows(routed))


def test_shared_keys_are_one_replicate():
    def grouped(x):
        q, k, v = (heads(x @ w) for w in (W_Q, W_K, W_V))
        k, v = (jnp.repeat(y[:, :1], H, axis=1) for y in (k, v))
        return jax.nn.softmax(dot(q, k) * ROOT) @ v

    def broadcast(x):
        q = heads(x @ W_Q)
        k, v = (jnp.broadcast_to(heads(x @ w)[:, :1], q.shape) for w in (W_K, W_V))
        return jax.nn.softmax(dot(q, k) * ROOT) @ v

    assert layer_of(seen_rows(broadcast)[0]).groups.tolist() == [0, 0]
    assert fitted(seen_rows(grouped)[0]).factor == pytest.approx(ROOT, rel=1e-5)
