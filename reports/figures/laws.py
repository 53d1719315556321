"""Figures of laws: that of q.k with its tails, and where softmax rows saturate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ...stats.cases import Case
from ...stats.checks import InputError
from ...stats.conventions import scale_factor
from ...stats.quantities import GROUPS
from ..record import Record
from .panels import Axis, Band, FigureData, Line, Map, Numbers, Panel, Points
from .series import case_of, scale_words

MOST_LAWS = 4
_REACH, _STEP = 7.0, 0.05  # standard deviations
_LEAST = 1e-7  # a density below it is not drawn: distribution functions end at 1e-12
_LEVELS = tuple(i / 10 for i in range(11))


def law(rows: Sequence[Record]) -> FigureData:
    """The law of q.k in units of its standard deviation: density, and tails on a log axis.

    Where a row has counts, they are drawn as a histogram; the exact density always is.
    """
    lines, bands = [], []
    for colour, (row, case) in enumerate(_chosen(rows)):
        x, y = _density(case)
        label = f"dₖ {case.d_k}" + (f", {row['elements']}" if row["elements"] != "normal" else "")
        lines.append(Line(x, y, label, colour))
        if (histogram := histogram_of(row)) is not None:
            edges, zeros, heights = histogram
            bands.append(Band(edges, zeros, heights, colour=colour, steps=True))
    caption = "Exact law of q·k, centred and in standard deviations; dashed: the normal law."
    if bands:
        caption += " Shaded: histogram of the draws."
    if not lines:
        return FigureData("law", caption, ())
    x_axis = Axis("q·k, centred, in standard deviations", limits=(-_REACH, _REACH))
    lines.append(Line(*_normal(), "normal law", dashed=True))
    drawn = (tuple(lines), (), tuple(bands))
    label = "density × sd"
    panels = (
        Panel("Law of the logit", replace(x_axis, limits=(-4.0, 4.0)), Axis(label), *drawn),
        Panel("Its tails", x_axis, Axis(label, "log", limits=(_LEAST, 2.0)), *drawn),
    )
    return FigureData("law", caption, panels)


def histogram_of(row: Record) -> tuple[Numbers, Numbers, Numbers] | None:
    """A row's counts as (edges, zeros, densities), centred and in standard deviations.

    The one place that knows how a record holds counts: `counts` with `edges`, in the unit of the
    scaled logit, and `counts`. The last density is repeated at the last edge.
    """
    counts, case = row.get("counts"), case_of(row)
    if not isinstance(counts, dict) or case is None:
        return None
    mean, std = _moments(case)
    edges, numbers = counts["edges"], counts["counts"]
    widths = [(b - a) / std for a, b in pairwise(edges)]
    density = [c / sum(numbers) / w for c, w in zip(numbers, widths, strict=True)]
    centred = tuple((edge - mean) / std for edge in edges)
    return centred, (0.0,) * len(edges), (*density, density[-1])


def _moments(case: Case) -> tuple[float, float]:
    """Mean and standard deviation of the scaled logit."""
    from ...stats.laws.logit_moments import logit_moments

    moments, factor = logit_moments(case), scale_factor(case)
    return factor * moments.mean, abs(factor) * moments.std


def _chosen(rows: Sequence[Record]) -> list[tuple[Record, Case]]:
    """The laws to draw: one of each cell, those with counts first, and spread over d_k."""
    found: dict[str, tuple[Record, Case]] = {}
    ordered = sorted(rows, key=lambda row: row.get("counts") is None)
    for row in ordered:
        case = case_of(row) if row["quantity"] in GROUPS["logits"] or row.get("counts") else None
        if case is not None and case.d_k is not None and case.weights is None:
            case = replace(case, scale="none", n_keys=None)
            if case.canonical() not in found and _has_law(case):
                found[case.canonical()] = (row, case)
    laws = sorted(found.values(), key=lambda item: (item[1].d_k, json.dumps(item[0]["elements"])))
    if len(laws) <= MOST_LAWS:
        return laws
    return [laws[round(i * (len(laws) - 1) / (MOST_LAWS - 1))] for i in range(MOST_LAWS)]


def _has_law(case: Case) -> bool:
    from ...stats.laws.distribution import logit_cdf

    try:
        logit_cdf(case, 0.0)
    except (InputError, ArithmeticError):
        return False
    return True


def _density(case: Case) -> tuple[Numbers, Numbers]:
    """Density of the centred logit in standard deviations: a bin's share over its width.

    Exact for any law whose distribution function is known, and what a histogram estimates. Signs
    give a lattice, of which every bin has one point.
    """
    import numpy as np

    from ...stats.laws.distribution import logit_cdf

    mean, std = _moments(case)
    lattice = case.elements_q == case.elements_k == "rademacher" and not (
        case.mean_q or case.mean_k
    )
    step = 2.0 * case.sigma_q * case.sigma_k / std if lattice else _STEP
    first = 0.0 if lattice and case.d_k and case.d_k % 2 else 0.5
    half = np.arange(first, _REACH / step + 1.0) * step
    edges = np.concatenate([-half[::-1], half if first else half[1:]])
    density = np.diff(logit_cdf(case, mean + edges * std)) / step
    kept = density > _LEAST
    middle = (edges[1:] + edges[:-1]) / 2
    return tuple(map(float, middle[kept])), tuple(map(float, density[kept]))


def _normal() -> tuple[Numbers, Numbers]:
    import numpy as np

    x = np.arange(-5.6, 5.61, 0.1)
    y = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    return tuple(map(float, x)), tuple(map(float, y))


def saturation(rows: Sequence[Record]) -> FigureData:
    """E sum p^2 of rows of n iid normal logits of standard deviation s, and sqrt(2 ln n).

    Above that line the random energy model condenses: a few keys hold everything however many
    there are. The rows of the record stand where their cases are.
    """
    import numpy as np

    from ...stats.softmax import condensation_std, expected_sum_p2

    places = _places(rows)
    most_n = max([1000, *(2 * n for n, _, _ in places)])
    most_s = max([16.0, *(1.5 * s for _, s, _ in places)])
    n_grid = np.unique(np.geomspace(2, most_n, 12).round().astype(int))
    s_grid = np.geomspace(0.25, most_s, 15)
    values = tuple(tuple(expected_sum_p2(int(n), float(s)) for n in n_grid) for s in s_grid)
    n_fine = np.unique(np.geomspace(2, most_n, 61).round().astype(int)).tolist()
    line = Line(
        tuple(map(float, n_fine)),
        tuple(condensation_std(n) for n in n_fine),
        "condensation, s = √(2 ln n)",
        1,
    )
    scales = list(dict.fromkeys(scale for _, _, scale in places))
    points = tuple(
        Points(*_split([(n, s) for n, s, at in places if at == scale]), label=scale_words(scale),
               colour=colour)
        for colour, scale in zip((0, 2, 3, 4), scales, strict=False)
    )  # fmt: skip
    label = "E Σp² (1: one key has everything)"
    grid = Map(tuple(map(float, n_grid)), tuple(map(float, s_grid)), values, label, _LEVELS)
    panel = Panel(
        "Where softmax rows saturate",
        Axis("keys n", "log", limits=(2.0, float(most_n))),
        Axis("logit standard deviation s", "log", limits=(0.25, float(most_s))),
        lines=(line,),
        points=points,
        map=grid,
    )
    caption = (
        "E Σp² of softmax rows of n independent normal logits of standard deviation s, exact. "
        "Line: s = √(2 ln n), above which few keys hold everything; points: the cases of the run."
    )
    return FigureData("saturation", caption, (panel,))


def _split(pairs: Sequence[tuple[float, float]]) -> tuple[Numbers, Numbers]:
    return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)


def _places(rows: Sequence[Record]) -> list[tuple[float, float, str]]:
    """Keys, standard deviation of the logits and scale of every case of rows in the record."""
    from ...stats.rows.laws import row_law

    found: dict[tuple[float, float, str], None] = {}
    for row in rows:
        case = case_of(row)
        if case is None or case.n_keys is None or case.n_keys < 2:
            continue
        try:
            given = row_law(case, scale_factor(case))
        except (InputError, ArithmeticError):
            continue
        if not isinstance(given, str) and 0 < given[0].std <= 1e4:
            found[float(case.n_keys), given[0].std, case.scale] = None
    return list(found)
