"""Check what a user hands in: every complaint is one line that says name, rule, got and way out."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches

from .shown import shortened

MAX_D_K = 2**20
MAX_N_KEYS = 10**6
MAX_MAGNITUDE = 1e9


class InputError(ValueError):
    """Something the user gave breaks a rule; the message is one line and names the way out."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))  # one line, whatever the user's value holds


def number(name: str, value: object, rule: str, allowed: Callable[[float], bool]) -> float:
    """`value` as a finite float that `allowed` accepts.

    Examples:
        >>> number("sigma", "1e3", "a positive number", lambda x: x > 0)
        1000.0

    """
    try:
        parsed = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be {rule}, got {shortened(value)}") from None
    if not math.isfinite(parsed) or not allowed(parsed):
        raise InputError(f"{name} must be {rule}, got {value}")
    return parsed


def positive(name: str, value: object) -> float:
    """`value` as a positive finite float."""
    return number(name, value, "a positive number", lambda x: x > 0)


def magnitude(name: str, value: object) -> float:
    """`value` as a positive number whose eighth powers neither overflow nor vanish."""
    parsed = positive(name, value)
    if not 1 / MAX_MAGNITUDE <= parsed <= MAX_MAGNITUDE:
        raise InputError(
            f"{name} must be from {1 / MAX_MAGNITUDE:g} to {MAX_MAGNITUDE:g}, got {value}; rescale"
        )
    return parsed


def non_negative(name: str, value: object) -> float:
    """`value` as a finite float that is not below 0."""
    return number(name, value, "a number of at least 0", lambda x: x >= 0)


def fraction(name: str, value: object, *, below: float = 1.0) -> float:
    """`value` as a number strictly between 0 and `below`."""
    return number(name, value, f"a number between 0 and {below:g}", lambda x: 0 < x < below)


def count(name: str, value: object, *, least: int = 1, most: float = math.inf) -> int:
    """`value` as a whole number in [least, most]; text such as `1e6` counts.

    Examples:
        >>> count("samples", "1e6")
        1000000

    """
    rule = "a positive integer" if least == 1 else f"an integer of at least {least}"
    if isinstance(value, bool):
        raise InputError(f"{name} must be {rule}, got {value}")
    if isinstance(value, int):
        parsed = value
    else:
        as_float = number(name, value, rule, lambda x: x == int(x))
        text = str(value).strip()
        parsed = int(text) if text.lstrip("+-").isdigit() else int(as_float)
    if parsed < least:
        raise InputError(f"{name} must be {rule}, got {value}")
    if parsed > most:
        raise InputError(f"{name} must be at most {most:.0f}, got {value}")
    return parsed


def choice(what: str, value: str, known: Collection[str]) -> str:
    """`value` if it is one of `known`; otherwise an error with the near names and the list."""
    if value in known:
        return value
    raise InputError(f"unknown {what} {value!r}; {near_names(value, known)}")


def near_names(value: str, known: Collection[str]) -> str:
    """The way out for a wrong name: the near ones, and all there are.

    Examples:
        >>> near_names("varience", ["variance", "mean"])
        'did you mean variance? known: variance, mean'

    """
    near = get_close_matches(value, list(known), n=2, cutoff=0.6)
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{guess}known: {', '.join(known)}"


def named(
    what: str, text: str, known: Collection[str], needs: Callable[[str], str | None]
) -> tuple[str, str | None]:
    """Split `name:parameter`; `needs(name)` says what the parameter is, None where there is none.

    Examples:
        >>> named("scale", "constant:8", ["none", "constant"], {"constant": "C"}.get)
        ('constant', '8')

    """
    name, colon, parameter = text.partition(":")
    choice(what, name, known)
    wanted = needs(name)
    if colon and wanted is None:
        raise InputError(f"{what} {name} takes no parameter, got {text!r}; write {name}")
    return name, parameter if colon else None


def no_duplicates(name: str, values: Iterable[object]) -> None:
    """Refuse a list that names one thing twice."""
    seen: set[object] = set()
    for value in values:
        if value in seen:
            raise InputError(f"{name} lists {value} twice; give each value once")
        seen.add(value)


def integer_range(name: str, items: Iterable[object], *, most: int) -> tuple[int, ...]:
    """Whole numbers, or `start:stop:xFACTOR` and `start:stop:+STEP` (stop included where hit).

    Examples:
        >>> integer_range("d_k", ["16:128:x2", 200], most=2**20)
        (16, 32, 64, 128, 200)
        >>> integer_range("d_k", ["8:24:+8"], most=2**20)
        (8, 16, 24)

    """
    values: list[int] = []
    for item in items:
        one = [] if ":" in str(item) else [count(name, item, most=most)]
        values += one or _expanded(name, item, most)
    if not values:
        raise InputError(f"{name} needs at least one value, got none; for example 16 32 64 128")
    no_duplicates(name, values)
    return tuple(values)


def _expanded(name: str, item: object, most: int) -> list[int]:
    parts = str(item).split(":")
    rule = f"{name} ranges are start:stop:xFACTOR or start:stop:+STEP, got {item}"
    if len(parts) != 3 or parts[2][:1] not in ("x", "+"):
        raise InputError(rule)
    start, stop = (count(name, part, most=most) for part in parts[:2])
    times = parts[2][0] == "x"
    step = count(f"{name} range step", parts[2][1:], least=2 if times else 1)
    if start > stop:
        raise InputError(f"{rule}; start must not exceed stop")
    values = [start]
    while (following := values[-1] * step if times else values[-1] + step) <= stop:
        values.append(following)
        if len(values) > 10_000:
            raise InputError(f"{name} range {item} has more than 10000 values; take a larger step")
    return values
