"""Figures of a training experiment: losses, what attention does meanwhile, heads, and maps."""

from __future__ import annotations

from collections.abc import Sequence

from ..record import Record
from .panels import Axis, Band, FigureData, Line, Map, Panel

_SHOWN = ("sqrt-dk", "none", "no-attention", "learnable:1", "score-layernorm", "qk-rmsnorm")
"""Arms that a panel shows, one for each colour; the rest are in the table."""
_BANDS = "Lines: means over replicates; bands: one standard deviation of a replicate either way."
_STEPS = Axis("step")


def losses(record: Record) -> FigureData:
    """Validation loss against steps, a panel for each experiment."""
    panels = [
        _panel(record, e, "validation_loss", Axis("validation loss (nats)"), e["name"])
        for e in record["experiments"]
    ]
    said = "Validation loss at the fixed rate, after the first steps."
    return FigureData("training", f"{said} {_BANDS}", tuple(panels))


def attention(record: Record) -> FigureData:
    """Standard deviation of the logits and entropy of their rows against steps."""
    panels = []
    for e in record["experiments"]:
        panels += [
            _panel(record, e, "logit_std", Axis("sd of the logits", "log"), f"{e['name']}: logits"),
            _panel(record, e, "entropy", Axis("entropy (nats)"), f"{e['name']}: rows"),
        ]
    said = "Standard deviation of the logits, and entropy of rows of 33 to 64 keys, last layer."
    return FigureData("attention", f"{said} {_BANDS}", tuple(panels))


def heads(record: Record) -> FigureData:
    """How much the heads' maps overlap, against steps."""
    panels = [
        _panel(record, e, "head_overlap", Axis("overlap of heads", limits=(0.0, 1.0)), e["name"])
        for e in record["experiments"]
    ]
    said = "Mean over pairs of heads of Σⱼ min(pⱼ, p′ⱼ), last layer: 1 where all maps are the same."
    return FigureData("heads", f"{said} {_BANDS}", tuple(panels))


def maps(record: Record) -> FigureData:
    """Attention maps after training, scaled beside unscaled: the first layer and head."""
    panels = [_map(one) for one in record["maps"]]
    said = "Attention weights of the first layer's first head on held-out text after training."
    return FigureData("maps", said, tuple(panels))


def _map(one: Record) -> Panel:
    rows = one["map"]
    places = tuple(float(i) for i in range(len(rows)))
    values = tuple((*map(float, row), *[0.0] * (len(rows) - len(row))) for row in rows)
    shown = Map(places, places, values, "weight", (0.0, 1.0), cells=True)
    title = f"{one['experiment']}: {one['arm']}"
    return Panel(title, Axis("key"), Axis("query"), map=shown)


def _panel(record: Record, experiment: Record, name: str, y: Axis, title: str) -> Panel:
    curves = [c for c in record["curves"] if c["experiment"] == experiment["name"]]
    known = [c for c in curves if c["arm"] in _SHOWN] if len(curves) > len(_SHOWN) else curves
    lines, bands = [], []
    for curve in known:
        values = curve[name]
        last = values if isinstance(values, dict) else values[-1]
        first = 1 if name == "validation_loss" else 0  # what all start from would flatten the rest
        line, band = _series(curve, last, first, _colour(curve["arm"], known))
        lines.append(line)
        bands.append(band)
    return Panel(title, _STEPS, y, tuple(lines), bands=tuple(bands))


def _colour(arm: str, curves: Sequence[Record]) -> int:
    """The same colour for the same arm in every panel; other arms have what is left."""
    if arm in _SHOWN:
        return _SHOWN.index(arm)
    drawn = [curve["arm"] for curve in curves]
    free = [i for i, name in enumerate(_SHOWN) if name not in drawn]
    return free[[name for name in drawn if name not in _SHOWN].index(arm)]


def _series(curve: Record, of: Record, first: int, colour: int) -> tuple[Line, Band]:
    """A curve with its band from a logged step on, without steps at which a replicate was lost."""
    points = list(zip(curve["steps"], of["mean"], of["sd"], strict=True))[first:]
    known = [(float(x), mean, sd or 0.0) for x, mean, sd in points if mean is not None]
    x, mean, sd = (tuple(column) for column in zip(*known, strict=True)) if known else ((), (), ())
    low = tuple(m - s for m, s in zip(mean, sd, strict=True))
    high = tuple(m + s for m, s in zip(mean, sd, strict=True))
    return Line(x, mean, curve["arm"], colour), Band(x, low, high, colour=colour)
