"""`E |x|` of the logit: closed forms where there are any, one quadrature for all other laws."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..cases import Case, Kind
from ..elements import OWN, parse_elements
from .dot_product import absolute_moment, gamma_ratio, mean_absolute_dot_product, mean_chi


@dataclass(frozen=True, slots=True)
class AbsoluteLogit:
    """`E |x|` and, where it is known exactly, `E |x|^3` of the logit before its scale."""

    first: float
    third: float | None
    kind: Kind
    formula: str

    def times(self, factor: float) -> AbsoluteLogit:
        """The same of `factor * x`."""
        third = None if self.third is None else self.third * factor**3
        return replace(self, first=self.first * factor, third=third)


_NORMAL = AbsoluteLogit(
    math.sqrt(2 / math.pi), 2 * math.sqrt(2 / math.pi), "closed form", "s sqrt(2/pi)"
)


def absolute_logit(case: Case) -> AbsoluteLogit:
    """`E |sum_i q_i k_i|` for any two laws of the catalogue.

    Examples:
        >>> round(absolute_logit(Case(d_k=64)).first, 10)
        6.3581922399

    """
    if case.weights is not None:
        from ..weights.moments import weight_absolute_logit

        return weight_absolute_logit(case)
    if case.logit_std is not None:
        return _NORMAL.times(case.logit_std)
    assert case.d_k is not None
    unit = _absolute_unit(
        replace(
            case,
            sigma_q=1.0,
            sigma_k=1.0,
            mean_q=case.mean_q / case.sigma_q,
            mean_k=case.mean_k / case.sigma_k,
        ),
        case.d_k,
    )
    return unit.times(case.sigma_q * case.sigma_k)


def _absolute_unit(case: Case, d_k: int) -> AbsoluteLogit:
    laws = (case.elements_q, case.elements_k)
    centred = not (case.mean_q or case.mean_k or case.correlation)
    if "sphere" in laws:
        return _sphere(case, d_k)
    if centred and laws == ("normal", "normal"):
        formula = "2 Gamma((d+1)/2) / (sqrt(pi) Gamma(d/2))"
        return AbsoluteLogit(
            absolute_moment(d_k, 1), absolute_moment(d_k, 3), "closed form", formula
        )
    if centred and laws == ("rademacher", "rademacher"):
        # E |S_(2m-1)| = E |S_2m|, and the latter is the normals' value
        even = d_k + d_k % 2
        first = mean_absolute_dot_product(even) if d_k > 1 else 1.0
        formula = "2 Gamma((e+1)/2) / (sqrt(pi) Gamma(e/2)), e = d rounded up to even"
        return AbsoluteLogit(first, None, "closed form", formula)
    if laws == ("rademacher", "rademacher"):
        return _four_points(case, d_k)
    from .logit_integrals import NoDecayError, absolute_mean

    formula = "(2/pi) int (1 - Re phi(t)^d) / t^2 dt"
    if any(OWN in law for law in laws):
        return AbsoluteLogit(math.nan, None, "none", "no characteristic function was registered")
    widths = [parse_elements(law)[1] or 0.0 for law in laws if law.startswith("lognormal")]
    if max(widths, default=0.0) > 1 or (1 < d_k < 64 and len(widths) == 2):
        return AbsoluteLogit(math.nan, None, "none", formula)  # a matter of minutes
    try:
        return AbsoluteLogit(absolute_mean(case), None, "quadrature", formula)
    except NoDecayError as error:
        return AbsoluteLogit(math.nan, None, "none", str(error))


def _four_points(case: Case, d_k: int) -> AbsoluteLogit:
    """Rademacher elements with means: the sum over the counts of the four products, exactly.

    Beyond d_k = 256, with three million terms, there is no value (kind none): the characteristic
    function of four points does not decay, so that no quadrature replaces the sum.
    """
    import numpy as np
    from scipy.special import binom

    formula = "sum over the multinomial counts of (mq +- 1)(mk +- 1)"
    if d_k > 256:
        return AbsoluteLogit(math.nan, None, "none", formula)
    first = 0.0
    q, k = (case.mean_q + 1, case.mean_q - 1), (case.mean_k + 1, case.mean_k - 1)
    for n in range(d_k + 1):  # elements of q at their upper value; i, j count those of k
        i, j = np.arange(n + 1), np.arange(d_k - n + 1)
        high, low = (q[0] * (k[0] * i + k[1] * i[::-1]), q[1] * (k[0] * j + k[1] * j[::-1]))
        weights = np.outer(binom(n, i) * 0.5**n, binom(d_k - n, j) * 0.5 ** (d_k - n))
        of_n = float((weights * np.abs(np.add.outer(high, low))).sum())
        first += float(binom(d_k, n)) * 0.5**d_k * of_n
    return AbsoluteLogit(first, None, "closed form", formula)


def _sphere(case: Case, d_k: int) -> AbsoluteLogit:
    """A vector of norm r on the sphere: `x = r |k| u_1`, and the normal's is `chi_d |k| u_1`."""
    other = case.elements_k if case.elements_q == "sphere" else case.elements_q
    mean = case.mean_k + case.mean_q  # that of the sphere is 0
    radius = math.sqrt(d_k)
    if other == "sphere":
        # E |u_1|^r = Gamma((r+1)/2) Gamma(d/2) / (sqrt(pi) Gamma((d+r)/2))
        first = d_k / (math.sqrt(math.pi) * gamma_ratio(d_k / 2, 0.5)) if d_k > 1 else 1.0
        third = d_k**3 / (math.sqrt(math.pi) * gamma_ratio(d_k / 2, 1.5)) if d_k > 1 else 1.0
        return AbsoluteLogit(
            first, third, "closed form", "d Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))"
        )
    if other == "normal" and not mean:
        return replace(_NORMAL.times(radius), formula="sqrt(2 d / pi)")
    normal = replace(case, elements_q="normal", elements_k=other, mean_q=0.0, mean_k=mean)
    of_normal = _absolute_unit(normal, d_k)
    formula = f"E|x| of a normal vector sqrt(d) / E chi_d: {of_normal.formula}"
    return replace(of_normal.times(radius / mean_chi(d_k)), third=None, formula=formula)
