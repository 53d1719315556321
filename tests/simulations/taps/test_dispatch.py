"""The tap of torch modules finds logits, factors and weights, fused kernels included."""

import numpy as np
import pytest
from verify_variance.simulations.taps.heads import layer_of
from verify_variance.simulations.taps.rows import fitted, rows_of

torch = pytest.importorskip("torch", reason="taps of torch need the extra torch")

from verify_variance.simulations.taps.dispatch import tapped_torch  # noqa: E402

B, L, H, D_K = 3, 8, 2, 16
D, ROOT = H * D_K, D_K**-0.5
X = torch.randn(B, L, D, generator=torch.Generator().manual_seed(3))
CAUSAL = torch.ones(L, L, dtype=torch.bool).tril()


class Attention(torch.nn.Module):
    """Multi-head attention whose logits and softmax are those of a function."""

    def __init__(self, attend, fused=False, bias=True):
        super().__init__()
        self.attend, self.fused = attend, fused
        if fused:
            self.qkv = torch.nn.Linear(D, 3 * D, bias=bias)
        else:
            self.q, self.k, self.v = (torch.nn.Linear(D, D, bias=bias) for _ in range(3))

    def forward(self, x):
        each = self.qkv(x).chunk(3, -1) if self.fused else (self.q(x), self.k(x), self.v(x))
        q, k, v = (y.view(B, L, H, D_K).transpose(1, 2) for y in each)
        return self.attend(q, k, v).transpose(1, 2).reshape(B, L, D)


def softmaxed(logits_of):
    return lambda q, k, v: torch.softmax(logits_of(q, k), -1) @ v


def dot(q, k):
    return q @ k.transpose(-1, -2)


def sdpa(**options):
    return lambda *x: torch.nn.functional.scaled_dot_product_attention(*x, **options)


def by_einsum(q, k, v):
    p = (torch.einsum("bhld,bhsd->bhls", q, k) * ROOT).softmax(-1)
    return torch.einsum("bhls,bhsd->bhld", p, v)


def rotated(x):
    angles = torch.arange(L)[:, None] / 10000 ** (torch.arange(D_K // 2) / (D_K // 2))
    cos, sin = (torch.cat([f(angles)] * 2, -1) for f in (torch.cos, torch.sin))
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def by_hand(q, k, v):
    x = dot(q, k) * ROOT
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True) @ v


SOUND = {
    "after the product": softmaxed(lambda q, k: dot(q, k) * ROOT),
    "division": softmaxed(lambda q, k: dot(q, k) / D_K**0.5),
    "in place": softmaxed(lambda q, k: dot(q, k).mul_(ROOT)),
    "on q": softmaxed(lambda q, k: dot(q * ROOT, k)),
    "on both": softmaxed(lambda q, k: dot(q * D_K**-0.25, k / D_K**0.25)),
    "divided and multiplied back": softmaxed(lambda q, k: dot(q, k) * ROOT / 12 * 12),
    "keys first": softmaxed(lambda q, k: dot(k, q).transpose(-1, -2) * ROOT),
    "on q before its rotation": softmaxed(lambda q, k: dot(rotated(q * ROOT), rotated(k))),
    "mask": softmaxed(lambda q, k: (dot(q, k) * ROOT).masked_fill(~CAUSAL, -torch.inf)),
    "finite mask": softmaxed(
        lambda q, k: torch.where(CAUSAL, dot(q, k) * ROOT, torch.finfo(torch.float32).min)
    ),
    "position bias": softmaxed(lambda q, k: dot(q, k) * ROOT + torch.arange(L) / 2),
    "einsum": by_einsum,
    "softmax by hand": by_hand,
    "fused kernel": sdpa(),
    "causal kernel": sdpa(is_causal=True),
    "mask in a kernel": sdpa(attn_mask=CAUSAL),
    "kernel with its own scale": lambda q, k, v: sdpa(scale=1.0)(q * ROOT, k, v),
}


def rows_in(module, *inputs):
    return [rows_of(seen, B) for seen in tapped_torch(module, *(inputs or (X,)))]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", SOUND)
def test_scale_and_weights_are_read_however_they_are_applied(name, fused):
    module = Attention(SOUND[name], fused)
    (rows,) = rows_in(module)
    fit = fitted(rows)
    assert fit.factor == pytest.approx(ROOT, rel=1e-5)
    assert fit.plain
    layer = layer_of(rows)
    w_q, w_k = (module.qkv.weight[:D], module.qkv.weight[D : 2 * D]) if fused else (
        module.q.weight, module.k.weight)  # fmt: skip
    b_q = module.qkv.bias[:D] if fused else module.q.bias
    for head in range(H):
        of = slice(head * D_K, (head + 1) * D_K)
        form = w_q[of].double().T @ w_k[of].double()
        shift = b_q[of].double() @ w_k[of].double()
        exact = ((form**2).sum() + (shift**2).sum()).item() / D_K
        assert layer.on_unit[head] == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize(
    ("attend", "factor"),
    [
        (softmaxed(dot), 1.0),
        (softmaxed(lambda q, k: dot(q, k) / D_K), 1 / D_K),
        (softmaxed(lambda q, k: dot(q, k) / D**0.5), D**-0.5),
        (softmaxed(lambda q, k: dot(q * ROOT, k) * ROOT), 1 / D_K),
        (lambda q, k, v: sdpa()(q * ROOT, k, v), 1 / D_K),
        (sdpa(scale=1.0), 1.0),
        (softmaxed(lambda q, k: dot(q, k) * 0), 0.0),
    ],
)
def test_planted_scales_are_read(attend, factor):
    assert fitted(rows_in(Attention(attend))[0]).factor == pytest.approx(factor, rel=1e-5)


@pytest.mark.parametrize("weights", [True, False])
def test_multihead_attention_is_seen_with_and_without_its_fast_path(weights):
    module = torch.nn.MultiheadAttention(D, H, batch_first=True)  # in training, then as it was
    assert torch.backends.mha.get_fastpath_enabled()
    seen = tapped_torch(module, X, X, X, need_weights=weights)
    assert module.training
    assert torch.backends.mha.get_fastpath_enabled()
    rows = rows_of(seen[0], B)
    assert fitted(rows).factor == pytest.approx(ROOT, rel=1e-5)
    layer = TORCH_LAYER(True)
    fused = rows_of(tapped_torch(layer, X)[0], B)
    assert fitted(fused).factor == pytest.approx(ROOT, rel=1e-5)


def TORCH_LAYER(batch_first):
    return torch.nn.TransformerEncoderLayer(D, H, batch_first=batch_first, dim_feedforward=8).eval()


def test_grouped_queries_share_a_replicate():
    def grouped(q, k, v):
        return sdpa(enable_gqa=True)(q, k[:, :1], v[:, :1])

    assert layer_of(rows_in(Attention(grouped))[0]).groups.tolist() == [0, 0]


def test_a_norm_undoes_a_scale():
    def normed(q, k):
        unit = [y / y.pow(2).mean(-1, keepdim=True).sqrt() for y in (q * 3, k)]
        return dot(*unit) * ROOT

    rows = rows_in(Attention(softmaxed(normed)))[0]
    assert fitted(rows).factor == pytest.approx(ROOT, rel=1e-5)
    assert layer_of(rows).law.endswith("normed")


def test_a_router_is_no_attention():
    gate = torch.nn.Linear(D, 4)
    experts = torch.randn(4, D)
    rows = rows_in(lambda x: torch.softmax(gate(x), -1) @ experts)
    assert all(fitted(each) is None for each in rows)


def test_half_precision_is_judged_coarsely():
    module = Attention(SOUND["after the product"]).to(torch.bfloat16)
    (rows,) = [rows_of(seen, B) for seen in tapped_torch(module, X.to(torch.bfloat16))]
    fit = fitted(rows)
    assert fit.factor == pytest.approx(ROOT, rel=1e-2)
    assert fit.plain
    assert not layer_of(rows).fine


def test_the_softmax_statistics_are_those_of_torch():
    module = Attention(SOUND["after the product"], bias=False)
    kept = []
    attend = module.attend
    module.attend = lambda q, k, v: (
        kept.append(torch.softmax(dot(q, k) * ROOT, -1)) or attend(q, k, v)
    )
    rows = rows_in(module)[-1]
    p = kept[0].double().detach()
    measured = layer_of(rows).measured
    jacobian = torch.diag_embed(p) - p[..., None] * p[..., None, :]
    outside = {
        "max_prob": p.amax(-1),
        "entropy": torch.special.entr(p).sum(-1),
        "jacobian_frobenius_sq": (jacobian**2).sum((-1, -2)),
        "jacobian_trace": jacobian.diagonal(dim1=-1, dim2=-2).sum(-1),
    }
    for name, of in outside.items():
        np.testing.assert_allclose(measured[name], of.mean((0, 2)).numpy(), rtol=1e-5)
