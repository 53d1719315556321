"""Mean absolute logits and characteristic functions against exact sums and known values."""

import itertools
import math

import numpy as np
import pytest
from verify_variance.stats.cases import Case
from verify_variance.stats.laws.characteristic import ProductLaw
from verify_variance.stats.laws.dot_product import mean_absolute_dot_product
from verify_variance.stats.laws.logit_integrals import absolute_mean
from verify_variance.stats.laws.mean_absolute import absolute_logit
from verify_variance.stats.logits import logit_reference

ROOT = math.sqrt(2 / math.pi)


def _mean_abs(q: str, k: str, d: int, **rest: float) -> float:
    return absolute_logit(Case(d_k=d, elements_q=q, elements_k=k, **rest)).first  # type: ignore[arg-type]


# laws, d_k, truth and where it comes from
KNOWN = [
    ("uniform", "uniform", 64, 6.3820533945138),  # R017, to 1e-11
    ("laplace", "laplace", 64, 6.2625390930682),  # R020, to 1e-11
    ("uniform", "uniform", 1, 3 / 4),
    ("uniform", "uniform", 2, 10 / 9),  # E max(|y1|, |y2|), density ln(3/y)/3
    ("rademacher", "uniform", 2, 2 / math.sqrt(3)),
    ("rademacher", "normal", 3, math.sqrt(3) * ROOT),
    ("exponential", "exponential", 1, 4 / math.e**2),
    ("exponential", "rademacher", 2, (1 + 8 / math.e**2) / 2),  # E|e1 - e2|, E|Gamma(2) - 2|
    ("student-t:3", "student-t:3", 1, 4 / math.pi**2),
    ("student-t:9", "uniform", 4, 1.52511741745804),  # mpmath, nested, Bessel K
    ("logistic", "rademacher", 1, 2 * math.log(2) * math.sqrt(3) / math.pi),
    ("sphere", "sphere", 3, 3 / 2),  # the cosine is uniform
    ("sphere", "normal", 7, math.sqrt(7) * ROOT),
    ("sphere", "rademacher", 3, 3 / 2),
    ("rademacher", "sphere", 1, 1.0),
    (
        "lognormal:1",
        "normal",
        1,
        2 * math.erf(0.5 / math.sqrt(2)) / math.sqrt(math.e - 1) * ROOT,
    ),
]


@pytest.mark.parametrize(("q", "k", "d", "truth"), KNOWN)
def test_known_mean_absolute_logits(q: str, k: str, d: int, truth: float) -> None:
    assert _mean_abs(q, k, d) == pytest.approx(truth, rel=1e-11)
    assert _mean_abs(k, q, d) == pytest.approx(truth, rel=1e-11)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 16, 64, 4096, 2**20])
def test_quadrature_gives_the_normals_closed_form(d: int) -> None:
    assert absolute_mean(Case(d_k=d)) == pytest.approx(mean_absolute_dot_product(d), rel=1e-12)


def test_a_wrong_law_shows() -> None:
    """The normals' value is 0.4 % from the uniforms' and must not pass for it."""
    assert mean_absolute_dot_product(64) != pytest.approx(6.3820533945138, rel=1e-3)


@pytest.mark.parametrize("mean_q", [0.0, 0.5])
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_signs_by_enumeration(d: int, mean_q: float) -> None:
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=d)))
    exact = float(np.abs((signs + mean_q) @ signs.T).mean())
    found = _mean_abs("rademacher", "rademacher", d, mean_q=mean_q)
    assert found == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("d", range(1, 13))
def test_signs_by_their_binomial(d: int) -> None:
    exact = sum(math.comb(d, j) * abs(2 * j - d) for j in range(d + 1)) / 2**d
    assert _mean_abs("rademacher", "rademacher", d) == pytest.approx(exact, rel=1e-14)


def test_sparse_elements_are_a_binomial_mixture() -> None:
    share, d = 0.3, 10
    exact = sum(
        math.comb(d, m) * share**m * (1 - share) ** (d - m) * mean_absolute_dot_product(m)
        for m in range(1, d + 1)
    ) / math.sqrt(share)
    assert _mean_abs("sparse:0.3", "normal", d) == pytest.approx(exact, rel=1e-12)


def _folded(mean: float, sd: float) -> float:
    """E|N(mean, sd^2)|."""
    return sd * ROOT * math.exp(-((mean / sd) ** 2) / 2) + mean * math.erf(mean / sd / math.sqrt(2))


@pytest.mark.parametrize("mean", [0.3, 2.0])
def test_signs_with_moved_normals(mean: float) -> None:
    """Given the signs, x is normal with mean `mean S` and variance d."""
    d = 8
    exact = sum(
        math.comb(d, j) / 2**d * _folded(mean * (2 * j - d), math.sqrt(d)) for j in range(d + 1)
    )
    found = _mean_abs("rademacher", "normal", d, mean_k=mean)
    assert found == pytest.approx(exact, rel=1e-12)


def test_correlated_normals() -> None:
    """`x = rho |q|^2 + sqrt(1 - rho^2) |q| z`, and |q|^2/2 ~ Exp(1) at d = 2."""
    assert _mean_abs("normal", "normal", 5, correlation=1.0) == pytest.approx(5, rel=1e-10)
    rho = 0.4
    nodes, weights = np.polynomial.legendre.leggauss(200)
    r = 4.5 * (nodes + 1)  # |q| up to 9, beyond which e^-40 is left
    sizes = np.array([_folded(rho * a * a, math.sqrt(1 - rho**2) * a) for a in r])
    exact = float(4.5 * weights @ (r * np.exp(-(r**2) / 2) * sizes))
    assert _mean_abs("normal", "normal", 2, correlation=rho) == pytest.approx(exact, rel=1e-12)
    assert _mean_abs("normal", "normal", 2) != pytest.approx(exact, rel=1e-2)


PAIRS = [
    Case(elements_q="uniform", elements_k="laplace"),
    Case(elements_q="exponential", elements_k="uniform"),
    Case(elements_q="lognormal", elements_k="normal"),
    Case(elements_q="student-t:5", elements_k="logistic"),
    Case(elements_q="sparse:0.3", elements_k="truncated-normal"),
    Case(elements_q="laplace", elements_k="uniform", mean_q=0.4, mean_k=-0.7, sigma_q=1.5),
    Case(elements_q="exponential", elements_k="normal", mean_q=1.0, mean_k=0.5),
    Case(elements_q="laplace", elements_k="laplace", mean_q=0.4, mean_k=1.3),
    Case(elements_q="lognormal:1.5", elements_k="logistic", mean_k=0.4),
    Case(elements_q="truncated-normal-raw:1", elements_k="student-t:12", mean_q=0.2),
]


@pytest.mark.parametrize("case", PAIRS, ids=str)
def test_either_law_may_give_the_nodes(case: Case) -> None:
    t = np.array([0.01, 0.3, 1.0, 4.0])
    law, swapped = ProductLaw(case), ProductLaw(case)
    swapped.inner, swapped.outer = swapped.outer, swapped.inner
    one, other = law.log_cf(t), swapped.log_cf(t)
    # phi itself to 1e-13; its logarithm where phi is not small
    cf = [np.exp(real + 1j * imaginary) for real, imaginary in (one, other)]
    assert np.abs(cf[0] - cf[1]).max() < 1e-12
    assert one[0][0] == pytest.approx(other[0][0], rel=1e-9)


@pytest.mark.parametrize(
    ("case", "phi"),
    [
        (Case(), lambda t: (1 + t**2) ** -0.5),
        (Case(elements_q="rademacher", elements_k="laplace"), lambda t: 1 / (1 + t**2 / 2)),
        (Case(elements_q="rademacher", elements_k="rademacher"), np.cos),
        (
            Case(elements_q="rademacher", elements_k="exponential"),
            lambda t: (np.exp(-1j * t) / (1 - 1j * t)).real,
        ),
    ],
    ids=["normal", "laplace", "rademacher", "exponential"],
)
def test_closed_characteristic_functions(case: Case, phi: object) -> None:
    t = np.linspace(0.05, 20, 50)
    real, imaginary = ProductLaw(case).log_cf(t)
    assert np.exp(real) * np.cos(imaginary) == pytest.approx(phi(t), abs=1e-14)  # type: ignore[operator]


def test_uniform_product_is_a_sine_integral() -> None:
    sici = pytest.importorskip("scipy.special").sici
    t = np.linspace(0.1, 60, 40)
    uniform = Case(elements_q="uniform", elements_k="uniform")
    real, imaginary = ProductLaw(uniform).log_cf(t)
    assert np.exp(real) * np.cos(imaginary) == pytest.approx(sici(3 * t)[0] / (3 * t), abs=1e-14)


def test_scale_and_kind() -> None:
    reference = logit_reference(Case(d_k=64, elements_q="uniform", sigma_q=2.0), "mean_abs", 0.125)
    assert reference.kind == "quadrature"
    plain = logit_reference(Case(d_k=64, elements_q="uniform"), "mean_abs")
    assert (reference.value, reference.replicate_sd) == pytest.approx(
        (plain.value / 4, plain.replicate_sd / 4), rel=1e-14
    )


def test_what_has_no_value_says_so() -> None:
    signs = Case(d_k=300, elements_q="rademacher", elements_k="rademacher", mean_q=1.0)
    assert logit_reference(signs, "mean_abs").kind == "none"
    assert logit_reference(signs, "mean_abs").value is None
