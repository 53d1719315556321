"""Read claim files: TOML text in, claims out; every complaint names file, line, key and near key.

What can go wrong: TOML readers forget where a key stood and how many digits a number had. Numbers
are therefore read as decimals, and the line of a key is looked up in the text.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..checks import InputError, near_names
from ..toml_places import Place
from ..training.documents import STATEMENTS
from .claim import ANY, VERDICTS, Claim, ClaimFile, Free, Reading
from .tests import SETTINGS, TEST_KEYS, finite, parse_readings, parse_tests

_KEYS = "id source statement expect note tests training experiment missing premise consistent joint"
_TRAINED = tuple(statement.id for statement in STATEMENTS)
_CLAIM_KEYS = (*_KEYS.split(), *TEST_KEYS)


def parse_claims(text: str, name: str) -> ClaimFile:
    r"""The claims in a TOML text; `name` is what errors call the file.

    Raises InputError for text that is not TOML, unknown or missing keys, wrong values, two claims
    of one id, and references to claims or readings that the file does not have.

    Examples:
        >>> text = '[[claim]]\nid = "1"\nstatement = "sd 8 at 64"\nquantity = "std"\n'
        >>> parse_claims(text + "setting = {dk = 64}\nclaimed = 8.0", "mine").claims[0].id
        '1'

    """
    place = Place(name, tuple(text.splitlines()), 0, len(text.splitlines()))
    try:
        table = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} cannot be read as TOML: {error}") from None
    place.known_keys(table, ("documents", "readings", "expect", "claim"), "key")
    given = table.get("claim", [])
    if not isinstance(given, list) or not given:
        raise place.error("claim", "a claim file needs claims; write [[claim]] before each")
    readings = parse_readings(place, table.get("readings", {}))
    places = place.blocks("claim")
    if len(places) != len(given):
        places = [place] * len(given)  # claims written as an inline array
    documents = _texts(place, "documents", table.get("documents", {}))
    expect = _expected(place, table, None)
    claims = tuple(_claim(p, c, readings, expect) for p, c in zip(places, given, strict=True))
    _check_references(places, claims, documents)
    return ClaimFile(name, documents, claims)


def _texts(place: Place, key: str, table: object) -> dict[str, str]:
    if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
        raise place.error(key, f"{key} must be a table of texts, got {table!r}")
    return table


def _expected(place: Place, given: Mapping[str, Any], default: str | None) -> str | None:
    """What is expected of a claim, or of all claims of a file that do not say."""
    known = (*VERDICTS, ANY)
    expect: str | None = given.get("expect", default)
    if expect is not None and expect not in known:
        near = near_names(str(expect), known)
        raise place.error("expect", f"unknown verdict {expect!r}; {near}")
    return expect


def _claim(
    place: Place, given: Any, readings: Mapping[str, tuple[Reading, ...]], expect: str | None
) -> Claim:
    if not isinstance(given, dict):
        raise place.error("claim", f"a claim must be a table, got {given!r}")
    place.known_keys(given, _CLAIM_KEYS, "key of a claim")
    for key in ("id", "statement"):
        if not isinstance(given.get(key), str) or not given[key].strip():
            raise place.error(key, f"a claim needs {key}, a text, got {given.get(key)!r}")
    for key in ("source", "note", "training", "experiment", "missing", "premise"):
        if key in given and not isinstance(given[key], str):
            raise place.error(key, f"{key} must be a text, got {given[key]!r}")
    experiment = given.get("experiment", "")
    if experiment and experiment not in _TRAINED:
        near = near_names(experiment, _TRAINED)
        raise place.error("experiment", f"unknown statement {experiment!r}; {near}")
    if experiment and not given.get("training"):
        raise place.error("experiment", "experiment needs training, which says what it is for")
    tests = parse_tests(place, given, readings)
    joint = given.get("joint", [])
    if not isinstance(joint, list) or not all(isinstance(name, str) for name in joint):
        raise place.error("joint", f"joint must be a list of ids, got {joint!r}")
    if not tests and not joint and not given.get("training") and not given.get("missing"):
        raise place.error("id", f"claim {given['id']} needs a quantity and what is said of it")
    return Claim(
        id=given["id"],
        source=given.get("source", ""),
        statement=" ".join(given["statement"].split()),
        tests=tests,
        expect=_expected(place, given, expect),
        training=given.get("training", ""),
        experiment=experiment,
        missing=given.get("missing", ""),
        premise=given.get("premise"),
        consistent=_free(place, given.get("consistent")),
        joint=tuple(joint),
        note=" ".join(given.get("note", "").split()),
    )


def _free(place: Place, given: Any) -> Free | None:
    if given is None:
        return None
    keys = ("with", "parameter", "low", "high")
    if not isinstance(given, dict) or set(given) != set(keys):
        raise place.error("consistent", f"consistent must have {', '.join(keys)}, got {given!r}")
    if given["parameter"] not in SETTINGS:
        name = str(given["parameter"])
        raise place.error("parameter", f"unknown setting {name!r}; {near_names(name, SETTINGS)}")
    low, high = given["low"], given["high"]
    if not (finite(low) and finite(high) and 0 < low < high):
        raise place.error("low", f"consistent needs 0 < low < high, got {low} and {high}")
    return Free(str(given["with"]), given["parameter"], float(low), float(high))


def _check_references(
    places: list[Place], claims: tuple[Claim, ...], documents: Mapping[str, str]
) -> None:
    ids = [claim.id for claim in claims]
    for i, (place, claim) in enumerate(zip(places, claims, strict=True)):
        if claim.id in ids[:i]:
            raise place.error("id", f"id {claim.id} names two claims; give each one its own")
        named = [("premise", claim.premise), *(("joint", name) for name in claim.joint)]
        if claim.consistent:
            named.append(("consistent", claim.consistent.claim))
        for key, name in named:
            if name is not None and (name not in ids or name == claim.id):
                raise place.error(key, f"unknown claim {name!r} in {key}; {near_names(name, ids)}")
        if documents and claim.source not in documents:
            near = near_names(claim.source, documents)
            raise place.error("source", f"unknown source {claim.source!r}; {near}")
