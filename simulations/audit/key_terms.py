"""Terms of the keys alone beside q.k, such as the squared lengths of an attention by distance.

What is added whatever the query may be a bias of the places. To tell, the keys change places: a
bias stays where it is, and a term of the keys goes with them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .black_box import Array, BlackBox
from .form import Form
from .seen_logits import SeenLogits, seen_logits

_ROOM = 100.0  # floors: less than that moves no weight by 2e-5 in float32
_LIKE = 1e-2  # how near what half the keys change is to that of a power


@dataclass(frozen=True, slots=True)
class _Moved:
    """What keys that change places change of the part that is even in q, and of their |k|^2."""

    change: Array
    squares: Array

    @property
    def rms(self) -> float:
        """Root mean square of the change."""
        return float(np.sqrt(np.mean(self.change**2))) if self.change.size else 0.0


def key_term(box: BlackBox, form: Form, seen: SeenLogits, floor: float) -> Form | None:
    """The form with its term of the keys, None where there is none."""
    moved = _moved(box, seen)
    if moved.rms <= _ROOM * floor:
        return None
    half = form.fitted(seen)[0] / 2
    if np.sqrt(np.mean((moved.change + half * moved.squares) ** 2)) <= _ROOM * floor:
        said = "Its logits are squared distances, -|q - k|^2/2 times the factor (L2 attention)."
        return replace(form, slug="l2-distance", said=said)
    # keys so small that no weight falls out of sight
    few, fewer = (_moved(box, seen_logits(box, n * seen.q, seen.k / n)).rms for n in (8, 16))
    less = fewer / few if few else 1.0
    kind = ""
    if abs(less / 0.5 - 1) < _LIKE:
        kind = ", linear in k, as of a vector that is added to every query"
    elif abs(less / 0.25 - 1) < _LIKE:
        kind = ", quadratic in k"
    said = f"Its logits have a term of the keys alone besides q.k{kind}: is that meant?"
    return Form("key-term", said, known=False)


def _moved(box: BlackBox, seen: SeenLogits) -> _Moved:
    other = seen_logits(box, seen.q, seen.k[:, ::-1])
    both = seen.kept & other.kept
    common = replace(seen, kept=both)
    even = []
    for one in (seen, other):
        full = np.zeros(both.shape)
        full[one.kept] = one.even
        even.append(common.centred(full))
    lengths = ((one.saw_k**2).sum(-1)[:, None, :] for one in (seen, other))
    squares = [common.centred(np.broadcast_to(x, both.shape)) for x in lengths]
    return _Moved(even[0] - even[1], squares[0] - squares[1])
