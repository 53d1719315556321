"""Which keys a query sees by their distance: of itself, by a causal flag, in a window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...stats.audit.findings import Finding, judged
from .black_box import Array, Mask
from .subject import N_KEYS, Subject
from .tried import dead, weights_with

_SEEN = 1e-6
_AHEAD = np.arange(N_KEYS)[None, :] - np.arange(N_KEYS)[:, None]  # key less query
_WINDOW = 4
VANISHING = 1e-30  # weights near this may be 0 though their key is seen


def built_in(weights: Array, few: Array) -> list[Finding]:
    """What masks of the function's own leave to a query of each head.

    `weights` (head, query, key) are those of many keys, `few` those of 16. One later key besides
    all earlier ones is a mistake, and so is a mask that is causal for one of both lengths alone.
    """
    bands = [_band(of_head) for of_head in weights]
    keys = weights.shape[-1]
    where = f"{keys} keys"
    for head, (band, of_few) in enumerate(zip(bands, map(_band, few), strict=True)):
        if band == (1 - keys, 1):
            said = f"Without any mask query i sees keys {_said(band, keys)}, the one after its own "
            said += "too: is a causal mask off by one?"
            return [Finding("keys seen", where, "mismatch", said, "causal-off-by-one")]
        if band and of_few and (band[1] < 1) != (of_few[1] < 1):
            said = f"Query i of head {head} sees keys {_said(band, keys)} of {keys}, but keys "
            said += f"{_said(of_few, N_KEYS)} of {N_KEYS}."
            return [Finding("keys seen", where, "mismatch", said, "mask-by-length")]
    known = {band: [h for h in range(len(bands)) if bands[h] == band] for band in bands if band}
    if not known or list(known) == [(1 - keys, keys - 1)]:
        return _in_no_band(weights, where) if None in bands else []
    each = [f"keys {_said(band, keys)}" for band in known]
    if len(known) > 1:
        heads = [f" in head {', '.join(map(str, of_band))}" for of_band in known.values()]
        each = [said + head for said, head in zip(each, heads, strict=True)]
    cause = "causal" if list(known) in ([(1 - keys, 0)], [(1 - keys, -1)]) else "window"
    said = f"Without any mask query i sees {'; '.join(each)}."
    return [Finding("keys seen", where, "measured", said, cause)]


_Band = tuple[int, int]


def _band(weights: Array) -> _Band | None:
    """The least and the largest distance from query to key that is seen, where all between are.

    None for any other pattern, and where weights of 0 may be too small for the type.
    """
    seen = np.nan_to_num(weights) > 0
    if not seen.any() or (weights[seen].min() < VANISHING and not seen.all()):
        return None
    queries, keys = seen.shape
    ahead = np.arange(keys)[None, :] - np.arange(queries)[:, None]
    first, last = int(ahead[seen].min()), int(ahead[seen].max())
    return (first, last) if np.array_equal(seen, (ahead >= first) & (ahead <= last)) else None


def _in_no_band(weights: Array, where: str) -> list[Finding]:
    seen = np.nan_to_num(weights) > 0
    if seen.all() or weights[seen].min() < VANISHING:
        return []
    mean = seen.sum(-1).mean()
    said = f"A query sees {mean:.4g} of {seen.shape[-1]} keys on the mean, in no band."
    return [Finding("keys seen", where, "measured", said, "mask")]


def _said(band: _Band, keys: int) -> str:
    start = "0" if band[0] == 1 - keys else _place(band[0])
    return f"{start} to {keys - 1 if band[1] == keys - 1 else _place(band[1])}"


def _place(distance: int) -> str:
    return f"i{distance:+d}" if distance else "i"


def causal_findings(subject: Subject, name: str) -> Iterator[Finding]:
    """A causal flag must hide the later keys, those alone, before the softmax."""
    plain, causal = (weights_with(subject, name, value) for value in (False, True))
    where = f"{name}=True"
    if not (_AHEAD[_seen(plain)] > 0).any():
        said = f"No query sees a later key without {where} either: there is nothing for it to hide."
        yield Finding("argument", where, "measured", said)
        return
    if np.array_equal(plain, causal, equal_nan=True):
        yield dead(name)
        return
    seen, there = _seen(causal), _seen(plain)
    ahead = int(_AHEAD[seen].max())
    if ahead > 0:
        slug = "causal-off-by-one" if ahead == 1 else "causal-leaks"
        said = f"With {where} a query sees keys up to {ahead} after its own: the later ones leak."
        yield Finding("argument", where, "mismatch", said, slug, 0.0, float(ahead), 0.0)
        return
    if hidden := int((there & ~seen & (_AHEAD <= 0)).sum()):
        own = "its own key" if ahead < 0 else f"{hidden} of the keys that are not later"
        said = f"With {where} a query does not see {own}: is that meant?"
        yield Finding("argument", where, "undecided", said, "causal-hides", 0.0, float(ahead), 0.0)
        return
    said = not_renormalised(subject, name, plain, causal)
    numbers = {"expected": 0.0, "measured": float(ahead), "allowed": 0.0}
    yield judged("argument", where, not said, said, "mask-after-softmax", **numbers)


def window_findings(subject: Subject, name: str, flags: Sequence[str]) -> Finding:
    """What a window of 4 leaves to a query; conventions differ, so that it is not judged."""
    seen = _seen(weights_with(subject, name, _WINDOW))
    if np.array_equal(seen, _seen(weights_with(subject, name, 2 * _WINDOW))):
        causal = subject.given(dict.fromkeys(flags, True))  # it may act on causal attention alone
        both = [weights_with(causal, name, value) for value in (_WINDOW, 2 * _WINDOW)]
        if np.array_equal(both[0], both[1], equal_nan=True):
            return dead(name)
        seen = _seen(both[0])
    first, last = int(_AHEAD[seen].min()), int(_AHEAD[seen].max())
    said = (
        f"With {name}={_WINDOW} query i sees keys i{first:+d} to i{last:+d}; conventions differ, "
    )
    return Finding("argument", f"{name}={_WINDOW}", "measured", f"{said}not judged.", "window")


def not_renormalised(subject: Subject, name: str, plain: Array, hidden: Array) -> str:
    """What is wrong with the sums of rows that summed to 1 before keys were hidden, or ""."""
    before, after = plain.sum(-1), hidden.sum(-1)
    left = (plain * (hidden > 0)).sum(-1)  # rows without any key left are not judged
    rows = (np.abs(before - 1) <= 10 * subject.rtol) & (left > _SEEN) & np.isfinite(after)
    if not rows.any() or (off := np.abs(after[rows] - 1)).max() <= 10 * subject.rtol:
        return ""
    lowest = float(after[rows][np.argmax(off)])
    return (
        f"With {name}= rows sum to {lowest:.4g}, not to 1: are keys hidden after the softmax, "
        "without normalising anew?"
    )


def _seen(weights: Array) -> Mask:
    """Whether a query sees a key (query, key), in any head."""
    return np.asarray((np.nan_to_num(weights) > _SEEN).any(0))
