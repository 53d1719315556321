"""Results as a run gives them, without drawing: estimates are the theory times a chosen factor."""

from collections.abc import Callable

import pytest
from verify_variance.reports.record import make_record, resolved
from verify_variance.reports.result import Result
from verify_variance.stats.decision import Row, decide
from verify_variance.stats.planning import Rates
from verify_variance.stats.predict import predict
from verify_variance.stats.quantities import Estimate
from verify_variance.stats.request import CaseOptions
from verify_variance.stats.requested import requested_rows

Measured = Callable[..., Result]
RATES = Rates()


def fabricate(
    cases: CaseOptions, *, draws: int = 400_000, factor: float = 1.0, rates: Rates = RATES
) -> Result:
    """A `run` whose estimates are theory (0.5 where there is none) times `factor`."""
    rows = []
    for case, quantity in requested_rows(cases):
        reference = predict(case, quantity)
        value = reference.value
        centre = sum(value) / 2 if isinstance(value, tuple) else 0.5 if value is None else value
        spread = reference.replicate_sd or 1.0
        rows.append(Row(case, quantity, reference, Estimate(draws, centre * factor, spread)))
    decided = decide(rows, rates, samples_only=rates.tolerance is None)
    request = resolved(cases, samples=draws, within=rates.within, platform="cpu")
    given = {"seed": 0, "platform": "cpu", "devices": ["cpu:0"], "resumed_blocks": 0}
    return Result(make_record("run", request, decided, rates, given))


@pytest.fixture
def measured() -> Measured:
    return fabricate
