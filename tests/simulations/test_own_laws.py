"""Laws of the user's own, registered, checked and verified like any other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import verify_variance as vv
from scipy import stats
from verify_variance.simulations import elements
from verify_variance.simulations.own_laws import checked_draws
from verify_variance.stats.elements import ELEMENTS

TRIANGULAR = (0, 1, 0, 12 / 5, 0, 54 / 7, 0, 144 / 5)  # sqrt(6) (u - v)
LAPLACE = (0, 1, 0, 6, 0, 90, 0, 2520, 0, 113_400, 0, 7_484_400)


def triangular(u, v):
    return jnp.sqrt(6.0) * (u - v)


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    monkeypatch.setattr(elements, "SAMPLERS", elements.SAMPLERS)
    known = set(ELEMENTS)
    yield
    for name in set(ELEMENTS) - known:
        del ELEMENTS[name], elements.SAMPLERS[name]


def registered(**options):
    given = {"uniforms": 2, "draw": triangular, "moments": TRIANGULAR} | options
    return vv.register_elements("triangular", given.pop("version", 1), **given)


def test_a_law_of_uniforms_is_verified_like_any_other():
    law = registered()
    result = vv.verify(dk=[4, 16], elements=law, quantities=["mean", "std"], samples=100_000)
    assert result.verdict == "match"
    assert set(result.frame["elements"]) == {"triangular@1"}
    kurtosis = vv.predict(vv.Case(d_k=16, elements_q=law, elements_k=law), "kurtosis")
    assert kurtosis.value == pytest.approx((2.4**2 - 3) / 16)
    for dtype in ("float64", "float32"):
        got = vv.verify(dk=[4], elements=law, dtype=dtype, samples=50_000)
        assert got.verdict == "match"


def test_the_draws_are_the_law():
    law = registered()
    x = checked_draws(law, elements.SAMPLERS[law]) / np.sqrt(6)
    level = stats.triang(0.5, -1, 2).cdf(x.ravel())
    assert stats.kstest(level[:200_000], "uniform").pvalue > 1e-7
    assert abs(np.corrcoef(x)[0, 1]) < 5.4 / np.sqrt(x.shape[1])


def test_a_law_of_a_key_is_verified_too():
    law = vv.register_elements(
        "laplace-by-key", 1, uniforms=0, moments=LAPLACE,
        draw=lambda key: jax.random.laplace(key) / jnp.sqrt(2.0),
    )  # fmt: skip
    result = vv.verify(dk=[16], elements_q=law, elements_k="normal", samples=100_000)
    assert result.verdict == "match"
    x = checked_draws(law, elements.SAMPLERS[law]).ravel()[:200_000]
    assert stats.kstest(x, stats.laplace(scale=np.sqrt(0.5)).cdf).pvalue > 1e-7


def test_the_version_is_in_the_key_and_the_name_keeps_its_draws():
    first = registered()
    assert registered() == first  # a notebook cell run twice
    with pytest.raises(vv.InputError, match="other draws already; give a new version"):
        registered(draw=lambda u, v: -triangular(u, v))
    second = registered(version="2", draw=triangular)
    a, b = (vv.verify(dk=[4], elements=law, samples=1000).frame["estimate"][0]
            for law in (first, second))  # fmt: skip
    assert a != b


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"draw": lambda u, v: 2.5 * (u - v)}, "moment 2 of triangular@1 must be that of its dr"),
        ({"moments": (0, 1, 0, 2.3, 0, 7.5, 0, 27)}, "moment 4 of triangular@1"),
        ({"draw": lambda u, v: jnp.where(u < 1e-4, jnp.nan, u - v)}, "must be finite, got"),
        ({"draw": lambda u, v: jnp.sum(u)}, "one element for each uniform"),
        ({"draw": lambda u: u}, "must be a JAX function, got TypeError"),
        ({"uniforms": 9}, "uniforms must be at most 8, got 9"),
    ],
)
def test_what_is_wrong_is_refused_and_not_registered(options, complaint):
    with pytest.raises(vv.InputError, match=complaint):
        registered(**options)
    assert "triangular@1" not in ELEMENTS


def test_what_is_not_stated_is_not_known():
    law = registered(moments=TRIANGULAR[:4])
    with pytest.raises(vv.InputError, match="needs finite moments of order 8"):
        vv.verify(dk=[4], elements=law, samples=1000)
    rows = vv.verify(dk=[4], elements=law, quantities=["mean_abs", "law"], samples=1000, n_keys=3)
    assert set(rows.frame["verdict"]) == {"measured"}
    assert "no characteristic function of triangular@1" in rows.text()
