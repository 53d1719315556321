"""Modules at initialisation: what libraries do, factories of one's own, planted mistakes."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import verify_variance as vv
from verify_variance.simulations.taps.models import is_factory
from verify_variance.stats.checks import InputError

os.environ.setdefault("KERAS_BACKEND", "jax")
B, L, D, H, D_K = 4, 16, 64, 4, 16


def audited(target, **options):
    rows = vv.audit(target, **options)
    return rows, {row["check"].partition(" of ")[0]: row for row in rows.record["rows"]}


def jax_module(key, scale, times=1.0):
    """Attention and its weights, of variance times/D."""
    w = jax.random.normal(key, (3, D, D)) * (times / D) ** 0.5

    def attend(x):
        q, k, v = ((x @ w[i]).reshape(B, L, H, D_K).swapaxes(1, 2) for i in range(3))
        return jax.nn.softmax(q @ k.swapaxes(-1, -2) * scale) @ v

    return attend


def tokens(seed):
    return jax.random.normal(jax.random.key(seed + 10**6), (B, L, D))


def right(seed):
    return jax_module(jax.random.key(seed), D_K**-0.5), tokens(seed)


def scanned(seed):
    attend = jax_module(jax.random.key(seed), 1 / D_K)

    def run(x):
        return jax.lax.scan(lambda c, _: (c + attend(c).mean(), None), x, None, length=2)[0]

    return run, tokens(seed)


def unseeded():
    return right(0)


def tied(seed):
    w = jax.random.normal(jax.random.key(seed), (D, D)) / D**0.5

    def attend(x):
        q = (x @ w).reshape(B, L, H, D_K).swapaxes(1, 2)
        return jax.nn.softmax(q @ q.swapaxes(-1, -2) / D_K**0.5) @ q

    return attend, tokens(seed)


def nothing(seed):
    return (lambda x: x @ jnp.ones((D, D))), tokens(seed)


def test_a_sound_module_of_ones_own_is_sound():
    result, rows = audited(right)
    assert result.verdict == "match"
    assert result.exit_code == 0
    assert rows["scale"]["estimate"] == pytest.approx(D_K**-0.5, rel=1e-6)
    assert rows["variance"]["verdict"] == "match"
    # LeCun weights and unit tokens: 1, within 5 of its standard errors
    variance = rows["logit variance"]
    assert abs(variance["estimate"] - 1) < 5 * variance["mcse"] + 0.02
    assert len(variance["parameters"]["by_head"]) == H


def test_one_over_d_k_inside_a_scan_is_a_defect():
    result, rows = audited(scanned)
    assert result.exit_code == 1
    assert rows["scale"]["verdict"] == "mismatch"
    assert "divided by sqrt(d_k) twice, or by d_k" in rows["scale"]["said"]
    assert vv.audit(scanned, expected="dk").exit_code == 0


def test_tied_weights_are_no_independent_ones():
    result, rows = audited(tied)
    # W_q' W_k is symmetric: its trace adds to the diagonal, and the mean of a row's own key
    assert rows["scale"]["verdict"] == "match"
    assert rows["variance"]["verdict"] == "mismatch"
    assert result.exit_code == 1


def test_weights_that_no_seed_changes_are_one_draw_and_not_judged():
    result, rows = audited(unseeded)
    assert rows["scale"]["verdict"] == "match"
    assert rows["variance"]["verdict"] == "measured"
    assert "too few" in rows["variance"]["said"]
    assert result.record["facts"]["weights"] == "one draw, as they are"


def test_where_no_softmax_is_found_it_cannot_tell():
    result, _ = audited(nothing)
    assert result.exit_code == 3


def test_what_returns_no_module_says_what_is_wanted():
    with pytest.raises(InputError, match=r"must return \(module, inputs\), got list"):
        vv.audit(lambda seed: [])


def test_an_error_in_the_users_code_is_one_line():
    def broken(seed):
        return (lambda x: x @ jnp.ones((D + 1, D))), tokens(seed)

    def worse():
        raise RuntimeError("no\nweights")

    with pytest.raises(InputError, match=r"broken failed when run: TypeError: "):
        vv.audit(broken)
    with pytest.raises(InputError, match=r"worse failed when run: RuntimeError: no weights"):
        vv.audit(worse)


def test_factories_are_told_from_attention():
    assert is_factory(right)
    assert is_factory(unseeded)
    assert not is_factory(lambda q, k, v: v)
    assert not is_factory(jnp.ones(3))


TORCH = """
import torch
class Forgotten(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.qkv, self.scale = torch.nn.Linear(64, 192), scale
    def forward(self, x):
        q, k, v = (y.unflatten(-1, (4, 16)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        return (q @ k.mT * self.scale).softmax(-1) @ v
def forgotten():
    return Forgotten(1.0), torch.randn(4, 16, 64)
def kept():
    return Forgotten(0.25), torch.randn(4, 16, 64)
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_attention.py").write_text(TORCH)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("own_module")
def test_a_torch_module_that_forgets_its_scale_is_a_defect():
    pytest.importorskip("torch", reason="audits of torch modules need the extra torch")
    result, rows = audited("own_attention:forgotten")
    assert result.exit_code == 1
    assert "a divisor sqrt(d_k) that is missing" in rows["scale"]["said"]
    assert rows["variance"]["verdict"] == "match"  # its weights are what they are
    assert vv.audit("own_attention:kept").exit_code == 0
    assert vv.audit("own_attention:forgotten", expected="none").exit_code == 0


def test_an_unknown_module_says_how_to_audit_it():
    torch = pytest.importorskip("torch", reason="audits of torch modules need the extra torch")
    with pytest.raises(
        InputError, match=r"write a function of seed that returns \(module, inputs\)"
    ):
        vv.audit(torch.nn.Linear(3, 3))
    with pytest.raises(InputError, match="multiple of n_heads"):
        vv.audit(torch.nn.MultiheadAttention, d_model=10)


def test_an_instance_is_audited_as_it_is():
    torch = pytest.importorskip("torch", reason="audits of torch modules need the extra torch")
    state = torch.random.get_rng_state()
    result, rows = audited(torch.nn.MultiheadAttention(64, 16, batch_first=True))
    assert result.exit_code == 0
    assert rows["scale"]["verdict"] == "match"
    assert rows["variance"]["verdict"] in ("match", "measured")  # too few heads to be sure
    torch.random.set_rng_state(state)


def test_keys_that_begin_as_zero_make_uniform_attention():
    torch = pytest.importorskip("torch", reason="extra: torch")

    def zero_keys(seed):
        torch.manual_seed(seed)
        layer = torch.nn.MultiheadAttention(64, 4, batch_first=True)
        torch.nn.init.zeros_(layer.in_proj_weight[64:128])
        x = torch.randn(2, 8, 64)
        return layer, (x, x, x)

    result, rows = audited(zero_keys)
    assert result.exit_code == 3
    assert rows["scale"]["cause"] == "zero"
    assert "no scale can be read off it" in result.text()


def test_a_changed_initialisation_is_not_the_declared_one():
    torch = pytest.importorskip("torch", reason="audits of torch modules need the extra torch")
    module = torch.nn.MultiheadAttention(64, 16, batch_first=True)
    with torch.no_grad():
        module.in_proj_weight *= 2.0**0.25  # variances sqrt(2) times: logit sd sqrt(2) times
    result, rows = audited(module)
    assert result.exit_code == 1
    assert rows["variance"]["verdict"] == "mismatch"


def test_a_model_type_that_there_is_not_and_a_setting_that_there_is_not():
    pytest.importorskip("transformers", reason="hf: targets need the extra hf")
    pytest.importorskip("torch", reason="hf: targets need the extra hf")
    with pytest.raises(InputError, match="did you mean gptj or gpt2"):
        vv.audit("hf:gpt3")
    with pytest.raises(InputError, match="has no setting 'hidden'"):
        vv.audit("hf:gpt2:hidden=3")
    with pytest.raises(InputError, match="cannot make hf:gpt2:n_head=5"):
        vv.audit("hf:gpt2:n_head=5")


def test_without_transformers_the_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install 'verify-variance\[hf\]'"):
        vv.audit("hf:gpt2")


def test_position_bias_is_not_the_variance_of_qk():
    pytest.importorskip("transformers", reason="hf: targets need the extra hf")
    pytest.importorskip("torch", reason="hf: targets need the extra hf")
    _, rows = audited("hf:bloom:hidden_size=128,n_head=8")
    assert rows["scale"]["verdict"] == "match"
    assert rows["variance"]["verdict"] == "match"
    assert rows["logit variance"]["estimate"] > 10 * rows["variance"]["estimate"]  # ALiBi


def test_numbers_of_a_plain_layer_agree_with_numpy():
    """Entropy and Jacobian of uniform rows: zero weights."""

    def flat(seed):
        return jax_module(jax.random.key(seed), D_K**-0.5, 1e-12), tokens(seed)

    _, rows = audited(flat)
    assert rows["entropy (nats)"]["estimate"] == pytest.approx(np.log(L), rel=1e-9)
    assert rows["effective keys"]["estimate"] == pytest.approx(L, rel=1e-9)
