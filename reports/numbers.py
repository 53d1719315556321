"""Numbers as people read them: an error in the last digits, never digits below the error."""

from __future__ import annotations

import math

_MOST_DIGITS = 12  # more would be rounding, not measurement


def with_error(value: float | None, error: float | None) -> str:
    """A value with its standard error in the last digits.

    The error is shown to two digits where its first is 1, otherwise to one.

    Examples:
        >>> with_error(63.9712, 0.0912), with_error(0.20571, 0.000143), with_error(4.0, 0.0)
        ('63.97(9)', '0.20571(14)', '4')
        >>> with_error(1234567.0, 2345.0)
        '1.235(2)e+06'

    """
    if value is None:
        return ""
    if not error or not math.isfinite(error) or not math.isfinite(value):
        return plain(value)
    place = last_place(error)
    size = max(_exponent(abs(value)) if value else place, place)
    if size - place > _MOST_DIGITS:
        return plain(value, _MOST_DIGITS)
    if -5 <= size <= 6 and place <= 0:
        return f"{_unsigned_zero(f'{value:.{-place}f}')}({_units(error, place)})"
    shown, exponent = f"{value:.{size - place}e}".split("e")
    if int(exponent) != size:  # it rounds to nothing, or up into the next power of ten
        size = max(int(exponent), place) if float(shown) else place
        shown = f"{value * 10.0**-size:.{size - place}f}"
    return f"{_unsigned_zero(shown)}({_units(error, place)})e{size:+03d}"


def last_place(error: float) -> int:
    """The power of ten of the last digit that an error leaves: its second if the first is 1.

    Examples:
        >>> last_place(0.0912), last_place(0.143), last_place(23.0)
        (-2, -2, 1)

    """
    digits, exponent = f"{error:.1e}".split("e")
    return int(exponent) - (digits[0] == "1")


def _units(error: float, place: int) -> int:
    digits = 1 if f"{error:.1e}"[0] == "1" else 0
    return round(float(f"{error:.{digits}e}") / 10.0**place)


def _exponent(size: float) -> int:
    return int(f"{size:e}".split("e")[1])


def _unsigned_zero(text: str) -> str:
    """No sign before a number that is shown as zero."""
    return text.lstrip("-+") if not float(text) else text


def plain(value: float | None, digits: int = 6) -> str:
    """A number to `digits` significant digits, without trailing zeros.

    Examples:
        >>> plain(8.0), plain(11.313708498984761), plain(1e-9), plain(None)
        ('8', '11.3137', '1e-09', '')

    """
    return "" if value is None else f"{value:.{digits}g}"


def percent(gap: float | None, error: float | None = None) -> str:
    """A gap in per cent with its sign, to two decimals or to what its error leaves of them.

    Examples:
        >>> percent(-0.000512), percent(0.25), percent(-1e-9), percent(None)
        ('-0.05', '+25.00', '0.00', '')
        >>> percent(0.0377, 0.03), percent(0.0377, 0.0012)
        ('+4', '+3.77')

    """
    if gap is None:
        return ""
    shown, room = 100 * gap, 100 * (error or 0.0)
    decimals = 2
    if room:
        decimals = max(0, min(2, -last_place(room))) if math.isfinite(room) else 0
    return _unsigned_zero(f"{shown:+.{decimals}f}" if abs(gap) < 10 else f"{shown:+.3g}")


def whole(count: int | None) -> str:
    """A count in full up to nine digits, beyond that to four.

    Examples:
        >>> whole(403919), whole(2_400_000_000_000)
        ('403919', '2.4e+12')

    """
    if count is None:
        return ""
    return str(count) if count < 1e9 else plain(float(count), 4)


def interval(value: float | list[float] | None, digits: int = 6) -> str:
    """Theory as shown: a number, or a bracket `low..high`."""
    if isinstance(value, list):
        return f"{plain(value[0], 4)}..{plain(value[1], 4)}"
    return plain(value, digits)


def deviate(z: float | None) -> str:
    """A z-score to two decimals, or fewer where it is large.

    Examples:
        >>> deviate(-0.001), deviate(-1.2), deviate(31622.8)
        ('0.00', '-1.20', '+31623')

    """
    if z is None:
        return ""
    if abs(z) < 100:
        return _unsigned_zero(f"{z:+.2f}")
    return f"{z:+.0f}" if abs(z) < 1e6 else f"{z:+.1e}"


def one_in(rate: float) -> str:
    """A rate in words.

    Examples:
        >>> one_in(1e-6), one_in(0.01), one_in(0.003)
        ('once in a million runs', 'once in 100 runs', 'once in 333 runs')

    """
    runs = 1 / rate
    for size, name in ((1e9, "a billion"), (1e6, "a million")):
        if math.isclose(runs, size):
            return f"once in {name} runs"
    return f"once in {runs:.0f} runs" if runs < 1e6 else f"once in {runs:.3g} runs"
