"""Read the tests of a claim: quantity, setting, readings and what is said of the value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any

from ..checks import InputError, count, near_names
from ..request import CaseOptions
from ..toml_places import Place
from .claim import FIGURES, ORDERS, Figure, Reading, Setting, Test, last_digit
from .names import check_quantity
from .settings import paired_cases, variants

SETTINGS = tuple(f.name for f in fields(CaseOptions) if f.name != "quantities")
_KEYS = "quantity setting versus draws digits readings universal qualitative"
TEST_KEYS = (*_KEYS.split(), *FIGURES)


def parse_tests(
    place: Place, given: dict[str, Any], readings: Mapping[str, tuple[Reading, ...]]
) -> tuple[Test, ...]:
    """The tests of one claim: those listed, or the one that its own keys spell out."""
    listed = given.get("tests", [])
    alone = {key: value for key, value in given.items() if key in TEST_KEYS}
    if not isinstance(listed, list) or (alone and listed):
        raise place.error("tests", "a claim has either one test or a list of tests, got both")
    places = place.blocks("claim.tests")
    if len(places) != len(listed):
        places = [place] * len(listed)
    if alone:
        listed, places = [alone], [place]
    return tuple(_test(p, t, readings) for p, t in zip(places, listed, strict=True))


def _test(place: Place, given: Any, readings: Mapping[str, tuple[Reading, ...]]) -> Test:
    if not isinstance(given, dict):
        raise place.error("tests", f"a test must be a table, got {given!r}")
    place.known_keys(given, TEST_KEYS, "key of a test")
    quantity = given.get("quantity")
    if not isinstance(quantity, str):
        raise place.error("quantity", f"quantity must be a text, got {quantity!r}")
    _checked_quantity(place, quantity)
    draws = given.get("draws")
    for key in ("universal", "qualitative"):
        if not isinstance(given.get(key, False), bool):
            raise place.error(key, f"{key} must be true or false, got {given[key]!r}")
    chosen = given.get("readings", [])
    if isinstance(chosen, str):
        if chosen not in readings:
            near = near_names(chosen, readings) if readings else "the file has none"
            raise place.error("readings", f"unknown readings {chosen!r}; {near}")
        choices = readings[chosen]
    elif isinstance(chosen, dict):
        choices = tuple(_reading(place, name, change) for name, change in chosen.items())
    else:
        choices = ()
    versus = given.get("versus")
    test = Test(
        quantity=quantity,
        figure=_figure(place, given),
        setting=_setting(place, "setting", given.get("setting", {})),
        versus=None if versus is None else _setting(place, "versus", versus),
        draws=None if draws is None else _count(place, "draws", draws, 2),
        readings=choices,
        universal=given.get("universal", False),
        qualitative=given.get("qualitative", False),
    )
    try:
        for variant in variants(test):
            paired_cases(*variant)
    except InputError as error:
        raise place.error("setting", str(error)) from None
    return test


def _figure(place: Place, given: dict[str, Any]) -> Figure:
    kinds = [key for key in FIGURES if key in given]
    if len(kinds) != 1:
        said = " and ".join(kinds) or "none"
        raise place.error(
            kinds[-1] if kinds else "quantity",
            f"what is claimed needs exactly one of {', '.join(FIGURES)}, got {said}",
        )
    kind: Any = kinds[0]
    value = given[kind]
    if kind == "order":
        if value not in ORDERS or "versus" not in given:
            raise place.error(
                kind, f"order must be greater or less, beside a versus, got {value!r}"
            )
        return Figure(kind, order=value, text=f"{value} than versus")
    items = value if isinstance(value, list) else [value]
    if kind == "between" and len(items) != 2:
        raise place.error(kind, f"between must be [low, high], got {value!r}")
    if not items or not all(finite(item) for item in items):
        raise place.error(kind, f"{kind} must be a number or a list of numbers, got {value!r}")
    digits = given.get("digits")
    if digits is not None:
        digits = _count(place, "digits", digits, 1)
    decimals = [Decimal(item) for item in items]
    units = [last_digit(number, digits if number else None) for number in decimals]
    finest = min(units)
    units = [finest if isinstance(i, int) else u for i, u in zip(items, units, strict=True)]
    shown = ", ".join(str(item).lower() for item in items)
    text = f"[{shown}]" if isinstance(value, list) else shown
    return Figure(kind, tuple(map(float, decimals)), tuple(units), text=text)


def finite(item: object) -> bool:
    """Whether a TOML value is a finite number."""
    if isinstance(item, Decimal):
        return item.is_finite()
    return isinstance(item, int) and not isinstance(item, bool)


def _setting(place: Place, key: str, given: Any, also: tuple[str, ...] = ()) -> Setting:
    if not isinstance(given, dict):
        raise place.error(key, f"{key} must be a table such as {{dk = 64}}, got {given!r}")
    place.known_keys(given, (*SETTINGS, *also), "setting")
    for name, value in given.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, bool) or not isinstance(item, (str, int, Decimal)):
                raise place.error(name, f"{name} must be a number, a name or a list, got {item!r}")
    return given


def parse_readings(place: Place, tables: Any) -> dict[str, tuple[Reading, ...]]:
    """Groups of readings by name: `[readings.GROUP]` with a table of settings for each."""
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise place.error("readings", f"readings must be tables of settings, got {tables!r}")
    return {
        group: tuple(_reading(place, reading, given) for reading, given in table.items())
        for group, table in tables.items()
    }


def _reading(place: Place, name: str, given: Any) -> Reading:
    if not isinstance(given, dict):
        raise place.error(name, f"reading {name} must be a table of settings, got {given!r}")
    changed = {key: value for key, value in given.items() if key != "quantity"}
    quantity = given.get("quantity")
    if quantity is not None:
        _checked_quantity(place, quantity)
    return Reading(name, _setting(place, name, changed, also=("quantity",)), quantity)


def _count(place: Place, key: str, value: object, least: int) -> int:
    try:
        return count(key, value, least=least)
    except InputError as error:
        raise place.error(key, str(error)) from None


def _checked_quantity(place: Place, quantity: Any) -> None:
    try:
        check_quantity(str(quantity))
    except InputError as error:
        raise place.error("quantity", str(error)) from None
