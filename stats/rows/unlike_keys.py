"""Rows of independent keys of unlike laws, and of one more key with logit 0: means, exactly.

The main formula (see `tilting`) needs no equal keys: with T ~ Gamma(A) and u = log T - log S the
scaled weights y_j = T p_j are independent given u, so that for a homogeneous polynomial Q of
degree A

    E Q(p) = 1/Gamma(A) int prod_j L_j(u) E_u[Q(y)] du.

A key x_j = f_j x + b_j of a normal x has L_j(u) = L_f(u + b_j): one table of tilted moments for
each f serves all biases, on a grid of u whose step divides them. The key with logit 0 has y = e^u.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, sqrt

import numpy as np

from ..quadrature import Array
from ..transforms.stacks import Stack
from .logit_laws import STEP, RowLaw
from .moments import DIGAMMA_2, TRIGAMMA_2
from .tilting import Tilted, tilted_at

LOCAL = sqrt(2.0)
"""What a local key's logit is multiplied by: sqrt(d) over sqrt(d/2)."""

MOST_CELLS = 30_000_000
_FIELDS = ("sum_p2", "sum_p2^2", "sum_p2^3", "jacobian_trace", "jacobian_frobenius_sq",
           "entropy", "entropy^2")  # fmt: skip


def key_terms(stack: Stack, n: int) -> tuple[Array, Array]:
    """Factor f_j and bias b_j of the keys of a row, from the nearest on.

    Examples:
        >>> [terms.tolist() for terms in key_terms({"alibi": (0.5, 3)}, 3)]
        [[1.0, 1.0, 1.0], [-0.0, -0.5, -1.0]]

    """
    if "top-k-position" in stack:
        n = min(n, int(stack["top-k-position"][0]))
    j = np.arange(n, dtype=float)
    local = j < stack["locality"][0] if "locality" in stack else np.zeros(n, bool)
    slope = stack["alibi"][0] if "alibi" in stack else 0.0
    return np.where(local, LOCAL, 1.0), -slope * j


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a row: factors f_j, biases b_j (multiples of a slope), and a sink or not.

    Examples:
        >>> keys = Keys(np.ones(2), np.zeros(2), 0.0, sink=False)
        >>> round(unlike_moments(RowLaw(1.0), keys)["sum_p2"], 12)  # two equal keys
        0.636838153968

    """

    factors: Array
    biases: Array
    slope: float
    sink: bool

    @property
    def count(self) -> int:
        """Probabilities of the row."""
        return self.factors.size + self.sink


def unlike_moments(law: RowLaw, keys: Keys) -> dict[str, float]:
    """Means over rows: sum_p2 and its second and third moment, trace, ||J||_F^2, H and H^2.

    `law` is that of a key with factor 1 and bias 0, normal without a common scale.
    """
    u, step = _grid(law.std, keys)
    log_c = DIGAMMA_2 - log(keys.count)
    log_l = np.zeros(u.size)
    sums = _Sums(u.size)
    for factor in np.unique(keys.factors):
        biases = keys.biases[keys.factors == factor]
        moves = np.rint(biases / step).astype(int) if keys.slope else np.zeros(biases.size, int)
        low = int(moves.min())
        grid = u[0] + step * np.arange(low, u.size)  # u + b_j, b_j <= 0
        table = tilted_at(RowLaw(law.std * float(factor)), keys.count, grid, step, log_c)
        for move, times in zip(*np.unique(moves, return_counts=True), strict=True):
            part = slice(int(move) - low, int(move) - low + u.size)
            log_l += times * table.log_l[part]
            sums.add(table, part, int(times))
    if keys.sink:
        log_l -= np.exp(np.minimum(u, 7.0))
        sums.add(_sink(u, log_c), slice(None), 1)
    return _means(sums, step * np.exp(log_l), keys.count)


def cells(std: float, keys: Keys) -> int:
    """Size of the largest table, for `MOST_CELLS`."""
    u, step = _grid(std, keys)
    return int((u.size - keys.biases.min() / step) * 300)


def _grid(std: float, keys: Keys) -> tuple[Array, float]:
    step = keys.slope / ceil(keys.slope / STEP) if keys.slope else STEP
    widest = std * float(keys.factors.max())
    highest = max(widest * sqrt(2.0 * (log(keys.count) + 41.0)), 1.0)
    # log S exceeds the logit of the nearest key, and 0 where there is a sink
    low = 0.0 if keys.sink else -9.5 * std * float(keys.factors[0])
    start, stop = -20.0 - log(keys.count) - highest, 4.4 - low
    return start + step * np.arange(ceil((stop - start) / step) + 1), step


def _sink(u: Array, log_c: float) -> Tilted:
    y = np.exp(np.minimum(u, 7.0))
    log_ratio = u - log_c
    powers = y ** np.arange(1.0, 13.0)[:, None]
    first = y * log_ratio
    logs = np.stack([first, first * y, first**2, first**3])
    return Tilted(0.0, u, -y, powers, logs, None)


class _Sums:
    """Sums over keys of products of tilted moments; `get(2, 2)` is sum_j E y_j^2 E y_j^2."""

    _KEYS = ((1,), (2,), (4,), (6,), (1, 1), (2, 2), (2, 4), (2, 2, 2), (1, 2), (1, 1, 2))

    def __init__(self, size: int) -> None:
        self.of = {key: np.zeros(size) for key in self._KEYS}
        self.logs = {name: np.zeros(size) for name in ("l", "yl", "ll", "l*l", "l*y")}

    def add(self, table: Tilted, part: slice, times: int) -> None:
        powers, logs = table.powers[:, part], table.logs[:, part]
        for key, total in self.of.items():
            total += times * np.prod([powers[a - 1] for a in key], axis=0)
        first, mixed, second, _ = logs
        for name, term in (("l", first), ("yl", mixed), ("ll", second), ("l*l", first**2),
                           ("l*y", first * powers[0])):  # fmt: skip
            self.logs[name] += times * term


def _means(sums: _Sums, weight: Array, count: int) -> dict[str, float]:
    """Products over distinct keys by inclusion and exclusion."""
    s, logs = sums.of, sums.logs
    pairs = s[1,] ** 2 - s[1, 1]
    squares = s[2,] ** 2 - s[2, 2]
    triples = s[2,] ** 3 - 3 * s[2,] * s[2, 2] + 2 * s[2, 2, 2]
    mixed = s[2,] * pairs - 2 * s[1,] * s[1, 2] + 2 * s[1, 1, 2]
    terms = {
        "sum_p2": s[2,],
        "sum_p2^2": (s[4,] + squares) / 6,
        "sum_p2^3": (s[6,] + 3 * (s[4,] * s[2,] - s[2, 4]) + triples) / 120,
        "jacobian_trace": pairs,
        "jacobian_frobenius_sq": (2 * squares + mixed) / 6,
    }
    means = {name: float(weight @ term) for name, term in terms.items()}
    # E of T log(T/c) - T H and of its square, T ~ Gamma(2): see row_moments._deficit_cumulants
    one = float(weight @ (logs["yl"] + logs["l"] * s[1,] - logs["l*y"]))
    two = float(weight @ (logs["ll"] + logs["l"] ** 2 - logs["l*l"]))
    mean = log(count) - one
    means |= {"entropy": mean, "entropy^2": two - one**2 - TRIGAMMA_2 + mean**2}
    return means
