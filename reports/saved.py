"""Saved records handed in again: checked before anything is made of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from ..stats.checks import InputError
from ..stats.quantities import QUANTITIES
from .command import command_line
from .files import read_text
from .record import OWN_ROWS, PROVENANCE, SCHEMA_VERSION, Record, rates_of

DESIGN = ("false_alarm", "power", "tolerance", "tests")
_Test = Callable[[Any], bool]


def read_records(paths: Iterable[str]) -> list[Record]:
    """The records in JSON files, each checked; InputError names the file and what is wrong."""
    return [checked_record(_parsed(path), path) for path in paths]


def _parsed(path: str) -> object:
    try:
        return json.loads(read_text(path, "record"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"record {path} must be JSON: {error}; --format json writes it") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def checked_record(data: object, name: str) -> Record:
    """`data` as a record, every key there and of its type.

    Raises InputError, in one line, for another schema version, a missing key or a wrong type.

    Examples:
        >>> checked_record({"schema_version": 9}, "run.json")
        Traceback (most recent call last):
        ...
        verify_variance.stats.checks.InputError: schema_version of run.json must be 1, got 9; make \
the record with this version (--format json)

    """
    if not isinstance(data, dict) or "schema_version" not in data:
        raise InputError(
            f"{name} must be a record, got other JSON; verify-variance --format json writes one"
        )
    if data["schema_version"] != SCHEMA_VERSION:
        raise InputError(
            f"schema_version of {name} must be {SCHEMA_VERSION}, got {data['schema_version']!r}; "
            "make the record with this version (--format json)"
        )
    _check(data, _RECORD, name)
    _check(data["design"], _DESIGN, f"design of {name}")
    _check(data["provenance"], dict.fromkeys(PROVENANCE, _anything), f"provenance of {name}")
    if data["command"] in OWN_ROWS:
        _check_shown(data, name)
        return data
    for number, row in enumerate(data["rows"], 1):
        _check(row, _ROW, f"row {number} of {name}")
        if row["verdict"] in _JUDGED:
            _check(row, _OF_JUDGED, f"row {number} of {name}")
    _check_verdicts(data, name)
    return data


def _check_shown(data: Record, name: str) -> None:
    """InputError where a record of a command with rows of its own cannot be shown."""
    from .figures.catalogue import TRAINING
    from .page.parts import own_section
    from .result import Result

    try:
        Result(data).text(), Result(data).table("csv")
        own_section(data), command_line(data)
        for make in TRAINING.values() if data["command"] == "train" else ():
            make(data)
    except (
        KeyError,
        TypeError,
        IndexError,
        ValueError,
        AttributeError,
        StopIteration,
        OverflowError,
    ):
        raise InputError(
            f"{name} must be a whole record of {data['command']}, got one that lacks some of it; "
            "save the record again"
        ) from None


def _check_verdicts(data: Record, name: str) -> None:
    """Refuse verdicts that no row of its command has, and judged rows without error rates."""
    verdicts = {row["verdict"] for row in data["rows"]}
    if data["command"] == "predict":
        known: set[object] = {None}
    else:
        known = {*_JUDGED, "measured"}
    if wrong := verdicts - known:
        raise InputError(
            f"verdict of a row of {name} must be one of {', '.join(map(str, known))}, "
            f"got {_short(wrong.pop())}; save the record again"
        )
    if verdicts & set(_JUDGED):
        _check(data["design"], _RATES, f"design of {name}")
        rates_of(data)  # refuses rates that are none


def _check(given: Any, rules: Mapping[str, _Test], name: str) -> None:
    if not isinstance(given, dict):
        raise InputError(f"{name} must be an object, got {_short(given)}; save the record again")
    for key, right in rules.items():
        if key not in given:
            raise InputError(f"{name} must have {key}, got none; save the record again")
        if not right(given[key]):
            raise InputError(
                f"{key} in {name} must be {_EXPECTED[right]}, got {_short(given[key])}; "
                "save the record again"
            )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _anything(value: object) -> bool:
    return True


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_optional_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e308


def _is_optional_number(value: object) -> bool:
    return value is None or _is_number(value)


def _is_optional_count(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)


def _is_theory(value: object) -> bool:
    pair = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
    return pair or _is_optional_number(value)


def _is_quantity(value: object) -> bool:
    return isinstance(value, str) and value in QUANTITIES


_EXPECTED: dict[_Test, str] = {
    _is_object: "an object",
    _is_rows: "a list of at least one row",
    _is_text: "text",
    _is_quantity: "the name of a quantity (see verify-variance catalogue)",
    _is_optional_text: "text or null",
    _is_number: "a number",
    _is_optional_number: "a number or null",
    _is_optional_count: "a whole number of at least 1, or null",
    _is_theory: "a number, a pair of numbers or null",
}
_RECORD: dict[str, _Test] = {
    "command": _is_text,
    "verdict": _is_optional_text,
    "request": _is_object,
    "design": _is_object,
    "provenance": _is_object,
    "rows": _is_rows,
}
_DESIGN: dict[str, _Test] = dict.fromkeys(DESIGN, _is_optional_number)
_RATES: dict[str, _Test] = dict.fromkeys(("false_alarm", "power", "tests"), _is_number)
_JUDGED = ("match", "mismatch", "undecided")
_OF_JUDGED: dict[str, _Test] = {
    "draws": _is_number,
    **dict.fromkeys(["estimate", "mcse", "gap", "z", "tolerance", "detectable"], _is_number),
}
_TEXTS = "elements weights ensemble scale transform dtype theory_kind formula verdict note"
_NUMBERS = "estimate mcse gap z p_value p_adjusted ci_low ci_high tolerance detectable"
_ROW: dict[str, _Test] = {
    "quantity": _is_quantity,
    "theory": _is_theory,
    "parameters": _is_object,
    **dict.fromkeys(("d_k", "n_keys", "draws"), _is_optional_count),
    **dict.fromkeys(_TEXTS.split(), _is_optional_text),
    **dict.fromkeys(_NUMBERS.split(), _is_optional_number),
}
