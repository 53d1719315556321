"""Element laws of the user's own: stated moments, checked against draws before anything else.

What can go wrong: moments of one law and draws of another would make every verdict a verdict on
the mistake. A law is therefore taken only if the sample moments of a million draws agree with
what is stated, and moments that are not stated are treated as if they did not exist.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ..checks import InputError
from ..elements import OWN, ElementLaw
from ..planning import skew_floor
from .element_moments import Parameter
from .logit_moments import missing_moment

FALSE_ALARM = 1e-6  # that moments are refused although they are right, whole law
CHECKED_DRAWS = 2**20
_SURE = 1e-9  # stated moments of a unit law are typed, not measured
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_VERSION = re.compile(r"[a-z0-9][a-z0-9.]*")


def own_law(
    name: str, version: object, moments: Sequence[float], formula: str = "", source: str = ""
) -> ElementLaw:
    """A law with stated moments `E e, E e^2, ...`: mean 0 and variance 1 first.

    Name and version are part of every cell's key: other draws, other version. A verdict on the
    variance needs 8 moments, as of any law.

    Raises InputError for a name or version that cannot be written in a table, for fewer than 4
    moments, and for moments that no law of mean 0 and variance 1 has.

    Examples:
        >>> own_law("triangular", 1, (0, 1, 0, 2.4)).name
        'triangular@1'

    """
    _check_words(name, str(version))
    stated = _checked(f"{name}{OWN}{version}", moments)

    def moment(r: int, _: Parameter) -> float:
        return stated[r] if r < len(stated) else missing_moment(r)

    return ElementLaw(
        f"{name}{OWN}{version}",
        formula or f"the user's own, {len(moments)} moments stated",
        source or "registered by the user",
        "",
        moment,
        finite_below=lambda _: float(len(stated)),
    )


def _check_words(name: str, version: str) -> None:
    for what, word, pattern in (("name", name, _NAME), ("version", version, _VERSION)):
        if not pattern.fullmatch(word):
            raise InputError(
                f"the {what} of a law must be lower-case letters, digits and "
                f"{'dashes' if what == 'name' else 'dots'}, got {word!r}; for example "
                f"{'triangular' if what == 'name' else '1'}"
            )


def _checked(law: str, moments: Sequence[float]) -> tuple[float, ...]:
    stated = (1.0, *(float(m) for m in moments))
    if len(stated) < 5 or not all(map(math.isfinite, stated)):
        raise InputError(
            f"moments of {law} must be at least 4 finite numbers, E e to E e^4, got "
            f"{list(moments)}; leave out those that do not exist"
        )
    if abs(stated[1]) > _SURE or abs(stated[2] - 1) > _SURE:
        raise InputError(
            f"moments of {law} must begin with 0, 1, got {stated[1]:g}, {stated[2]:g}; "
            "draw (e - mean) / sd instead"
        )
    half = (len(stated) - 1) // 2
    hankel = np.array([[stated[i + j] for j in range(half + 1)] for i in range(half + 1)])
    size = np.sqrt(np.abs(np.diag(hankel)))
    if size.min() <= 0 or np.linalg.eigvalsh(hankel / np.outer(size, size))[0] < -_SURE:
        raise InputError(
            f"moments of {law} must be those of some law, got {list(moments)}; "
            "no law has them all (their Hankel matrix is not positive)"
        )
    return stated


def check_draws(law: ElementLaw, draws: NDArray[np.float64]) -> None:
    """Refuse a law whose draws do not have its moments.

    Moment r is checked where moment 2r is stated: `z = (mean of e^r - E e^r) / SE` with the exact
    `SE = sqrt((E e^2r - (E e^r)^2) / N)`, and where N is enough for the normal law of that mean
    (the skew floor of `planning`). Constants must be met to a millionth.

    Raises InputError with moment, z and rate.
    """
    wide = np.asarray(draws, np.float64)
    if not np.isfinite(wide).all():
        lost = int((~np.isfinite(wide)).sum())
        raise InputError(
            f"draws of {law.name} must be finite, got {lost} inf or nan in {wide.size}"
        )
    orders = range(1, (int(law.finite_below(None)) - 1) // 2 + 1)
    threshold = float(-ndtri(FALSE_ALARM / (2 * len(orders))))
    for r in orders:
        stated = law.moment(r, None)
        powers = wide**r
        drawn, variance = float(powers.mean()), law.moment(2 * r, None) - stated**2
        if r > 1 and skew_floor(_skewness(law, r, powers), threshold) > wide.size:
            return  # beyond it the mean of e^r is not normal yet
        error = math.sqrt(max(variance, 0.0) / wide.size)
        z = (drawn - stated) / error if error > 1e-6 / math.sqrt(wide.size) else 0.0
        if abs(z) > threshold or (not z and abs(drawn - stated) > 1e-6):
            raise InputError(
                f"moment {r} of {law.name} must be that of its draws, got {stated:.6g} stated "
                f"and {drawn:.6g} drawn, z = {z:.3g} (right moments are refused once in "
                f"{1 / FALSE_ALARM:,.0f} registrations); state E e^{r} of the draws, or mend them"
            )


def _skewness(law: ElementLaw, r: int, powers: NDArray[np.float64]) -> float:
    """Skewness of e^r: exact where moment 3r is stated, else that of the draws."""
    raw = [law.moment(r * j, None) for j in (1, 2, 3)]
    if not math.isfinite(raw[2]):
        raw = [float((powers**j).mean()) for j in (1, 2, 3)]
    variance = raw[1] - raw[0] ** 2
    third = raw[2] - 3 * raw[0] * raw[1] + 2 * raw[0] ** 3
    return third / variance**1.5 if variance > 1e-12 else 0.0
