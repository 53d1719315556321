"""Rules against moments known in closed form."""

import math

import numpy as np
import pytest
from verify_variance.stats.quadrature import LegendrePanels, gauss_rule, scale_rule
from verify_variance.stats.rows.logit_laws import RowLaw, fixed_scales
from verify_variance.stats.rows.moments import row_moments
from verify_variance.stats.rows.power_sums import FROBENIUS_SQ, SUM_P2, TRACE, expand


def test_gauss_rule_of_a_two_point_law_is_that_law() -> None:
    nodes, weights = gauss_rule(np.array([-1.0, 2.0]), np.array([2.0, 1.0]), 2)
    assert nodes == pytest.approx([-1.0, 2.0], abs=1e-15)
    assert weights == pytest.approx([2 / 3, 1 / 3], abs=1e-15)


@pytest.mark.parametrize("d", [1, 2, 7, 64, 2**20])
def test_scale_rule_has_the_moments_of_chi(d: int) -> None:
    r, w = scale_rule((d,), 1.0, 32)
    # E chi_d = sqrt(2) Gamma((d+1)/2) / Gamma(d/2)
    mean = math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2)) * math.sqrt(2 / d)
    # lgamma near d log d leaves eps d log d in the outside truth
    assert w @ r == pytest.approx(mean, rel=1e-12 + 1e-15 * d)
    assert w @ r**2 == pytest.approx(1.0, rel=1e-11)
    assert w @ r**4 == pytest.approx(1.0 + 2.0 / d, rel=1e-8)


def test_a_query_with_a_mean_has_a_noncentral_norm() -> None:
    d, shift = 8, 50.0
    r, w = scale_rule((d,), 1.0, 32, shift)
    # E |q|^2 = d + shift, Var |q|^2 = 2 (d + 2 shift)
    assert d * (w @ r**2) == pytest.approx(d + shift, rel=1e-12)
    assert d**2 * (w @ r**4) == pytest.approx((d + shift) ** 2 + 2 * (d + 2 * shift), rel=1e-11)


def test_a_product_of_norms_has_the_product_of_their_moments() -> None:
    r, w = scale_rule((128, 32, 128), 1.0, 16)
    assert w @ r**2 == pytest.approx(1.0, rel=1e-13)
    assert w @ r**4 == pytest.approx((1 + 2 / 128) ** 2 * (1 + 2 / 32), rel=1e-12)


@pytest.mark.parametrize(("n", "std", "d"), [(2, 1.0, 1), (1000, 2.0, 2), (10**6, 8.0, 4)])
def test_eight_more_nodes_change_nothing(n: int, std: float, d: int) -> None:
    law = RowLaw(std, (d,))
    size = len(fixed_scales(law, n))
    r, w = scale_rule((d,), math.sqrt(math.log(n)) / std, size + 8)
    for name in ("sum_p2", "entropy", "frobenius_sq", "spread^2"):
        more = sum(
            wi * row_moments(law.at(std * ri), n)[name]
            for ri, wi in zip(r.tolist(), w.tolist(), strict=True)
        )
        assert row_moments(law, n)[name] == pytest.approx(more, rel=1e-11)


def test_running_integrals_of_panels() -> None:
    panels = LegendrePanels(np.linspace(0.0, 3.0, 4))
    f = np.exp(panels.points)[None, :]
    assert panels.from_below(f)[0] == pytest.approx(np.expm1(panels.points), rel=1e-13)
    assert panels.from_above(f)[0] == pytest.approx(np.exp(3) - f[0], rel=1e-12)


def test_expansions_agree_with_enumeration() -> None:
    """Against plain sums over the keys, and every coefficient of a positive statistic positive."""
    y = np.array([0.3, 1.1, 2.0, 0.7])

    def augmented(parts: tuple[int, ...], used: tuple[int, ...] = ()) -> float:
        if not parts:
            return 1.0
        free = (i for i in range(y.size) if i not in used)
        return sum(float(y[i]) ** parts[0] * augmented(parts[1:], (*used, i)) for i in free)

    e = {k: float((y**k).sum()) for k in (1, 2, 3)}
    frobenius = e[2] * e[1] ** 2 - 2 * e[3] * e[1] + e[2] ** 2
    for factors, value in (
        ((SUM_P2, SUM_P2, SUM_P2), e[2] ** 3),
        ((FROBENIUS_SQ, FROBENIUS_SQ), frobenius**2),
        ((FROBENIUS_SQ, TRACE), frobenius * (e[1] ** 2 - e[2])),
    ):
        terms = expand(*factors)
        assert min(terms.values()) > 0
        total = sum(c * augmented(parts) for parts, c in terms.items())
        assert total == pytest.approx(value, rel=1e-13)
