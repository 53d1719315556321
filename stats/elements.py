"""The laws that the elements of q and k can have, as plain data.

Every law is given in its unit form: mean 0 and standard deviation 1, before `sigma` multiplies
and `mean` is added (`truncated-normal-raw` has a smaller standard deviation, and `sphere` is a
law of the whole vector). Drawing happens in `simulations`; only names and parameters must match.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .checks import InputError, named, number
from .laws import element_moments as em
from .laws.element_moments import Parameter

OWN = "@"  # stands between name and version of a law that the user registered


@dataclass(frozen=True, slots=True)
class ElementLaw:
    """One element law: its name, its parameter and the moments of its unit form.

    `moment(r, parameter)` is `E e^r`: inf where an even moment is infinite, nan where an odd one
    does not exist. `finite_below(parameter)` is the order from which moments are infinite.
    `symbol` names the parameter and is None for a law without one; `needs` says in words what
    `lower` (excluded) and `upper` (included) bound. Without a `default` it must be given.
    """

    name: str
    formula: str
    source: str
    needs: str
    moment: Callable[[int, Parameter], float]
    symbol: str | None = None
    default: Parameter = None
    lower: float = 0.0
    upper: float = math.inf
    finite_below: Callable[[Parameter], float] = lambda parameter: math.inf


_LAWS = (
    ElementLaw(
        "normal",
        "e ~ N(0, 1)",
        "textbook",
        "",
        em.even(em.double_factorial),
    ),
    ElementLaw(
        "uniform",
        "e ~ U(-sqrt(3), sqrt(3))",
        "textbook",
        "",
        em.even(lambda r: 3.0 ** (r // 2) / (r + 1)),
    ),
    ElementLaw(
        "rademacher",
        "e = -1 or 1, each with probability 1/2",
        "textbook",
        "",
        em.even(lambda r: 1.0),
    ),
    ElementLaw(
        "laplace",
        "density exp(-sqrt(2) |e|) / sqrt(2)",
        "textbook",
        "",
        em.even(lambda r: math.factorial(r) / 2.0 ** (r // 2)),
    ),
    ElementLaw(
        "logistic",
        "density sech^2(pi e / (2 sqrt(3))) pi / (4 sqrt(3))",
        "Johnson, Kotz and Balakrishnan 1995, ch. 23",
        "",
        em.even(em.logistic),
    ),
    ElementLaw(
        "truncated-normal",
        "N(0, 1) given |e| <= A, divided by its standard deviation",
        "jax.nn.initializers.variance_scaling (A = 2)",
        "a number above 0",
        em.truncated_normal,
        symbol="A",
        default=2.0,
    ),
    ElementLaw(
        "truncated-normal-raw",
        "N(0, 1) given |e| <= A; its standard deviation is below 1",
        "torch.nn.init.trunc_normal_, whose std is that before the cut",
        "a number above 0",
        em.truncated_normal_raw,
        symbol="A",
        default=2.0,
    ),
    ElementLaw(
        "student-t",
        "t_nu sqrt((nu - 2) / nu)",
        "Johnson, Kotz and Balakrishnan 1995, ch. 28",
        "a number above 2, where the variance is finite",
        em.student_t,
        symbol="nu",
        lower=2.0,
        finite_below=em.given,
    ),
    ElementLaw(
        "exponential",
        "Exp(1) - 1; skewed",
        "textbook",
        "",
        em.exponential,
    ),
    ElementLaw(
        "sparse",
        "Bernoulli(P) N(0, 1) / sqrt(P)",
        "mixture of an atom at 0 and a normal law",
        "a number above 0 and at most 1",
        em.sparse,
        symbol="P",
        default=0.5,
        upper=1.0,
    ),
    ElementLaw(
        "lognormal",
        "(exp(S Z) - exp(S^2/2)) / (exp(S^2/2) sqrt(exp(S^2) - 1)), Z ~ N(0, 1); skewed",
        "Johnson, Kotz and Balakrishnan 1994, ch. 14",
        "a number above 0 and at most 2, beyond which moments overflow",
        em.lognormal,
        symbol="S",
        default=0.5,
        upper=2.0,
    ),
    ElementLaw(
        "sphere",
        "the vector is uniform on the sphere of radius sigma sqrt(d_k)",
        "Muller 1959",
        "a mean of 0",
        em.sphere,
    ),
)
ELEMENTS: dict[str, ElementLaw] = {law.name: law for law in _LAWS}


def parse_elements(text: str) -> tuple[str, Parameter]:
    """Name and parameter of an element law written as `name` or `name:parameter`.

    Raises InputError where the name is unknown or the parameter missing, superfluous or out of
    range.

    Examples:
        >>> parse_elements("student-t:9"), parse_elements("truncated-normal")
        (('student-t', 9.0), ('truncated-normal', 2.0))

    """
    name, written = named("elements", text, ELEMENTS, lambda known: ELEMENTS[known].symbol)
    law = ELEMENTS[name]
    if law.symbol is None:
        return name, None
    if written is None and law.default is None:
        raise InputError(f"{name} needs {law.symbol}, got {text}; write {name}:9 for example")
    if written is None:
        return name, law.default

    def allowed(value: float) -> bool:
        return law.lower < value <= law.upper

    return name, number(f"{law.symbol} of {name}", written, law.needs, allowed)


def canonical_elements(text: str) -> str:
    """The one spelling of a law, its parameter always written.

    Examples:
        >>> canonical_elements("student-t:9.0"), canonical_elements("truncated-normal")
        ('student-t:9', 'truncated-normal:2')

    """
    name, parameter = parse_elements(text)
    return name if parameter is None else f"{name}:{repr(parameter).removesuffix('.0')}"


def element_moment(text: str, r: int) -> float:
    """`E e^r` of the unit law that `text` names.

    Examples:
        >>> element_moment("laplace", 4), element_moment("student-t:5", 6)
        (6.0, inf)

    """
    name, parameter = parse_elements(text)
    return ELEMENTS[name].moment(r, parameter)


def finite_moments_below(text: str) -> float:
    """Order from which the law's moments are infinite; inf where all are finite.

    Examples:
        >>> finite_moments_below("student-t:9"), finite_moments_below("uniform")
        (9.0, inf)

    """
    name, parameter = parse_elements(text)
    return ELEMENTS[name].finite_below(parameter)
