"""Sweep files: lists of values for each option, in TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..stats.checks import InputError, near_names
from ..stats.request import CaseOptions
from ..stats.requested import requested_rows
from ..stats.sweeps import OPTIONS, Asked, Sweep, sweep_of, table_of
from ..stats.toml_places import Place
from .files import read_text


@dataclass(frozen=True)
class SweepOptions:
    """Many cases at once.

    Parameters
    ----------
    sweep
        TOML file: options with lists of values (dk = [16, 64]), one row for each combination;
        each [[sweep]] table makes rows of its own, options above them hold for all.

    """

    sweep: str | None = None


def swept(sweep: str | Sequence[Mapping[str, object]] | None, cases: CaseOptions) -> Asked:
    """What is asked for: the options alone, or with the tables of a sweep or of its file."""
    if sweep is None:
        return cases
    return read_sweep(sweep, cases) if isinstance(sweep, str) else sweep_of(sweep, cases)


def read_sweep(path: str, base: CaseOptions) -> Sweep:
    """The sweep in a TOML file; `base` has the options that the file leaves out.

    Raises InputError with file and line for an unknown key and for a value that breaks a rule.
    """
    text = read_text(path, "sweep")
    try:
        data = tomllib.loads(text)
    except ValueError as error:
        raise InputError(f"{path} cannot be read as TOML: {error}") from None
    lines = tuple(text.splitlines())
    whole = Place(path, lines, 0, len(lines))
    tables = data.pop("sweep", [{}])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise whole.error("sweep", "sweep must be tables; write [[sweep]] above each")
    blocks = whole.blocks("sweep") or [whole]
    top = Place(path, lines, 0, blocks[0].first - 1) if blocks[0].first else whole
    common = _table(data, base, top)
    return Sweep(
        tuple(
            _checked(_table(table, common, place), {top: data, place: table})
            for table, place in zip(tables, blocks, strict=True)
        )
    )


def _table(given: Mapping[str, Any], base: CaseOptions, place: Place) -> CaseOptions:
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in OPTIONS:
            raise place.error(key, f"unknown option {key!r}; {near_names(name, OPTIONS)}")
        values = value if isinstance(value, list) else [value]
        for one in values:
            if isinstance(one, bool) or not isinstance(one, int | float | str):
                rule = f"{key} must be a value or a list of values, got {one!r}"
                raise place.error(key, f"{rule}; write {key} = [1, 2] or {key} = ['a', 'b']")
    return table_of({key.replace("-", "_"): value for key, value in given.items()}, base)


def _checked(table: CaseOptions, given: Mapping[Place, Mapping[str, Any]]) -> CaseOptions:
    """The table, if its rows can be; a complaint gets the line of the option that it names."""
    try:
        requested_rows(table)
    except InputError as error:
        words = str(error).replace("-", "_").replace("d_k", "dk").split()
        for place, options in given.items():
            for key in options:
                if key.replace("-", "_") in words:
                    raise place.error(key, str(error)) from None
        raise place.error("sweep", str(error)) from None
    return table
