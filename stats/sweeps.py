"""Sweeps: several tables of options, each a product of its lists, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from .cases import Case
from .checks import InputError, choice
from .request import CaseOptions, options_of
from .requested import requested_rows

OPTIONS = tuple(field.name for field in fields(CaseOptions))


@dataclass(frozen=True)
class Sweep:
    """Tables of options; their rows stand in the order of the tables."""

    tables: tuple[CaseOptions, ...]


Asked = CaseOptions | Sweep


def sweep_of(tables: Sequence[Mapping[str, object]], base: CaseOptions) -> Sweep:
    """A sweep from tables as a Python caller writes them; `base` has what they leave out.

    Examples:
        >>> sweep = sweep_of([{"elements": "laplace"}, {"sigma": [1, 2]}], CaseOptions(dk=("8",)))
        >>> [(case.elements, case.sigma_q) for case, _ in asked_rows(sweep)]
        [('laplace', 1.0), ('normal', 1.0), ('normal', 2.0)]

    """
    if not tables:
        raise InputError("a sweep needs at least one table, got none; drop the sweep, or fill it")
    return Sweep(tuple(table_of(table, base) for table in tables))


def table_of(table: Mapping[str, object], base: CaseOptions) -> CaseOptions:
    """The options of one table: what it names, and the rest from `base`."""
    for name in table:
        choice("option", name, OPTIONS)
    named = options_of(CaseOptions, dict(table))
    return replace(base, **{name: getattr(named, name) for name in table})


def asked_rows(asked: Asked) -> list[tuple[Case, str]]:
    """Every (case, quantity) asked for, in order: that of `requested_rows` within each table.

    Raises InputError for a row that two tables ask for.
    """
    if isinstance(asked, CaseOptions):
        return requested_rows(asked)
    found: dict[tuple[Case, str], int] = {}
    for number, table in enumerate(asked.tables, 1):
        for case, quantity in requested_rows(table):
            if (before := found.setdefault((case, quantity), number)) != number:
                raise InputError(
                    f"sweep tables {before} and {number} both ask for the {quantity} of "
                    f"{case.canonical()}; ask for each row once"
                )
    return list(found)
