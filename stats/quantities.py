"""What can be measured and compared: each quantity's group, its estimator and its test."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .checks import InputError, choice, no_duplicates
from .counts import BinCounts
from .laws.logit_counts import LogitCounts
from .moments import Moments

Group = Literal["logits", "law", "softmax", "jacobian", "runs"]
Measurement = Moments | BinCounts | LogitCounts


@dataclass(frozen=True, slots=True)
class Estimate:
    """What simulation says: the value and the standard deviation of one replicate's influence.

    The Monte Carlo standard error is `sd / sqrt(draws)`. `draws` counts replicates, each of
    `logits_per_draw` logits (more than one where a replicate is a matrix); `lost` replicates came
    out as inf or nan and are left out.
    """

    draws: int
    value: float
    sd: float
    logits_per_draw: int = 1
    lost: int = 0

    @property
    def mcse(self) -> float:
        """Monte Carlo standard error of the value."""
        return self.sd / math.sqrt(self.draws) if self.draws else math.inf


@dataclass(frozen=True, slots=True)
class Quantity:
    """A smooth function of means over independent replicates.

    `measured` names the variable whose Moments (for a median, counts) it is estimated from;
    `test` the pivot that decides (`own`: the estimate's exact law, see `sample_laws`); quantities
    of one `deviation` (variance and std) are one test. A tail lies beyond its `edge`, in standard
    deviations.
    """

    group: Group
    measured: str
    symbol: str
    meaning: str
    estimate: Callable[[Any], Estimate]
    test: Literal["normal", "chi-square", "share", "own"] = "normal"
    deviation: str = ""
    moment_order: int = 1
    edge: float = 0.0
    grouped: bool = True  # whether its group's name asks for it

    @property
    def of_pairs(self) -> bool:
        """Whether it is a statistic of one logit a replicate, which scales exactly."""
        return self.group in ("logits", "law")

    @property
    def of_rows(self) -> bool:
        """Whether it is a statistic of a softmax row."""
        return self.group in ("softmax", "jacobian")

    @property
    def by_draws(self) -> bool:
        """Whether its tolerance is what its draws detect, unless one is given."""
        return self.group == "law" and self.deviation != "law"


def _mean(m: Moments) -> Estimate:
    return Estimate(m.count, m.mean, math.sqrt(max(m.central(2), 0.0)))


def _median(counts: BinCounts) -> Estimate:
    return Estimate(counts.count, *counts.median())


def _share(m: Moments) -> Estimate:
    return Estimate(m.count, m.mean, math.sqrt(max(m.mean * (1 - m.mean), 0.0)))


def _unbiased(m: Moments) -> float:
    if m.count < 2:
        raise InputError(f"a variance needs at least 2 draws, got {m.count}")
    return m.sums[0] / (m.count - 1)


def _variance(m: Moments) -> Estimate:
    s2 = _unbiased(m)
    return Estimate(m.count, s2, s2 * math.sqrt(max(m.standardised(4) - 1, 0.0)) if s2 else 0.0)


def _std(m: Moments) -> Estimate:
    variance = _variance(m)
    s = math.sqrt(variance.value)
    return Estimate(m.count, s, variance.sd / (2 * s) if s else 0.0)


def _skewness(m: Moments) -> Estimate:
    """Influence `z^3 - 3z - g - (3/2) g (z^2 - 1)`, squared and averaged over the sample."""
    _check_varying("skewness", m)
    g = m.standardised(3)
    influence = {3: 1.0, 2: -1.5 * g, 1: -3.0, 0: 0.5 * g}
    return Estimate(m.count, g, _influence_sd(m, influence))


def _kurtosis(m: Moments) -> Estimate:
    """Influence `z^4 - 4 g z - 2 K (z^2 - 1) - K`, K the fourth standardised moment."""
    _check_varying("kurtosis", m)
    g, k = m.standardised(3), m.standardised(4)
    influence = {4: 1.0, 2: -2.0 * k, 1: -4.0 * g, 0: k}
    return Estimate(m.count, k - 3.0, _influence_sd(m, influence))


def _check_varying(quantity: str, m: Moments) -> None:
    if not m.sums[0]:
        raise InputError(f"{quantity} needs logits that vary, got {m.count} equal; give more draws")


def _influence_sd(m: Moments, polynomial: Mapping[int, float]) -> float:
    square = sum(
        a * b * m.standardised(i + j) for i, a in polynomial.items() for j, b in polynomial.items()
    )
    return math.sqrt(max(square, 0.0))


def _tail(z: int, side: int) -> Quantity:
    name = f"{'above' if side > 0 else 'below'}_{z}"
    symbol = f"P(z>{z})" if side > 0 else f"P(z<-{z})"
    meaning = f"share of logits {z} standard deviations {name[:5]} their mean"

    def share(counts: LogitCounts) -> Estimate:
        p = counts.share_above(z) if side > 0 else counts.share_below(z)
        return Estimate(counts.count, p, math.sqrt(p * (1 - p)))

    return Quantity("law", "counts", symbol, meaning, share, "share", name, edge=float(side * z))


def _row(group: Group, name: str, symbol: str, meaning: str) -> Quantity:
    return Quantity(group, name, symbol, meaning, _mean, deviation=name)


QUANTITIES: dict[str, Quantity] = {
    "variance": Quantity(
        "logits", "logit", "Var(x)", "variance of the logit x = q.k", _variance,
        "chi-square", "spread", 2,
    ),
    "std": Quantity(
        "logits", "logit", "sd(x)", "standard deviation of the logit", _std,
        "chi-square", "spread", 2,
    ),
    "mean": Quantity("logits", "logit", "E x", "mean of the logit", _mean, deviation="mean"),
    "skewness": Quantity(
        "logits", "logit", "skew(x)", "third standardised moment", _skewness,
        deviation="skewness", moment_order=3,
    ),
    "kurtosis": Quantity(
        "logits", "logit", "kurt(x)", "excess kurtosis: 0 for the normal law", _kurtosis,
        deviation="kurtosis", moment_order=4,
    ),
    "mean_abs": Quantity(
        "logits", "abs_logit", "E|x|", "mean absolute logit", _mean, deviation="mean_abs"
    ),
    "overflow": Quantity(
        "logits", "overflow", "P(inf)", "share of logits that are inf or nan", _share, "share",
        "overflow", grouped=False,
    ),
    "law": Quantity(
        "law", "counts", "sup|F_N-F|", "largest distance of the logits' cdf from its theory",
        lambda counts: Estimate(counts.count, 0.0, 0.5), "own", "law",
    ),
    **{f"above_{z}": _tail(z, 1) for z in (3, 4, 5, 6)},
    **{f"below_{z}": _tail(z, -1) for z in (3, 4, 5, 6)},
    "smallest": Quantity(
        "law", "counts", "min x", "smallest logit of all draws",
        lambda counts: Estimate(counts.count, counts.smallest, 0.0), "own", "smallest",
    ),
    "largest": Quantity(
        "law", "counts", "max x", "largest logit of all draws",
        lambda counts: Estimate(counts.count, counts.largest, 0.0), "own", "largest",
    ),
    "max_prob": _row("softmax", "max_prob", "E p(1)", "largest probability of a row"),
    "second_prob": _row("softmax", "second_prob", "E p(2)", "second largest probability"),
    "third_prob": _row("softmax", "third_prob", "E p(3)", "third largest probability"),
    "entropy": _row("softmax", "entropy", "E H", "entropy of a row in nats"),
    "sum_p2": _row("softmax", "sum_p2", "E sum p^2", "inverse participation ratio"),
    "saturated": Quantity(
        "softmax", "saturated", "P(p(1)>0.99)", "share of rows with max p > 0.99", _share,
        "share", "saturated",
    ),
    "broken_rows": Quantity(
        "softmax", "broken_rows", "P(broken)", "share of rows whose softmax is nan or sums to 0",
        _share, "share", "broken_rows", grouped=False,
    ),
    "jacobian_trace": _row("jacobian", "jacobian_trace", "E tr J", "trace of J = diag(p) - pp'"),
    "jacobian_frobenius_sq": _row(
        "jacobian", "jacobian_frobenius_sq", "E |J|_F^2", "squared Frobenius norm of J"
    ),
    "jacobian_frobenius": _row(
        "jacobian", "jacobian_frobenius", "E |J|_F", "Frobenius norm of J"
    ),
    "jacobian_frobenius_median": Quantity(
        "jacobian", "jacobian_frobenius_median", "med |J|_F", "median Frobenius norm of J",
        _median, deviation="jacobian_frobenius_median",
    ),
    "jacobian_spectral": _row(
        "jacobian", "jacobian_spectral", "E |J|_2", "spectral norm of J"
    ),
}  # fmt: skip

JUDGED = QUANTITIES | {
    "share_of_runs": Quantity("runs", "runs", "P(run)", "share of runs", _share, "share", "runs")
}
"""What a verdict can be about: what a run measures, and of many runs the share that did so."""

GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(name for name, q in QUANTITIES.items() if q.group == group and q.grouped)
    for group in ("logits", "softmax", "jacobian")
}
GROUPS |= {
    "tails": tuple(name for name, q in QUANTITIES.items() if q.edge),
    "extremes": ("smallest", "largest"),
    "all": GROUPS["logits"] + GROUPS["softmax"] + GROUPS["jacobian"],
}


def expand_quantities(names: Iterable[str]) -> tuple[str, ...]:
    """Quantity names with the groups of `GROUPS` (`logits`, `tails`, `all`, ...) written out.

    Examples:
        >>> expand_quantities(["std", "logits"])
        ('std', 'variance', 'mean', 'skewness', 'kurtosis', 'mean_abs')

    """
    given = list(names)
    no_duplicates("quantities", given)
    expanded: list[str] = []
    for name in given:
        choice("quantity", name, [*QUANTITIES, *GROUPS])
        expanded += [q for q in GROUPS.get(name, (name,)) if q not in expanded]
    return tuple(expanded)
