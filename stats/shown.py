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


def shortened(value: object, most: int = 60) -> str:
    r"""What a file or a user said, quoted on one line and cut where it is long.

    Examples:
        >>> shortened("a\nb"), shortened("x" * 100, 12)
        ("'a\\nb'", "'xxxxxxxx...")

    """
    text = repr(value[: 2 * most] if isinstance(value, str | list) else value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
