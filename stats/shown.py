"""Numbers, and what others wrote, in a sentence."""

from __future__ import annotations

import math


def short(value: float, digits: int = 4) -> str:
    """A number to four significant digits, as it would be said.

    Examples:
        >>> short(6.358192), short(8.0), short(2.6489e10), short(float("inf"))
        ('6.358', '8', '2.649e+10', 'infinite')

    """
    return f"{value:.{digits}g}" if math.isfinite(value) else "infinite"


def printable(text: str) -> str:
    r"""Text with what a terminal would act upon spelled out.

    Examples:
        >>> printable("a\x1b[31m, é")
        'a\\x1b[31m, é'

    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def error_said(error: BaseException, most: int = 200) -> str:
    r"""The kind of an error of the user's code and what it says, on one printable line.

    Examples:
        >>> error_said(ValueError("no\nweights")), error_said(KeyError())
        ('ValueError: no weights', 'KeyError')

    """
    try:
        said = " ".join(str(error).split())[:most]
    except Exception:  # an error whose text cannot be had is still an error
        said = ""
    name = printable(type(error).__name__)
    return f"{name}: {printable(said)}" if said else name


def shortened(value: object, most: int = 60) -> str:
    r"""What a file or a user said, quoted on one line and cut where it is long.

    Examples:
        >>> shortened("a\nb"), shortened("x" * 100, 12)
        ("'a\\nb'", "'xxxxxxxx...")

    """
    text = repr(value[: 2 * most] if isinstance(value, str | list) else value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
