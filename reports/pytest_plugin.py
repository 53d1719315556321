"""The pytest plugin: a fixture with the assertions, and one false-alarm budget for the session.

    def test_scale(logit_checks):
        logit_checks.assert_logit_scale(attention, d_k=64)

Of the budget (ini option `logit_false_alarm`, 1e-6) each of the session's N tests that ask for
the fixture gets a share 1/N, and its k-th check of samples 1/(k (k+1)) of that share, so that the
whole suite fails by chance no more often than the budget says. A rate given to a check stands.

Nothing of this package but this file is imported before a test asks for the fixture: whoever
has the package installed and does not use it pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

_FIXTURE = "logit_checks"
_PROPERTY = "logit_checks"
_SAMPLED = ("assert_logit_variance", "assert_matches", "assert_unit_logits")
_EXACT = ("assert_logit_scale",)
_INI = "logit_false_alarm"
_BUDGET = "1e-6"


class LogitChecks:
    """The package's assertions, each at its part of the session's false-alarm budget.

    `assert_logit_variance`, `assert_matches`, `assert_unit_logits` and `assert_logit_scale` take
    what their namesakes in the package take; the last is exact and spends nothing.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self.spent: list[float] = []
        self.exact = 0

    def __getattr__(self, name: str) -> Any:
        if name in _EXACT:
            return self._counted(name)
        if name in _SAMPLED:
            return self._at_rate(name)
        known = ", ".join((*_SAMPLED, *_EXACT))
        raise AttributeError(f"{_FIXTURE} has no {name!r}; known: {known}")

    def next_rate(self) -> float:
        """False-alarm rate of the next check: `share / (k (k + 1))` for the k-th."""
        k = len(self.spent) + 1
        return self._share / (k * (k + 1))

    def _counted(self, name: str) -> Any:
        def check(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            self.exact += 1
            return _ours(name)(*args, **kwargs)

        return check

    def _at_rate(self, name: str) -> Any:
        def check(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            kwargs.setdefault("false_alarm", self.next_rate())
            self.spent.append(float(kwargs["false_alarm"]))
            return _ours(name)(*args, **kwargs)

        return check


def _ours(name: str) -> Any:
    """A public name of the package, as its users get it."""
    return getattr(import_module("..", __package__), name)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The session's budget as an ini option."""
    said = "probability that any check of logit_checks fails by chance, whole session"
    parser.addini(_INI, said, default=_BUDGET)


def _budget(config: pytest.Config) -> float:
    given = config.getini(_INI)
    try:
        budget = float(given)
    except ValueError:
        budget = 0.0
    if not 0 < budget < 0.5:
        raise pytest.UsageError(f"{_INI} must be a number between 0 and 0.5, got {given!r}")
    return budget


@pytest.fixture
def logit_checks(request: pytest.FixtureRequest) -> Iterator[LogitChecks]:
    """Assertions on attention logits, at this test's share of the false-alarm budget."""
    users = sum(_FIXTURE in getattr(item, "fixturenames", ()) for item in request.session.items)
    checks = LogitChecks(_budget(request.config) / max(users, 1))
    yield checks
    # a property of the report, so that it comes home from the workers of pytest-xdist
    request.node.user_properties.append(
        (_PROPERTY, [len(checks.spent), checks.exact, sum(checks.spent)])
    )


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """One line on the checks made and their rate; none where nobody asked for the fixture."""
    found = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "teardown"
        for name, value in getattr(report, "user_properties", ())
        if name == _PROPERTY
    ]
    if found:
        sampled, exact, spent = (sum(column) for column in zip(*found, strict=True))
        terminalreporter.write_line(
            f"logit checks: {sampled} of samples, false alarm {spent:.2g} together "
            f"(budget {_budget(config):g}); {exact} exact"
        )
