"""The catalogue: everything that can be named, with formula, needs and source."""

from __future__ import annotations

import textwrap

from ..stats.elements import ELEMENTS
from ..stats.quantities import QUANTITIES
from ..stats.scales import SCALES
from ..stats.transforms.catalogue import TRANSFORMS
from ..stats.weights.schemes import TIED, WEIGHTS
from ..stats.weights.tokens import TOKENS
from .markup import tabulated
from .table import WIDTH

_HEADERS = ("kind", "name", "formula", "needs", "source")


def entries() -> list[dict[str, str]]:
    """One dict for each entry, with the keys kind, name, formula, needs and source."""
    rows = [
        ("elements", _spelled(name, law.symbol), law.formula, law.needs, law.source)
        for name, law in ELEMENTS.items()
    ]
    rows += [
        ("weights", _spelled(name, law.symbol), law.formula, ", ".join(law.needs), law.source)
        for name, law in (WEIGHTS | {"tied": TIED}).items()
    ]
    rows += [
        ("tokens", name, formula, "d_model", source) for name, (formula, source) in TOKENS.items()
    ]
    rows += [
        (
            "scale",
            _spelled(name, ":".join(p.symbol for p in scale.parameters) or None),
            scale.formula,
            ", ".join([*scale.needs, *(p.meaning for p in scale.parameters)]),
            scale.source,
        )
        for name, scale in SCALES.items()
    ]
    rows += [
        (
            "transform",
            _spelled(name, ":".join(p.symbol for p in transform.parameters) or None),
            f"{transform.formula}. Theory: {transform.theory}",
            ", ".join(p.meaning for p in transform.parameters),
            transform.source,
        )
        for name, transform in TRANSFORMS.items()
    ]
    rows += [
        ("quantity", name, q.symbol, "" if q.of_pairs else "n_keys", q.meaning)
        for name, q in QUANTITIES.items()
    ]
    return [dict(zip(_HEADERS, row, strict=True)) for row in rows]


def _spelled(name: str, parameter: str | None) -> str:
    return name if parameter is None else f"{name}:{parameter.upper()}"


def catalogue(form: str = "plain") -> str:
    """The catalogue as a table in one of the formats, or as JSON."""
    listed = entries()
    if form == "json":
        import json

        return json.dumps(listed, indent=2)
    if form in ("csv", "tsv"):
        import pandas as pd

        text: str = pd.DataFrame(listed).to_csv(sep="," if form == "csv" else "\t", index=False)
        return text.rstrip("\n")
    if form == "plain":
        return "\n\n".join(
            _block(kind, listed) for kind in dict.fromkeys(entry["kind"] for entry in listed)
        )
    return tabulated([list(e.values()) for e in listed], _HEADERS, form, [True] * len(_HEADERS))


def _lines(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH - 27, break_long_words=False, break_on_hyphens=False)


def _block(kind: str, listed: list[dict[str, str]]) -> str:
    """One kind as an indented list: tables of formulas are wider than a terminal."""
    lines = [f"{kind}"]
    for entry in listed:
        if entry["kind"] == kind:
            needs = f"needs {entry['needs']}; " if entry["needs"] else ""
            said = [*_lines(entry["formula"]), *_lines(needs + entry["source"])]
            names = [entry["name"], *[""] * (len(said) - 1)]
            lines += [f"  {name:<24} {line}" for name, line in zip(names, said, strict=True)]
    return "\n".join(lines)
