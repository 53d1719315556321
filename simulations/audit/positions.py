"""Whether the factor is the same for every key, query and head, and for many keys.

Kernels work in blocks of keys and carry a running maximum from one to the next: an error there
shows in later blocks alone, so that as many keys as two of the usual blocks, and a rest, are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...stats.audit.findings import Finding, judged
from ...stats.audit.known import Point
from ...stats.failures import InconclusiveError
from .black_box import Array, Mask
from .compared import about_means
from .form import Form, floor_of
from .scaling import first_line
from .seen_logits import LEAST_WEIGHT, seen_in_range
from .subject import N_KEYS, Subject
from .windows import VANISHING, built_in

MANY = 272  # two blocks of 128 keys and a rest of 16
MANY_COARSE = 144  # in half precision, which NumPy multiplies slowly
_CHUNK = 16  # the smallest block that kernels use
_EACH = slice(None)
_ALL = (_EACH, _EACH, _EACH)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Logits (head, query, key) of many keys beside what they should be, where both are seen."""

    weights: Array
    odd: Array
    even: Array
    wanted: Array
    kept: Mask
    floor: float

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return int(self.odd.shape[-1])

    def slopes(self, parts: list[tuple[slice, ...]]) -> tuple[Array, float]:
        """The slope of logits on what they should be in each part, and the rms of what is left.

        A part is (heads, queries, keys); logits are taken about their row means over its keys.
        """
        slopes, left, points = [], 0.0, 0
        for part in parts:
            kept = self.kept[part]
            x, y = (about_means(array[part], kept) for array in (self.wanted, self.odd))
            below = float((x * x).sum())
            slopes.append(float((x * y).sum()) / below if below else 1.0)
            left += float(((y - slopes[-1] * x) ** 2).sum())
            points += int(kept.sum())
        return np.array(slopes), float(np.sqrt(left / max(points, 1)))


def position_findings(
    subject: Subject, form: Form, base: Point
) -> tuple[list[Point], list[Finding]]:
    """The factor at many keys, and what differs between keys, queries, heads and lengths."""
    if base.factor == 0:
        return [], []
    try:
        if (wrong := _not_finite(subject)) is not None:
            return [], [wrong]
        rows = _rows(subject, form, base)
        few = subject.box.weights(*subject.draw(subject.d_k))[0]
    except InconclusiveError:
        said = f"Not checked: with {many_keys(subject)} keys each query shows too few of them."
        return [], [Finding("many keys", "", "measured", said, "too-little-seen")]
    except (Exception, SystemExit) as error:  # a function may be made for short rows alone
        said = f"With many keys it fails: {first_line(error)}."
        return [], [Finding("many keys", "", "measured", said)]
    if (wrong := _lost(rows, few) or _difference(rows, base, subject)) is not None:
        return [], [wrong]
    factor = base.factor * float(rows.slopes([_ALL])[0][0])
    allowed = 3 * subject.rtol
    right = abs(factor / base.factor - 1) <= allowed
    said = f"The factor depends on the number of keys: {base.factor:.6g} at {base.n_keys}."
    finding = _found(rows, right, base.factor, factor, allowed, said, "factor-by-length")
    more = [] if right else [Point(base.d_k, base.n_heads, rows.keys, factor)]
    shifted = [] if form.slug == "l2-distance" else _added(rows)
    return more, [finding, *built_in(rows.weights, few), *shifted]


def _added(rows: _Rows) -> list[Finding]:
    """What is added to logits by the places of query and key, whatever the query: no defect."""
    largest = float(np.abs(about_means(rows.even, rows.kept)).max())
    if largest <= 10 * rows.floor:
        return []
    said = (
        f"Logits are shifted by up to {largest:.4g} by the places of query and key (ALiBi, a bias "
        "by position); not judged."
    )
    return [Finding("bias", f"{rows.keys} keys", "measured", said, "position-bias")]


def _found(
    rows: _Rows,
    right: bool,
    expected: float,
    measured: float,
    allowed: float,
    said: str,
    cause: str,
) -> Finding:
    numbers = {"expected": expected, "measured": measured, "allowed": allowed}
    return judged("many keys", f"{rows.keys} keys", right, said, cause, **numbers)


def many_keys(subject: Subject) -> int:
    """Keys of the checks that need many, by the precision."""
    return MANY if subject.rtol < 1e-3 else MANY_COARSE


def _rows(subject: Subject, form: Form, base: Point) -> _Rows:
    q, k = subject.draw(subject.d_k, many_keys(subject))
    q, k = form.grown[0] * q, form.grown[1] * k
    seen = seen_in_range(subject.box, q, k)
    plus, minus = (subject.box.weights(sign * seen.q, k)[0] for sign in (1, -1))
    kept = (plus >= LEAST_WEIGHT) & (minus >= LEAST_WEIGHT)
    odd, even = (np.where(kept, (np.log(plus) + sign * np.log(minus)) / 2, 0.0) for sign in (-1, 1))
    floor = 100 * floor_of(seen, subject.d_k)
    return _Rows(plus, odd, even, form.logits(base.factor, seen), kept, floor)


def _difference(rows: _Rows, base: Point, subject: Subject) -> Finding | None:
    """What differs from block to block of keys, from query to query or from head to head.

    Each is held to explain all that is seen; where none does, the many keys are wrong in a way
    that has no name.
    """
    heads, queries, _ = rows.odd.shape
    axes: dict[str, list[tuple[slice, ...]]] = {
        "key": [(_EACH, _EACH, chunk) for chunk in _chunks(rows.keys)],
        "query": [(_EACH, slice(i, i + 1), _EACH) for i in range(queries)],
        "head": [(slice(h, h + 1), _EACH, _EACH) for h in range(heads)],
    }
    for axis, parts in axes.items():
        slopes, left = rows.slopes(parts)
        if left > rows.floor:
            continue
        off = np.abs(slopes / slopes[-1 if axis == "query" else 0] - 1) > 300 * subject.rtol
        if not off.any():
            return _shifted(rows) if axis == "key" else None
        return _by_axis(rows, axis, base.factor * slopes, off, 300 * subject.rtol)
    left = rows.slopes([_ALL])[1]
    said = f"Logits of many keys are off by {left:.3g} (rms) in a way that has no known cause."
    return _found(rows, False, 0.0, left, rows.floor, said, "many-keys-wrong")


def _by_axis(rows: _Rows, axis: str, factors: Array, off: Mask, allowed: float) -> Finding:
    one, other = (-1, 0) if axis == "query" else (0, int(np.argmax(off)))
    step = _CHUNK if axis == "key" else 1
    where = [f"{axis} {index % len(factors) * step}" for index in (one, other)]
    said = (
        f"The factor depends on the {axis}: {factors[one]:.6g} at {where[0]}, "
        f"{factors[other]:.6g} at {where[1]}."
    )
    numbers = float(factors[one]), float(factors[other]), allowed
    return _found(rows, False, *numbers, said, f"factor-by-{axis}")


def _chunks(keys: int) -> list[slice]:
    return [slice(first, first + _CHUNK) for first in range(0, keys, _CHUNK)]


def _not_finite(subject: Subject) -> Finding | None:
    """Rows of nan or inf that a few keys do not have; a row without any key is nan there too."""
    few, many = (
        subject.box.weights(*subject.draw(subject.d_k, n_keys))[0]
        for n_keys in (N_KEYS, many_keys(subject))
    )
    before, bad = (int((~np.isfinite(weights)).any(-1).sum()) for weights in (few, many))
    if bad <= before:
        return None
    keys, rows = many.shape[-1], many.shape[0] * many.shape[1]
    said = f"With {keys} keys {bad} of {rows} rows are nan or inf, with {N_KEYS} {before}."
    return Finding(
        "many keys", f"{keys} keys", "mismatch", said, "not-finite", float(before), float(bad)
    )


def _lost(rows: _Rows, few: Array) -> Finding | None:
    """Keys without any weight in a head, such as a rest that is no whole block.

    As many of the last keys of a few are lost by design, as in strictly causal attention; weights
    that vanish beside those that are lost may be too small for the type.
    """
    for head, (weights, of_few) in enumerate(zip(rows.weights, few, strict=True)):
        lost, known = (np.flatnonzero(~(x > 0).any(0)) for x in (weights, of_few))
        last = [np.arange(x.shape[-1])[x.shape[-1] - len(known) :] for x in (weights, of_few)]
        if not len(lost) or (np.array_equal(lost, last[0]) and np.array_equal(known, last[1])):
            continue
        beside = np.setdiff1d(np.clip([*(lost - 1), *(lost + 1)], 0, rows.keys - 1), lost)
        if np.nan_to_num(weights)[:, beside].max(initial=0.0) < VANISHING:
            continue
        where = "any row" if len(rows.weights) == 1 else f"any row of head {head}"
        said = f"{len(lost)} of {rows.keys} keys have no weight in {where}, the first is key "
        said += f"{lost[0]}."
        return _found(rows, False, rows.keys, rows.keys - len(lost), 0.0, said, "keys-dropped")
    return None


def _shifted(rows: _Rows) -> Finding | None:
    """Blocks whose logits are shifted against the first block's, unlike from row to row."""
    chunks, kept = _chunks(rows.keys), rows.kept
    left = rows.odd - rows.wanted * rows.slopes([_ALL])[0][0]
    counts = np.stack([kept[..., chunk].sum(-1) for chunk in chunks], -1)
    sums = [np.where(kept[..., c], left[..., c], 0.0).sum(-1) for c in chunks]
    means = np.where(counts > 0, np.stack(sums, -1) / np.maximum(counts, 1), np.nan)
    shifts = np.nan_to_num(np.abs(means - means[..., :1])).max((0, 1))
    if (largest := float(shifts.max())) <= rows.floor:
        return None
    first = chunks[int(np.argmax(shifts > rows.floor))].start
    said = (
        f"From key {first} on logits are shifted against those of the first keys, by up to "
        f"{largest:.3g} and not alike in all rows: is the running sum rescaled where a new block "
        "raises the maximum?"
    )
    return _found(rows, False, 0.0, largest, rows.floor, said, "block-rescaling")
