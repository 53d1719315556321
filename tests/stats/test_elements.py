"""Element laws against their densities and against values from the literature."""

import math

import pytest
from verify_variance.stats.elements import (
    ELEMENTS,
    canonical_elements,
    element_moment,
    finite_moments_below,
    parse_elements,
)
from verify_variance.stats.laws.characteristic import panel_nodes
from verify_variance.stats.laws.element_cfs import SPECTRA, Spectrum

LAWS = [
    "normal",
    "uniform",
    "rademacher",
    "laplace",
    "logistic",
    "exponential",
    "truncated-normal",
    "truncated-normal:0.3",
    "truncated-normal-raw",
    "truncated-normal-raw:12",
    "student-t:9",
    "student-t:40",
    "sparse:0.2",
    "sparse:1",
    "lognormal:0.3",
    "lognormal",
]


def _moment_of_density(text: str, r: int) -> float:
    name, parameter = parse_elements(text)
    law: Spectrum = SPECTRA[name]
    low, high = law.support(parameter)
    total = sum(weight * place**r for place, weight in law.atoms(parameter))
    for a, b in ((low, 0.0), (0.0, high)) if low < high else ():
        near = low if not law.symmetric else 0.0
        x, w = panel_nodes(
            a, b, lambda a, b, near=near: b - a > max(0.02, min(abs(a - near), abs(b - near)))
        )
        total += float(w @ (law.density(x, parameter) * x**r))
    return total


@pytest.mark.parametrize("text", LAWS)
@pytest.mark.parametrize("r", [0, 1, 2, 3, 4, 6])
def test_moments_are_those_of_the_density(text: str, r: int) -> None:
    # heavy tails are cut where their first moment is below 1e-14: 6th moments of t_9 miss 1e-4
    loose = {"student-t:9": 1e-3, "student-t:40": 1e-9, "lognormal": 1e-9, "lognormal:0.3": 1e-10}
    tolerance = loose.get(text, 1e-12) if r > 2 else 1e-12
    truth = _moment_of_density(text, r)
    assert element_moment(text, r) == pytest.approx(truth, rel=tolerance, abs=1e-12)


def test_every_law_but_the_vector_has_a_spectrum() -> None:
    assert set(SPECTRA) == set(ELEMENTS) - {"sphere"}


@pytest.mark.parametrize("text", [t for t in LAWS if not t.startswith("truncated-normal-raw")])
def test_unit_form(text: str) -> None:
    assert element_moment(text, 1) == 0
    assert element_moment(text, 2) == pytest.approx(1, rel=1e-15)


def test_published_values() -> None:
    assert element_moment("laplace", 4) == 6
    assert element_moment("logistic", 4) == pytest.approx(4.2, rel=1e-14)
    assert element_moment("student-t:9", 4) == pytest.approx(3 * 7 / 5, rel=1e-14)
    assert [element_moment("exponential", r) for r in (3, 4, 5)] == [2, 9, 44]
    # the constant of jax.nn.initializers.variance_scaling
    sd = math.sqrt(element_moment("truncated-normal-raw:2", 2))
    assert sd == pytest.approx(0.87962566103423978, rel=1e-14)


@pytest.mark.parametrize("s", [1e-3, 0.1, 1.0, 2.0])
def test_lognormal_skewness_does_not_cancel(s: float) -> None:
    excess = math.expm1(s * s)
    skewness = (3 + excess) * math.sqrt(excess)
    assert element_moment(f"lognormal:{s}", 3) == pytest.approx(skewness, rel=1e-13)


def test_heavy_tails_end() -> None:
    assert finite_moments_below("student-t:5") == 5
    assert element_moment("student-t:5", 6) == math.inf
    assert math.isnan(element_moment("student-t:5", 7))
    assert finite_moments_below("laplace") == math.inf


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("norml", "did you mean normal"),
        ("", "known: normal"),
        ("student-t", "needs nu"),
        ("student-t:2", "must be a number above 2, where the variance is finite, got 2"),
        ("student-t:x", "must be a number above 2"),
        ("uniform:3", "takes no parameter"),
        ("sparse:1.5", "at most 1"),
        ("lognormal:inf", "got inf"),
        ("truncated-normal:0", "above 0, got 0"),
    ],
)
def test_errors_name_the_rule_and_the_way_out(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        parse_elements(text)
    assert "\n" not in str(caught.value)


def test_sphere_has_no_element_moments() -> None:
    with pytest.raises(ValueError, match="whole vector"):
        element_moment("sphere", 2)


def test_one_spelling() -> None:
    assert canonical_elements("truncated-normal") == canonical_elements("truncated-normal:2.0")
    assert canonical_elements("student-t:4.5") == "student-t:4.5"
    assert canonical_elements("normal") == "normal"
