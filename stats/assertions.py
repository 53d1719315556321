"""Assertions on arrays of logits for other people's tests.

Each raises AssertionError where the theory is rejected at `false_alarm`, and InconclusiveError,
a kind of AssertionError of its own, where the samples cannot show an error as large as
`tolerance`: a check that cannot fail is a defect, so it never passes. A pass returns the row that
was decided. Rates are those of one check; nothing is drawn here, so that a result depends only on
the samples (a sampler is handed its seed).

What can go wrong: logits of one matrix share queries and keys, so they are no replicates (give
1-D independent logits, or 3-D replicate x query x key); the error bar is that of the law named by
`elements`; with few draws the chi-square law of S^2 is off in its far tail (at 1000 draws and a
deviate of 5.2 a false alarm is 5 times as frequent as stated at d_k = 1, 1.06 times at 16); a
number given as the reference is judged by Student's t, which wants samples that are not skewed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .arrays import as_numpy
from .cases import Case, Reference
from .causes import Cause, factor_causes
from .checks import InputError, choice, count, number, positive
from .failures import FALSE_ALARM, InconclusiveError, inconclusive, mismatch

if TYPE_CHECKING:
    from .decision import Row
    from .planning import Rates

# decision, planning and predict load SciPy, so they are imported by the assertion that needs them

TOLERANCE = 0.1  # the smallest of the common errors of a logit's scale are 7 to 12 %
LEAST_DRAWS = 10_000  # asked of a sampler: the chi-square law of S^2 then holds far out


def assert_logit_variance(
    samples: Any,
    *,
    d_k: int,
    sigma: float | tuple[float, float] = 1.0,
    scale: str = "none",
    elements: str = "normal",
    false_alarm: float = FALSE_ALARM,
    power: float = 0.999,
    tolerance: float = TOLERANCE,
    draws: int | None = None,
    seed: int = 0,
) -> Row:
    """Assert `Var(factor q.k) = factor^2 d_k sigma_q^2 sigma_k^2`, q and k iid and centred.

    Args:
        samples: independent logits (N,), or (replicate, query, key), NumPy, JAX or torch; or a
            sampler `f(seed, n)` that returns n of them.
        d_k: head dimension.
        sigma: standard deviation of the elements of q and k, or one of each.
        scale: what multiplied q.k: none, sqrt-dk, dk, constant:C, power:P.
        elements: law of the elements, which sets the error bar.
        false_alarm: probability of an AssertionError although the theory is exact.
        power: probability that a std off by `tolerance` or more does not pass.
        tolerance: relative error of the std that must not pass.
        draws: asked of a sampler; planned from the rates where None.
        seed: handed to a sampler.

    Returns:
        The decided row: `estimate`, `z`, `p_value`, `detectable`.

    Raises:
        AssertionError: with expected, measured, z, the rates and the likely cause.
        InconclusiveError: where the samples are too few; the message says how many would do.
        InputError: where the samples are no logits (2-D, not finite, not numbers).

    The test is Satterthwaite's chi-square law of S^2 (Biometrics Bulletin 2, 1946).

    Examples:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> q, k = rng.normal(size=(2, 10_000, 64))
        >>> assert_logit_variance((q * k).sum(-1), d_k=64).verdict
        'match'

    """
    __tracebackhide__ = True  # pytest then shows the user's line
    from .elements import canonical_elements

    sigma_q, sigma_k = sigma if isinstance(sigma, tuple) else (sigma, sigma)
    law = canonical_elements(elements)
    d_k = count("d_k", d_k)
    sigmas = positive("sigma", sigma_q), positive("sigma", sigma_k)
    case = Case(d_k, None, law, law, *sigmas, scale=scale)
    rates = _rates(false_alarm, power, tolerance)
    if callable(samples) and not hasattr(samples, "__array__"):
        samples = samples(seed, _planned(case, rates) if draws is None else count("draws", draws))
    return _assert_case(samples, case, "variance", rates)


def assert_matches(
    samples: Any,
    reference: Case | Reference | float,
    *,
    quantity: str = "mean",
    false_alarm: float = FALSE_ALARM,
    power: float = 0.999,
    tolerance: float = TOLERANCE,
) -> Row:
    """Assert that samples have the value that a reference gives a quantity.

    `samples` are independent replicates (N,); the estimate is their mean, or with `quantity` the
    variance, std, skewness, kurtosis, mean_abs, or saturated share of them. `reference` is a
    `Case`, a `Reference` as `predict` gives it, or a number (whose error bar then comes from the
    samples by Student's t, so that it must be a mean). `tolerance` is in the reference's unit
    (the value itself for most quantities, and where it is a number other than 0). Rates, result
    and errors are those of `assert_logit_variance`.

    Examples:
        >>> import numpy as np
        >>> from verify_variance.stats.predict import predict
        >>> p = np.random.default_rng(0).dirichlet(np.ones(4), size=10_000)
        >>> assert_matches((p**2).sum(-1), 2 / 5).verdict  # E sum p^2 = 2 / (n + 1)
        'match'

    """
    __tracebackhide__ = True
    from .decision import Row
    from .quantities import QUANTITIES
    from .replicates import judged_row

    choice("quantity", quantity, [name for name in QUANTITIES if "median" not in name])
    rates = _rates(false_alarm, power, tolerance)
    if isinstance(reference, Case):
        return _assert_case(samples, reference, quantity, rates)
    values = as_numpy(samples)
    if values.ndim != 1:
        raise InputError(
            f"samples must be 1-D, one value per independent replicate, got shape {values.shape}; "
            "average within a replicate, or give the Case as the reference"
        )
    if not isinstance(reference, Reference):
        value = number("reference", reference, "a number, Reference or Case", lambda x: True)
        if quantity != "mean":
            raise InputError(
                f"a number is compared with the mean of the samples, got quantity {quantity!r}; "
                "give a Case or a Reference, which know its error"
            )
        unit = abs(value) or float(values.std()) or 1.0
        reference = Reference(value, unit, None, None, "closed form", "given")
    return _assert_row(judged_row(Row(Case(), quantity, _compared(reference)), values), rates)


def assert_unit_logits(
    q: Any,
    k: Any,
    factor: float | None = None,
    *,
    false_alarm: float = FALSE_ALARM,
    power: float = 0.999,
    tolerance: float = TOLERANCE,
) -> Row:
    """Assert that the logits `factor q.k` of these queries and keys have variance 1, nearly.

    Args:
        q: queries (..., n, d_k), after projections, norms and rotations.
        k: keys (..., m, d_k), with the same leading axes.
        factor: what multiplies q.k; 1/sqrt(d_k) where None.
        false_alarm: probability of an AssertionError although the std is within `tolerance` of 1.
        power: probability that a std off by more than `tolerance` does not pass.
        tolerance: how far from 1 the std may be: weights that were drawn once make it so.

    Rows are taken as independent, each with all its heads and batches as one replicate (so that
    what they share does no harm); the standard error adds that of queries and that of keys, an
    upper bound also where both come from the same tokens. Student's t, n - 1 degrees of freedom.
    Result and errors are those of `assert_logit_variance`.

    Examples:
        >>> import numpy as np
        >>> q, k = np.random.default_rng(0).normal(size=(2, 8, 256, 64))
        >>> assert_unit_logits(q, k).verdict
        'match'

    """
    __tracebackhide__ = True
    from .unit_logits import unit_row

    row, used = unit_row(as_numpy(q, "q"), as_numpy(k, "k"), factor)
    assert row.case.d_k is not None
    known = factor_causes(used * math.sqrt(row.case.d_k), row.case.d_k, scale="sqrt-dk")
    rates = replace(_rates(false_alarm, power, tolerance), within=True)
    return _assert_row(row, rates, "sqrt-dk", known if factor is not None else ())


def _rates(false_alarm: float, power: float, tolerance: float) -> Rates:
    from .planning import Rates

    return Rates(false_alarm, power, tolerance)


def _planned(case: Case, rates: Rates) -> int:
    """Draws that show a gap of the tolerance, and not fewer than `LEAST_DRAWS`."""
    from .planning import draws_needed
    from .predict import predict

    reference = predict(case, "variance")
    assert rates.tolerance is not None
    if not reference.replicate_sd:
        return LEAST_DRAWS
    needed = draws_needed(
        reference.replicate_sd,
        reference.unit,
        rates.tolerance,
        false_alarm=rates.false_alarm,
        power=rates.power,
    )
    return max(needed, LEAST_DRAWS)


def _assert_case(samples: Any, case: Case, quantity: str, rates: Rates) -> Row:
    __tracebackhide__ = True
    from .decision import Row
    from .predict import check_verdict_possible, predict
    from .replicates import judged_row

    check_verdict_possible(case, quantity)
    row = Row(case, quantity, _compared(predict(case, quantity)))
    return _assert_row(judged_row(row, as_numpy(samples)), rates, case.scale)


def _compared(reference: Reference) -> Reference:
    if reference.value is None:
        raise InputError(
            "samples need a reference with a value, got one of kind none; choose a quantity that "
            "has a theory"
        )
    return reference


def _assert_row(
    row: Row, rates: Rates, scale: str | None = None, known: Sequence[Cause] = ()
) -> Row:
    __tracebackhide__ = True
    from .decision import decide

    (row,) = decide([row], rates)
    if row.verdict == "mismatch":
        raise AssertionError(mismatch(row, rates, scale, known))
    if row.verdict != "match":
        raise InconclusiveError(inconclusive(row, rates, scale, known))
    return row
