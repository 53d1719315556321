"""Numbers in a sentence."""

from __future__ import annotations

import math


def short(value: float, digits: int = 4) -> str:
    """A number to four significant digits, as it would be said.

    Examples:
        >>> short(6.358192), short(8.0), short(2.6489e10), short(float("inf"))
        ('6.358', '8', '2.649e+10', 'infinite')

    """
    return f"{value:.{digits}g}" if math.isfinite(value) else "infinite"
