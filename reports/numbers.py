"""Numbers as people read them: an error in the last digits, never digits below the error."""

from __future__ import annotations

import math


def with_error(value: float | None, error: float | None) -> str:
    """A value with its standard error in the last digits.

    The error is shown to two digits where the first is 1, otherwise to one.

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
    rounded = f"{error:.0e}"
    place = int(rounded.split("e")[1]) - (rounded[0] == "1")  # power of ten of the last digit
    size = math.floor(math.log10(abs(value))) if value else place
    if (place <= 0 and -5 <= size <= 6) or place == 0:
        decimals = -place
        return f"{value:.{decimals}f}({round(error * 10**decimals)})"
    size = max(size, place)
    decimals = size - place
    return f"{value / 10.0**size:.{decimals}f}({round(error / 10.0**place)})e{size:+03d}"


def plain(value: float | None, digits: int = 6) -> str:
    """A number to `digits` significant digits, without trailing zeros.

    Examples:
        >>> plain(8.0), plain(11.313708498984761), plain(1e-9), plain(None)
        ('8', '11.3137', '1e-09', '')

    """
    return "" if value is None else f"{value:.{digits}g}"


def percent(gap: float | None) -> str:
    """A gap in per cent, with its sign.

    Examples:
        >>> percent(-0.000512), percent(0.25), percent(None)
        ('-0.05', '+25.00', '')

    """
    if gap is None:
        return ""
    return f"{100 * gap:+.2f}" if abs(gap) < 10 else f"{100 * gap:+.3g}"


def interval(value: float | list[float] | None, digits: int = 6) -> str:
    """Theory as shown: a number, or a bracket `low..high`."""
    if isinstance(value, list):
        return f"{plain(value[0], 4)}..{plain(value[1], 4)}"
    return plain(value, digits)


def deviate(z: float | None) -> str:
    """A z-score to two decimals, or fewer where it is large."""
    if z is None:
        return ""
    return f"{z:+.2f}" if abs(z) < 100 else f"{z:+.0f}"


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
